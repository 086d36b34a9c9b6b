"""Lists of values in statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def padded(values: Iterable[T]) -> list[T]:
    """Return values for `IN (…)`, the last one repeated up to a power of two.

    Each length is a separate statement, and the driver caches the last 128 statements. One with a
    thousand values takes about 140 KB.
    """
    found = list(values)
    if found:
        found += found[-1:] * ((1 << (len(found) - 1).bit_length()) - len(found))
    return found


def slices(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield *values* in slices of at most *size*; a statement takes at most 32 766 values."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
