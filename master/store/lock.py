"""A lock that permits one master at a time for one database file.

Programs that replace or repair the file take it too, so that no master writes in the meantime.
`sole` does the same for PostgreSQL.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from catena.core.errors import InvalidStateError
from catena.core.files import private_folder
from catena.master.store import file_kinds

#: Maximum number of bytes read from a lock file.
_NOTE_BYTES = 4096


@contextmanager
def held(database: Path, wanted_for: str) -> Iterator[None]:
    """Lock *database* against other masters while the block runs.

    Two locks are taken. The one beside the file, found through symbolic links, exists before the
    database does. The one on the file itself excludes a master that uses another hard link to it.
    SQLite's own locks are of another kind (fcntl) and conflict with neither.

    Args:
        database: the file.
        wanted_for: purpose of the lock, for the error.

    Raises:
        InvalidStateError: another master uses it; the message names its process and its start.
            Or one of its files is a folder or a pipe.
    """
    file_kinds.refuse_special(Path(os.path.realpath(database)))
    path = path_of(database)
    private_folder(path.parent)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    own = -1
    try:
        _take(handle, database, wanted_for, _holder(handle))
        own = _open_file(database)
        if own >= 0:
            _take(own, database, wanted_for, "under another of its names")
        _note_holder(handle)
        yield
    finally:
        # Close the database file last, because that releases SQLite's locks in this process.
        os.close(handle)
        if own >= 0:
            os.close(own)


def path_of(database: Path) -> Path:
    """Return the lock file of a database, the same for every symbolic link to it."""
    real = Path(os.path.realpath(database))
    return real.with_name(f"{real.name}.lock")


def _open_file(database: Path) -> int:
    try:
        return os.open(database, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1


def _take(handle: int, database: Path, wanted_for: str, who: str) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InvalidStateError(
            f"{database}: a master runs with it ({who}), so {wanted_for} is not possible"
        ) from None


def _note_holder(handle: int) -> None:
    """Write the holder into the lock file, for the error message of others."""
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    note = {"host": socket.gethostname(), "pid": os.getpid(), "since": since}
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(note).encode(), 0)
    except OSError:
        # A full disk: the lock is held without the note.
        return


def _holder(handle: int) -> str:
    """Return the holder that the lock file names, for an error message."""
    try:
        note = json.loads(os.pread(handle, _NOTE_BYTES, 0))
        return f"pid {int(note['pid'])} on {note['host']!s:.64}, since {note['since']!s:.32}"
    except (ValueError, KeyError, TypeError, OSError):
        return "an older version"
