"""Refuse folders, pipes and the like in the place of the database's files.

SQLite reports a folder as an I/O error, and opening a pipe waits for ever.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from catena.core.errors import InvalidStateError

#: What SQLite and the lock append to the name of the database.
_SUFFIXES = ("", "-wal", "-shm", "-journal", ".lock")
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def refuse_special(database: Path) -> None:
    """Refuse a database of which one file is no regular file; missing files are accepted.

    Raises:
        InvalidStateError: the message names the file, its kind and the remedy.
    """
    for path, kind in _special(database):
        lost = "" if path != database else "; if the database is lost: catena store restore BACKUP"
        raise InvalidStateError(f"{path} is {kind}, not a file: move it away{lost}")


def _special(database: Path) -> Iterator[tuple[Path, str]]:
    for suffix in _SUFFIXES:
        path = database.with_name(f"{database.name}{suffix}")
        try:
            kind = stat.S_IFMT(path.stat().st_mode)
        except FileNotFoundError:
            continue
        if kind != stat.S_IFREG:
            yield path, _KINDS.get(kind, "of an unknown kind")
