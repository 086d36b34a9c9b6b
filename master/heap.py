"""What the C library keeps of the memory that the master has freed.

glibc gives each busy thread an arena of its own and returns little of what lies between pieces in
use. The loop, the store's threads and libzmq's free what another one made, so a master with a
thousand minions held twice the memory that it used, and ever more. Other C libraries have neither
call: there nothing is done.
"""

from __future__ import annotations

import ctypes

#: `mallopt`'s name for the largest number of arenas (malloc.h).
_M_ARENA_MAX = -8
#: One for the loop and one beside it: Python's lock lets no more of our threads allocate at once.
ARENAS = 2


def few_arenas() -> None:
    """Let threads share arenas; call it before there are any threads."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Return whole free pages to the system; takes milliseconds, and lets other threads run."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))
