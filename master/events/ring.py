"""The newest events in memory, so that followers need not read them from the database."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import takewhile

from catena.core.events import Event

#: Maximum number of events.
RING = 4096
#: Maximum bytes of their packed data; as Python objects they take several times as much. An event
#: may have a value of a quarter of a megabyte, so 4 096 of them could take a gigabyte.
RING_BYTES = 8 * 1024 * 1024


class EventRing:
    """Keeps the newest events within two limits; its positions have no gaps but the table's own.

    Args:
        count: maximum number of events.
        size: maximum bytes of their packed data.
    """

    def __init__(self, count: int = RING, size: int = RING_BYTES) -> None:
        self._count = count
        self._size = size
        self._kept: deque[tuple[Event, int]] = deque()
        self._held = 0

    @property
    def first(self) -> int | None:
        """Return the position of the oldest event in memory; None if there is none."""
        return self._kept[0][0].seq if self._kept else None

    def add(self, event: Event, size: int) -> None:
        """Add the newest event, of *size* bytes packed, and remove the oldest beyond the limits.

        The newest event is kept however large it is.
        """
        self._kept.append((event, size))
        self._held += size
        while len(self._kept) > 1 and (len(self._kept) > self._count or self._held > self._size):
            self._held -= self._kept.popleft()[1]

    def after(self, position: int, limit: int) -> Sequence[Event] | None:
        """Return up to *limit* events after *position*; None if some of them were removed."""
        first = self.first
        if first is None or first > position + 1:
            return None
        newest = takewhile(lambda kept: kept[0].seq > position, reversed(self._kept))
        return [event for event, _ in newest][::-1][:limit]
