"""Room on the disk for SQLite's log of writes, made before commits need it.

Each commit syncs the log. One that has grown makes the file system commit its own journal first,
to say where the new blocks lie, and with it goes out what others wrote meanwhile: beside a program
that writes files a sync of 20 KB took 0.6 ms, one in four over 3 and one in twenty over 11. Into
blocks that are there it took 0.3 ms, and 0.4.

SQLite writes its log from the beginning again when all of it has gone into the database, which is
when it holds `CHECKPOINT_PAGES`. Until then, after each start, it would grow. So it is filled up
to there with zeros. They change nothing of what it says: it ends before the first frame without
the salts of its header (https://www.sqlite.org/fileformat2.html#the_write_ahead_log), and stale
frames of its last round always stand behind that end.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable

import sqlalchemy as sa

from catena.core.errors import CatenaError
from catena.core.files import no_room, write_all
from catena.master.store.fast import direct

LOG = logging.getLogger(__name__)

#: Pages of SQLite's log until they go into the file: 16 MB. Most are those of the commit before.
CHECKPOINT_PAGES = 4000
#: A page and the head of its frame, bytes.
_FRAME_BYTES = 4096 + 24
#: How long the log is to be: the commit that reaches the checkpoint may pass it by some pages.
LOG_BYTES = (CHECKPOINT_PAGES + 100) * _FRAME_BYTES
#: So much is written in one transaction: others wait no longer for theirs than a moment.
STEP_BYTES = 1024 * 1024
#: So much must be free on the disk: a fuller one has other worries.
FREE_BYTES = 32 * LOG_BYTES


async def make(write: Callable[[Callable[[sa.Connection], bool]], Awaitable[bool]]) -> None:
    """Lengthen a store's log, a step at a time; without success things go on as before.

    Args:
        write: runs a function in a transaction of the store's writer.
    """
    try:
        while await write(lengthen):
            pass
    except CatenaError as error:
        LOG.warning("the database's log gets no room beforehand: %s", error)


def lengthen(conn: sa.Connection) -> bool:
    """Write zeros behind the log's end, one step; return whether more is to be done.

    The running transaction keeps everybody else from writing to the log: nobody adds to it where
    the zeros go.

    Args:
        conn: of the writer.
    """
    database = conn.engine.url.database
    if direct.sqlite(conn) is None or not database:
        return False
    try:
        return _lengthen(f"{database}-wal")
    except OSError as error:
        LOG.warning("the database's log gets no room beforehand: %s", error)
        return False


def _lengthen(path: str) -> bool:
    handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(handle).st_size
        disk = os.fstatvfs(handle)
        missing = LOG_BYTES - size
        if missing <= 0 or disk.f_bavail * disk.f_frsize < FREE_BYTES:
            return False
        os.lseek(handle, size, os.SEEK_SET)
        try:
            write_all(handle, bytes(min(missing, STEP_BYTES)))
            os.fdatasync(handle)
        except OSError as error:
            if no_room(error):
                os.ftruncate(handle, size)
            raise
        return missing > STEP_BYTES
    finally:
        os.close(handle)
