"""The master's settings of the C library's allocator and of Python's garbage collector.

glibc gives each busy thread an arena and returns little memory from between blocks in use. The
loop, the store's threads and libzmq free what another thread allocated. A master with a thousand
minions therefore held twice the memory that it used, and kept growing. Other C libraries lack
these calls; with them nothing is done.

Python collects cyclic garbage after every 700 new objects. A thousand returns that wait for a
commit are fifty thousand objects, all in use: scanning them took a fifth of the master's time.
"""

from __future__ import annotations

import ctypes
import gc

from catena.core import heap

#: Parameter of `mallopt` (malloc.h): maximum number of arenas.
_M_ARENA_MAX = -8
#: One for the loop and one more: Python's lock lets only one thread at a time allocate.
ARENAS = 2
#: Thresholds for gc.set_threshold(): more objects than wait for a commit on a busy master, so
#: that these are gone before they would be scanned.
LOOKS = (100_000, 10, 10)


def share_memory() -> None:
    """Let threads share arenas, and reuse freed large blocks; call it before threads start."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)
    heap.keep_large()


def give_back() -> None:
    """Collect garbage among the younger objects, and return free pages to the system.

    Takes milliseconds.
    """
    gc.collect(1)
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


def look_seldom() -> None:
    """Make Python's garbage collection rarer; call it before many objects are made."""
    gc.set_threshold(*LOOKS)
