"""One master at a time for one database file.

PostgreSQL may serve several masters; a file may not, and what replaces or repairs it must know
that nobody writes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from catena.core.errors import InvalidStateError
from catena.core.files import private_folder


@contextmanager
def held(database: Path, wanted_for: str) -> Iterator[None]:
    """Keep every other master away from *database* while the block runs.

    Args:
        database: the file; its lock lies beside it.
        wanted_for: what can't be done otherwise, for the error.

    Raises:
        InvalidStateError: a master has it.
    """
    path = private_folder(database.parent) / f"{database.name}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidStateError(
                f"{database}: a master runs with it, so that {wanted_for} is not possible"
            ) from None
        yield
    finally:
        os.close(handle)
