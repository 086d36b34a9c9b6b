"""Writing of a large new file past the page cache while its data is still arriving.

Such a file is synced at its end, so it waits for the disk anyway. Through the cache, the kernel
first creates every page (100 MB are 25 000 pages, up to 0.2 s of a virtual machine's CPU), evicts
pages in use, and writes only at the end. On a file system without O_DIRECT (open(2)) the cache is
used.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Callable, Iterator, Optional, Union

from catena.core.files import write_all

#: Smaller files go through the cache: their writer usually reads them soon.
LARGE_BYTES = 32 * 1024 * 1024
#: Bytes per write, in whole pages as O_DIRECT requires.
WRITE_BYTES = 1024 * 1024
#: Number of buffers: one is filled while the other is written.
_PIECES = 2

#: Writes the next bytes of a file.
Write = Callable[[Union[bytes, memoryview]], None]


@contextmanager
def writing(handle: int, size: int) -> Iterator[Write]:
    """Yield a function that writes the next bytes of an open, empty file of *size* bytes.

    All data is written but not synced when the block ends without an error.

    Raises:
        OSError: a write failed; raised by a later write or at the end of the block.
    """
    if size < LARGE_BYTES or not _past_cache(handle, True):
        yield lambda data: write_all(handle, data)
        return
    writer = _Writer(handle)
    try:
        yield writer.write
        writer.finish()
    finally:
        writer.stop()
        _past_cache(handle, False)


class _Writer:
    """Fills buffers, and writes them in order in a thread."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._free: SimpleQueue[mmap.mmap] = SimpleQueue()
        self._full: SimpleQueue[Optional[mmap.mmap]] = SimpleQueue()
        for _ in range(_PIECES):
            self._free.put(mmap.mmap(-1, WRITE_BYTES))
        self._piece = self._free.get()
        self._filled = 0
        self._fault: Optional[OSError] = None
        self._thread = threading.Thread(target=self._work, name="catena-direct", daemon=True)
        self._thread.start()

    def write(self, data: Union[bytes, memoryview]) -> None:
        left = memoryview(data)
        while left:
            taken = left[: WRITE_BYTES - self._filled]
            self._piece[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            left = left[len(taken) :]
            if self._filled == WRITE_BYTES:
                self._full.put(self._piece)
                self._piece = self._free.get()
                self._filled = 0
                self._check()

    def finish(self) -> None:
        """Write the rest, which is less than a whole buffer, through the cache."""
        self.stop()
        self._check()
        _past_cache(self._handle, False)
        write_all(self._handle, memoryview(self._piece)[: self._filled])

    def stop(self) -> None:
        """Return when the thread has written all buffers or has failed."""
        self._full.put(None)
        self._thread.join()

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _work(self) -> None:
        for piece in iter(self._full.get, None):
            try:
                if self._fault is None:
                    self._put(memoryview(piece))
            except OSError as error:
                self._fault = error
            self._free.put(piece)

    def _put(self, piece: memoryview) -> None:
        try:
            write_all(self._handle, piece)
        except OSError as error:
            # The file system requires another alignment. This call wrote nothing, but earlier ones
            # may have written part of the buffer; the file position tells where to continue.
            if error.errno != errno.EINVAL or not _past_cache(self._handle, False):
                raise
            done = os.lseek(self._handle, 0, os.SEEK_CUR) % WRITE_BYTES
            write_all(self._handle, piece[done:])


def _past_cache(handle: int, wanted: bool) -> bool:
    """Set or clear O_DIRECT on an open file; return whether that is supported."""
    flag = getattr(os, "O_DIRECT", 0)
    if not flag:
        return False
    found = fcntl.fcntl(handle, fcntl.F_GETFL)
    try:
        fcntl.fcntl(handle, fcntl.F_SETFL, found | flag if wanted else found & ~flag)
    except OSError:
        return False
    return True
