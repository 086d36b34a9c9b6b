"""A large file that is written once, past the system's cache of files, while more of it comes.

What is synced at its end waits for the disk anyway. Through the cache each of its pages is made
first (100 MB are 25 000, up to 0.2 s of a virtual machine's CPU), pushes out what the host works
with, and waits for the end to be written. Where a file system does not know such writing (open(2),
O_DIRECT) the cache takes it as any other.
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

#: A smaller file is worth its place in the cache: who writes it mostly reads it soon.
LARGE_BYTES = 32 * 1024 * 1024
#: What is written at a time. From and to whole pages: the disk takes it from where it lies.
WRITE_BYTES = 1024 * 1024
#: One is filled while the other is written.
_PIECES = 2

#: Takes the next bytes of a file.
Write = Callable[[Union[bytes, memoryview]], None]


@contextmanager
def writing(handle: int, size: int) -> Iterator[Write]:
    """Yield how to write the next bytes of an open, empty file that will be of *size* bytes.

    All is written, not synced, when the context ends without an error.

    Raises:
        OSError: it can't be written; from a later write, or from the end, of which part it came.
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
    """Fills pieces, and has a thread write them in turn."""

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
        """Write the rest, which is no whole piece, by the cache."""
        self.stop()
        self._check()
        _past_cache(self._handle, False)
        write_all(self._handle, memoryview(self._piece)[: self._filled])

    def stop(self) -> None:
        """Return when what was given to the thread is written, or failed."""
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
            # This file system wants other places or sizes: nothing of this call was written, but
            # perhaps of one before it, so that the position says where to go on.
            if error.errno != errno.EINVAL or not _past_cache(self._handle, False):
                raise
            done = os.lseek(self._handle, 0, os.SEEK_CUR) % WRITE_BYTES
            write_all(self._handle, piece[done:])


def _past_cache(handle: int, wanted: bool) -> bool:
    """Have an open file written past the cache, or by it; return whether the system can."""
    flag = getattr(os, "O_DIRECT", 0)
    if not flag:
        return False
    found = fcntl.fcntl(handle, fcntl.F_GETFL)
    try:
        fcntl.fcntl(handle, fcntl.F_SETFL, found | flag if wanted else found & ~flag)
    except OSError:
        return False
    return True
