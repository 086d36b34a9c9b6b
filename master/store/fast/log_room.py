"""Preallocation of SQLite's write-ahead log on disk, before commits need the space.

Each commit syncs the log. If the log has grown, the file system must first commit its own journal
to record the new blocks, together with the data of other programs. While another program wrote
files, the median sync of 20 KB took 0.6 ms, one in four over 3 ms and one in twenty over 11 ms.
With existing blocks, the median was 0.3 ms, and one in four took over 0.4 ms.

SQLite restarts its log from the beginning once all of it is in the database, which happens at
`CHECKPOINT_PAGES`. After each start it would have to grow until then, so it is filled with zeros
up to that size. They do not change its content, which ends before the first frame without the
salts of its header (https://www.sqlite.org/fileformat2.html#the_write_ahead_log). Stale frames of
the last round are always behind that end, too.
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

#: Number of pages in the log at which they are copied to the database file: 16 MB.
CHECKPOINT_PAGES = 4000
#: Bytes of a page with the header of its frame.
_FRAME_BYTES = 4096 + 24
#: Length of the log in bytes; the commit that reaches the checkpoint may exceed it by some pages.
LOG_BYTES = (CHECKPOINT_PAGES + 100) * _FRAME_BYTES
#: Maximum bytes written in one transaction, so that other transactions wait only briefly.
STEP_BYTES = 1024 * 1024
#: Minimum free disk space in bytes; a fuller disk needs its space otherwise.
FREE_BYTES = 32 * LOG_BYTES


async def preallocate(write: Callable[[Callable[[sa.Connection], bool]], Awaitable[bool]]) -> None:
    """Lengthen a store's log step by step; after a failure the store works without that.

    Args:
        write: runs a function in a transaction of the store's writer.
    """
    try:
        while await write(lengthen):
            pass
    except CatenaError as error:
        LOG.warning("can't preallocate the database's write-ahead log: %s", error)


def lengthen(conn: sa.Connection) -> bool:
    """Write zeros behind the log's end, one step; return whether more steps are needed.

    The running transaction prevents all other writes to the log, so nothing is overwritten.

    Args:
        conn: of the writer.
    """
    database = conn.engine.url.database
    if direct.sqlite(conn) is None or not database:
        return False
    try:
        return _lengthen(f"{database}-wal")
    except OSError as error:
        LOG.warning("can't preallocate the database's write-ahead log: %s", error)
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
