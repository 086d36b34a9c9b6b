"""What the master does about its memory beside using it: the C library's and Python's habits.

glibc gives each busy thread an arena of its own and returns little of what lies between pieces in
use. The loop, the store's threads and libzmq's free what another one made, so a master with a
thousand minions held twice the memory that it used, and ever more. Other C libraries have neither
call: there nothing is done.

Python looks for garbage in cycles with every 700 new objects. A thousand returns that wait for a
commit are fifty thousand, all in use: a fifth of the master's time went into looking at them.
"""

from __future__ import annotations

import ctypes
import gc

from catena.core import heap

#: `mallopt`'s name (malloc.h) for the largest number of arenas.
_M_ARENA_MAX = -8
#: One for the loop and one beside it: Python's lock lets no more of our threads allocate at once.
ARENAS = 2
#: New objects until the youngest are looked at, and looks until older ones are. More than what
#: waits for a commit on a busy master, so that it is gone before it would be looked at.
LOOKS = (100_000, 10, 10)


def share_memory() -> None:
    """Let threads share arenas, and large pieces their room; call it before there are threads."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)
    heap.keep_large()


def give_back() -> None:
    """Free what garbage there is among the younger objects, and return whole free pages.

    Takes milliseconds.
    """
    gc.collect(1)
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


def look_seldom() -> None:
    """Have Python look for garbage in cycles less often; call it before much is made."""
    gc.set_threshold(*LOOKS)
