"""Queues of events, processed in order, that use a limited amount of memory.

A queue holds its first events whole. Beyond the limits it defers events: it holds only their
positions, about one byte each, and reads the events from the event table again when those before
them are processed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgpack

from catena.core.errors import TryLaterError
from catena.core.events import Event

LOG = logging.getLogger(__name__)

#: Maximum number of whole events in one queue, and of events that a queue reads again at a time.
QUEUE_EVENTS = 1000
#: Maximum bytes of their packed data; as Python objects they take several times as much.
QUEUE_BYTES = 1024 * 1024
#: Failed attempts to read an event before its queue goes on without it, if the table can be read.
READ_TRIES = 3
#: Position that no event has, to find out whether the table can be read.
_NO_POSITION = 0
#: Shared limits of several queues, as a multiple of the limits of one queue.
FULL_QUEUES = 16


@dataclass(frozen=True, slots=True)
class QueuedEvent:
    """An event and the files to render for it."""

    event: Event
    files: Sequence[str]
    #: Bytes of the event's packed data.
    size: int

    @classmethod
    def of(cls, event: Event, files: Sequence[str]) -> QueuedEvent:
        """Return *event* with its size."""
        return cls(event, files, len(msgpack.packb(event.data, default=str)))


#: Reads the stored events at ascending positions; leaves out deleted ones.
ReadEvents = Callable[[Sequence[int]], Awaitable[Sequence[QueuedEvent]]]


class QueueMemory:
    """Counts the whole events of several queues."""

    def __init__(self) -> None:
        self._count = 0
        self._size = 0

    def fits(self, count: int, size: int) -> bool:
        """Return whether *count* more events of *size* bytes keep within the shared limits."""
        return (
            self._count + count <= FULL_QUEUES * QUEUE_EVENTS
            and self._size + size <= FULL_QUEUES * QUEUE_BYTES
        )

    def add(self, count: int, size: int) -> None:
        """Count *count* events of *size* bytes; both are negative for removed events."""
        self._count += count
        self._size += size


class _Page:
    """Positions of deferred events that are read again together.

    The positions in a flood are close to each other, so the distance to the next usually takes one
    byte.

    Args:
        first: position of the first event, which `append` adds.
    """

    __slots__ = ("_distances", "_last", "count", "first", "size")

    def __init__(self, first: int) -> None:
        self.first = first
        self.count = 0
        #: Bytes of the events' packed data.
        self.size = 0
        self._last = first
        #: Distances between positions, in groups of seven bits, the lowest first. The bit 0x80
        #: marks groups that another group of the same distance follows.
        self._distances = bytearray()

    def is_full(self) -> bool:
        """Return whether the page has as many events as a queue reads again at a time."""
        return self.count >= QUEUE_EVENTS or self.size >= QUEUE_BYTES

    def append(self, position: int, size: int) -> None:
        """Add the position of an event of *size* bytes."""
        distance = position - self._last
        while distance > 0x7F:
            self._distances.append(0x80 | distance & 0x7F)
            distance >>= 7
        self._distances.append(distance)
        self._last = position
        self.count += 1
        self.size += size

    def positions(self) -> list[int]:
        """Return all positions, in order."""
        found = []
        position, distance, shift = self.first, 0, 0
        for group in self._distances:
            distance |= (group & 0x7F) << shift
            shift += 7
            if group <= 0x7F:
                position += distance
                found.append(position)
                distance = shift = 0
        return found

    def after(self, count: int, size: int) -> _Page | None:
        """Return a page without the first *count* events of *size* bytes; None if none remains."""
        rest = self.positions()[count:]
        if not rest:
            return None
        page = _Page(rest[0])
        for position in rest:
            page.append(position, 0)
        page.size = max(self.size - size, 0)
        return page


class EventQueue:
    """A queue with one reader, which calls `head`, processes the event and calls `remove_head`.

    A queue accepts every event: an event larger than a limit is held whole while it is the first.

    Args:
        name: names the queue in the log.
        read: reads deferred events again.
        memory: counts the whole events of this queue and of others.
    """

    def __init__(self, name: str, read: ReadEvents, memory: QueueMemory) -> None:
        self._name = name
        self._read = read
        self._memory = memory
        self._whole: deque[QueuedEvent] = deque()
        #: Bytes of the whole events.
        self._size = 0
        #: Deferred events; all of them come after the whole ones.
        self._pages: deque[_Page] = deque()
        #: Last position of a page that could not be read; its events are read one at a time.
        self._single_upto = 0
        #: Number of failed attempts to read the first event by itself.
        self._tries = 0

    def is_empty(self) -> bool:
        """Return whether every event was removed."""
        return not self._whole and not self._pages

    @property
    def first(self) -> int:
        """Return the position of the first event that was not removed; there must be one."""
        return self._whole[0].event.seq if self._whole else self._pages[0].first

    def put(self, queued: QueuedEvent) -> None:
        """Append an event, whole or only its position."""
        full = self._is_full(queued.size)
        if full and not self._pages:
            LOG.warning(
                "events of %s arrive faster than the reactor handles them; further ones wait in "
                "the event table",
                self._name,
            )
        if full or self._pages or not self._memory.fits(1, queued.size):
            self._defer(queued)
        else:
            self._hold(queued)

    async def head(self) -> QueuedEvent | None:
        """Return the first event, which stays in the queue.

        Returns:
            None if the queue is empty, or if its events can't be read again now.
        """
        try:
            while not self._whole and self._pages:
                await self._read_page()
        except Exception as error:  # noqa: BLE001 - no error of the store may lose an event
            LOG.warning(
                "cannot read waiting events of %s from position %d again yet: %s",
                self._name,
                self._pages[0].first,
                error,
            )
        return self._whole[0] if self._whole else None

    def remove_head(self) -> None:
        """Remove the event that `head` returned."""
        size = self._whole.popleft().size
        self._size -= size
        self._memory.add(-1, -size)

    def _is_full(self, size: int) -> bool:
        count = len(self._whole)
        return count >= QUEUE_EVENTS or (count > 0 and self._size + size > QUEUE_BYTES)

    def _hold(self, queued: QueuedEvent) -> None:
        self._whole.append(queued)
        self._size += queued.size
        self._memory.add(1, queued.size)

    def _defer(self, queued: QueuedEvent) -> None:
        position = queued.event.seq
        if not self._pages or self._pages[-1].is_full():
            self._pages.append(_Page(position))
        self._pages[-1].append(position, queued.size)

    async def _read_page(self) -> None:
        """Read the events of the first page; only one of them if the queues hold too many."""
        page = self._pages[0]
        positions = page.positions()
        if page.first <= self._single_upto:
            found = await self._read_single(page.first)
            positions = positions[:1]
        else:
            if not self._memory.fits(page.count, page.size):
                positions = positions[:1]
            try:
                found = await self._read(positions)
            except TryLaterError:
                raise
            except Exception:  # noqa: BLE001 - the next iteration reads single events
                self._single_upto = positions[-1]
                return
        # During the read, further events may have been appended to the page.
        rest = page.after(len(positions), sum(queued.size for queued in found))
        if rest is None:
            self._pages.popleft()
        else:
            self._pages[0] = rest
        for queued in found:
            self._hold(queued)
        if len(found) < len(positions):
            self._report_missing(len(positions) - len(found), positions)

    async def _read_single(self, position: int) -> Sequence[QueuedEvent]:
        """Return the event at *position*; nothing if only this event can't be read."""
        try:
            found = await self._read([position])
        except TryLaterError:
            raise
        except Exception as error:
            self._tries += 1
            if self._tries < READ_TRIES:
                raise
            # If this fails too, the table is the problem, and no event is given up.
            await self._read([_NO_POSITION])
            LOG.error(
                "the event of %s at position %d can't be read: %s", self._name, position, error
            )
            found = []
        self._tries = 0
        return found

    def _report_missing(self, count: int, positions: Sequence[int]) -> None:
        LOG.error(
            "no reaction to %d events of %s: they were deleted from the event table before the "
            "reactor handled them, or can't be read (positions %d to %d)",
            count,
            self._name,
            positions[0],
            positions[-1],
        )
