"""The newest events in memory, so that followers need not read what was just written."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import takewhile

from catena.core.events import Event

#: Events that are kept at most.
RING = 4096
#: What they hold, packed, at most: as Python's objects it is some times as much. An event may
#: carry a value of a quarter of a megabyte, and 4 096 of those were a gigabyte.
RING_BYTES = 8 * 1024 * 1024


class EventRing:
    """Keeps the newest events within two bounds; positions in it have no gap but the table's own.

    Args:
        count: of events.
        size: bytes of their packed data.
    """

    def __init__(self, count: int = RING, size: int = RING_BYTES) -> None:
        self._count = count
        self._size = size
        self._kept: deque[tuple[Event, int]] = deque()
        self._held = 0

    @property
    def first(self) -> int | None:
        """Return the position of the oldest event that is kept; None without one."""
        return self._kept[0][0].seq if self._kept else None

    def add(self, event: Event, size: int) -> None:
        """Keep the newest event, of *size* bytes packed, and forget what is too much.

        The newest alone is kept however large it is.
        """
        self._kept.append((event, size))
        self._held += size
        while len(self._kept) > 1 and (len(self._kept) > self._count or self._held > self._size):
            self._held -= self._kept.popleft()[1]

    def after(self, position: int, limit: int) -> Sequence[Event] | None:
        """Return the oldest events after *position*, at most *limit*; None where some are gone."""
        first = self.first
        if first is None or first > position + 1:
            return None
        newest = takewhile(lambda kept: kept[0].seq > position, reversed(self._kept))
        return [event for event, _ in newest][::-1][:limit]
