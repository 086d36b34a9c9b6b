"""Settings of the C library's allocator for large blocks that are allocated repeatedly.

A piece of a file takes two megabytes in each of its forms. By default glibc maps each block anew
and returns it at once. For 100 MB the kernel maps and clears 100 000 pages, which takes a third of
the receiver's time. Other C libraries lack mallopt(); with them this module does nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

#: Parameters of `mallopt` (malloc.h): size from which a block is mapped separately, and free bytes
#: at the end of an arena above which memory is returned at once.
_M_MMAP_THRESHOLD = -3
_M_TRIM_THRESHOLD = -1
LARGE_BYTES = 4 * 1024 * 1024
FREE_BYTES = 16 * 1024 * 1024
#: Default of both parameters in bytes (mallopt(3)).
_USUAL_BYTES = 128 * 1024


def keep_large() -> None:
    """Let freed large blocks be reused from now on, instead of returned to the system."""
    _set(LARGE_BYTES, FREE_BYTES)


@contextmanager
def large_kept() -> Iterator[None]:
    """Do so during the block, for a large transfer in pieces; return free memory at its end."""
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
