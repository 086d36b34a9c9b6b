"""Progress streams of runs: the view of a run, its events and output, and the view at its end."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from catena.client.replies.jobs import JobOutputItem
from catena.core.events import Event

#: Maximum unread items of a slow watcher. Beyond it, events wait and output is dropped, because
#: output is also stored with its job.
UNREAD_ITEMS = 1000

V = TypeVar("V")


class EventFeed(Protocol):
    """The part of `master.events.bus.EventBus` that is used here."""

    @property
    def last(self) -> int:
        """Return the position of the newest event."""

    def subscribe(self, tag: str = "*", after: int = -1) -> AsyncIterator[Event]:
        """Yield events whose tag matches a glob, without end."""


@dataclass(frozen=True, slots=True)
class WatchedRun(Generic[V]):
    """A run that a client watches."""

    #: Glob that matches the tags of its events.
    tag: str
    #: Tags of the events that end it.
    ends: Collection[str]
    #: Tags of the events that report the deletion of the run.
    gone: Collection[str]
    #: Returns the current view of the run.
    show: Callable[[], Awaitable[V]]
    #: Returns whether the run has ended according to a view.
    ended: Callable[[V], bool]
    #: Waits briefly for data that follows the event that ended the run.
    settled: Callable[[], Awaitable[None]]


#: Unread items of one watcher; after the last event None, or the error that ended them.
Unread = asyncio.Queue[Event | JobOutputItem | Exception | None]


class OutputWatchers:
    """Passes the output of running jobs to the watchers of their runs. Not thread-safe.

    A run is named by the tag glob of its events.
    """

    def __init__(self) -> None:
        self._unread: defaultdict[str, set[Unread]] = defaultdict(set)

    @property
    def are_there(self) -> bool:
        """Return whether any run is watched; any thread may call this."""
        return bool(self._unread)

    @contextmanager
    def watch(self, tag: str) -> Iterator[Unread]:
        """Yield a queue that receives the output of a run while the block runs."""
        unread: Unread = asyncio.Queue(UNREAD_ITEMS)
        self._unread[tag].add(unread)
        try:
            yield unread
        finally:
            self._unread[tag].discard(unread)
            if not self._unread[tag]:
                del self._unread[tag]

    def publish(self, tag: str, item: JobOutputItem) -> None:
        """Pass a part of a job's output to the watchers of the job's run."""
        for unread in self._unread.get(tag, ()):
            if not unread.full():
                unread.put_nowait(item)


async def watch(
    bus: EventFeed, find: Callable[[], Awaitable[WatchedRun[V]]], watchers: OutputWatchers
) -> AsyncIterator[V | Event | JobOutputItem]:
    """Yield the view of a run, then its events and output, and at its end the view again.

    Args:
        bus: of the master.
        find: returns the run to watch.
        watchers: deliver the output of the run's jobs from now on.
    """
    # The position is read before `find`, so that an event during `find` is not missed.
    position = bus.last
    subject = await find()
    shown = await subject.show()
    yield shown
    if subject.ended(shown):
        return
    with watchers.watch(subject.tag) as unread:
        async with _filled(unread, bus.subscribe(subject.tag, position)):
            while True:
                item = await unread.get()
                if item is None:
                    break
                if isinstance(item, Exception):
                    raise item
                yield item
                if isinstance(item, Event) and item.tag in subject.gone:
                    return
                if isinstance(item, Event) and item.tag in subject.ends:
                    break
    await subject.settled()
    yield await subject.show()


@asynccontextmanager
async def _filled(unread: Unread, events: AsyncIterator[Event]) -> AsyncIterator[None]:
    """Put events, and the error that ends them, into a queue while the block runs."""

    async def fill() -> None:
        try:
            async for event in events:
                await unread.put(event)
            await unread.put(None)
        except Exception as error:  # noqa: BLE001  # raised by the watcher
            await unread.put(error)

    task = asyncio.create_task(fill())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
