"""Large pieces of memory that are used again and again: kept by the C library, or given back.

A piece of a file is two megabytes in each of its forms. glibc asks the system for each anew and
gives it back at once: 100 MB are 100 000 pages that are made, cleared and thrown away, a third of
the time of who receives them. Other C libraries have no such call: there nothing is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

#: `mallopt`'s names (malloc.h): what is so large that the system is asked for it alone, and how
#: much that is free at an arena's end goes back at once.
_M_MMAP_THRESHOLD = -3
_M_TRIM_THRESHOLD = -1
LARGE_BYTES = 4 * 1024 * 1024
FREE_BYTES = 16 * 1024 * 1024
#: What both are in a process that nobody has told otherwise (mallopt(3)).
_USUAL_BYTES = 128 * 1024


def keep_large() -> None:
    """Let what large pieces leave be used by the next ones, from now on."""
    _set(LARGE_BYTES, FREE_BYTES)


@contextmanager
def large_kept() -> Iterator[None]:
    """Do so while something large comes piece by piece; what it leaves goes back at the end."""
    keep_large()
    try:
        yield
    finally:
        _set(_USUAL_BYTES, _USUAL_BYTES)
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(ctypes.c_size_t(0))


def _set(large: int, free: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, large)
        mallopt(_M_TRIM_THRESHOLD, free)
