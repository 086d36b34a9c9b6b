"""The master's settings of the C library's allocator and of Python's garbage collector.

glibc gives each busy thread an arena and returns little memory from between blocks in use. The
loop, the store's threads and libzmq free memory that another thread allocated. Without these
settings, a master with a thousand minions holds twice the memory that it uses, and grows. Other C
libraries lack these calls, and nothing is done.

Python collects cyclic garbage after every 700 new objects. A thousand returns that wait for a
commit are fifty thousand objects, all in use; scanning them takes a fifth of the master's time.
"""

from __future__ import annotations

import ctypes
import gc

from catena.core import heap

#: Parameter of `mallopt` (malloc.h): maximum number of arenas.
_M_ARENA_MAX = -8
#: Maximum number of arenas. Python's lock lets only one thread at a time allocate.
ARENAS = 2
#: Arguments of gc.set_threshold(). The first exceeds the number of objects that wait for a commit
#: on a busy master, so that they are freed before a scan.
GC_THRESHOLDS = (100_000, 10, 10)


def share_memory() -> None:
    """Let threads share arenas, and reuse freed large blocks; call it before threads start."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)
    heap.keep_large()


def trim() -> None:
    """Collect garbage among the younger objects, and return free pages to the system.

    It takes some milliseconds.
    """
    gc.collect(1)
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(ctypes.c_size_t(0))


def collect_rarely() -> None:
    """Make Python's garbage collection rarer; call it before many objects are made."""
    gc.set_threshold(*GC_THRESHOLDS)
