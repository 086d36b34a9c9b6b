"""The reactor: reads the durable event table, renders reactor files and performs reactions.

The events of one minion are processed in order, those of different minions concurrently. Shipped
rules, which resume chains, have queues of their own: events of site rules do not delay them. The
memory of the queues is limited (`queues`).

The stored position is the last event before which everything is done. A killed master therefore
performs unfinished reactions again: at least once, with a constant key by which the master
recognises a repeated job. A reaction that fails by an unexpected error is stored and retried
(`retries`). A refused one causes an event and an error in the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Any, Protocol, TypeVar

from catena.core import failpoints
from catena.core.errors import CatenaError, TryLaterError
from catena.core.events import Event, Stretch
from catena.reactors.early import EarlyRenderings, seen_by_files
from catena.reactors.queues import EventQueue, QueuedEvent, QueueMemory
from catena.reactors.reaction import Reaction
from catena.reactors.retries import Failed, Retries, RetryStore, key_of
from catena.reactors.rules import Rule

LOG = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Name of the reactor's cursor on the event table, and the user of its requests.
CONSUMER = "reactor"
USER = "Reactor"
#: Prefix of the tags of the reactor's own events, which cause no reactions.
OWN_TAGS = "catena/reactor/"
#: Maximum number of queues served at the same time, for shipped and for site rules each.
QUEUES = 16
#: Seconds between two writes of the cursor.
SAVE_SECONDS = 1.0
#: Pause between two attempts of a rendering or a reaction that is temporarily impossible, seconds.
AGAIN_SECONDS = 5.0
#: Attempts of a rendering or a reaction before it is stored for a later retry and its queue goes
#: on, by whether the rule is shipped. Chains wait for shipped rules, in the order of the events.
TRIES = {True: 60, False: 3}


class EventTable(Protocol):
    """The master's event table."""

    @property
    def last(self) -> int:
        """Return the position of the newest event."""

    def follow(self, tags: Sequence[str], after: int = -1) -> AsyncIterator[Stretch]:
        """Yield the events of *tags* after position *after* in stretches, without end."""

    async def events_at(self, positions: Sequence[int]) -> Sequence[Event]:
        """Return the stored events at ascending positions; leave out deleted ones."""

    async def cursor(self, consumer: str) -> int:
        """Return a consumer's saved position; that of the newest event if it has none."""

    async def advance(self, consumer: str, seq: int) -> None:
        """Save a consumer's position."""

    async def fire(self, tag: str, data: Mapping[str, Any], source: str = "") -> Event:
        """Store an event of the master."""


class SlsRenderer(Protocol):
    """Renders reactor SLS files outside the event loop."""

    async def render(self, file: str, tag: str, data: Mapping[str, Any]) -> Sequence[Reaction]:
        """Return the reactions of *file*.

        Raises:
            TryLaterError: the file can't be rendered now.
            CatenaError: the file can't be rendered; the text names file and line.
            Exception: the program failed.
        """


class Performer(Protocol):
    """Performs reactions as requests that are authorised like those of people."""

    async def perform(self, reaction: Reaction, key: str) -> None:
        """Perform *reaction*, unless it was already performed under *key*.

        Raises:
            TryLaterError: the reaction can't be performed now.
            CatenaError: the reaction is refused, and would be again.
            Exception: the program failed.
        """


@dataclass(frozen=True)
class ReactorStatus:
    """Progress and failures of the reactor."""

    #: Position up to which every event is processed.
    position: int
    #: Number of stored events after that position.
    lag: int
    #: Failed renderings and reactions since the start.
    failures: int
    #: Error of the last failure; "" without one.
    last_failure: str = ""
    #: Number of failed reactions that will be retried.
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class _QueueKey:
    """A queue of events of one minion."""

    minion: str
    #: Whether the queue is for shipped rules.
    shipped: bool


class Reactor:
    """The reactor.

    Args:
        rules: which files to render for which events.
        bus: the event table.
        renderer: renders the files.
        performer: performs the reactions.
        store: stores failed reactions until they are done.
        now: returns the wall clock, in seconds since the epoch.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        bus: EventTable,
        renderer: SlsRenderer,
        performer: Performer,
        store: RetryStore,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.rules = tuple(rules)
        self.retries = Retries(store, self._retry, now)
        self._now = now
        self._bus = bus
        self._renderer = renderer
        self._performer = performer
        #: Queues that are not empty.
        self._queues: dict[_QueueKey, EventQueue] = {}
        self._memory = _memory_by_kind()
        self._early = EarlyRenderings(renderer.render, QUEUES)
        self._tasks: set[asyncio.Task[None]] = set()
        #: Position up to which the event table was read.
        self._read = 0
        self._failures = 0
        self._last_failure = ""
        self._slots = {shipped: asyncio.Semaphore(QUEUES) for shipped in (True, False)}

    def status(self) -> ReactorStatus:
        """Return the reactor's progress and failures."""
        position = self._done_up_to()
        return ReactorStatus(
            position,
            self._bus.last - position,
            self._failures,
            self._last_failure,
            len(self.retries.waiting()),
        )

    async def run(self) -> None:
        """React until cancelled; events that an earlier run did not finish are read again."""
        self._queues.clear()
        self._memory = _memory_by_kind()
        self._early.clear()
        self._read = await self._bus.cursor(CONSUMER)
        await self.retries.load(self._with_current_path)
        saver = asyncio.create_task(self._keep_cursor(self._read))
        retrier = asyncio.create_task(self.retries.run())
        try:
            async for stretch in self._bus.follow([rule.tag for rule in self.rules], self._read):
                for event in stretch.events:
                    if _may_react_to(event):
                        self._queue_event(event)
                self._read = stretch.upto
        finally:
            saver.cancel()
            retrier.cancel()
            for task in self._tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await saver

    def _done_up_to(self) -> int:
        # Each queue is in order, so no earlier event than its first one is unprocessed.
        return min((queue.first - 1 for queue in self._queues.values()), default=self._read)

    def expect(self, event: Event, stored: asyncio.Future[Event]) -> None:
        """Begin to render for an event that is being stored, unless its minion has others queued.

        Args:
            event: the event, without its position.
            stored: the event with its position; done when the event is durable.
        """
        if _may_react_to(event):
            for key, files in self._files_by_queue(event):
                if key not in self._queues:
                    self._early.begin(key, event, files[0], stored)

    def _queue_event(self, event: Event) -> None:
        """Append *event* to the queues of its minion."""
        for key, files in self._files_by_queue(event):
            self._enqueue(key, QueuedEvent.of(event, files))

    def _files_by_queue(self, event: Event) -> Iterator[tuple[_QueueKey, Sequence[str]]]:
        """Yield the key of each queue for *event*, and the files to render in it."""
        # The master's own events (a start, a return) have the minion's id in their data.
        minion = event.source or str(event.data.get("id", ""))
        for shipped in (True, False):
            files = self._files(event.tag, shipped)
            if files:
                yield _QueueKey(minion, shipped), files

    def _files(self, tag: str, shipped: bool) -> Sequence[str]:
        """Return the files to render for events with *tag*."""
        rules = [rule for rule in self.rules if rule.shipped is shipped and rule.matches(tag)]
        return [file for rule in rules for file in rule.files]

    def _enqueue(self, key: _QueueKey, due: QueuedEvent) -> None:
        queue = self._queues.get(key)
        if queue is not None:
            queue.put(due)
            return
        read = partial(self._read_again, key.shipped)
        queue = EventQueue(key.minion or "the master", read, self._memory[key.shipped])
        queue.put(due)
        self._queues[key] = queue
        task = asyncio.create_task(self._serve(key, queue))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read_again(self, shipped: bool, positions: Sequence[int]) -> list[QueuedEvent]:
        """Return events of a queue from the event table."""
        found = await self._bus.events_at(positions)
        return [QueuedEvent.of(event, self._files(event.tag, shipped)) for event in found]

    async def _serve(self, key: _QueueKey, queue: EventQueue) -> None:
        """Process the events of a queue in their order; remove the queue when it is empty."""
        while not queue.is_empty():
            async with self._slots[key.shipped]:
                due = await queue.head()
                if due is not None:
                    for file in due.files:
                        await self._react(due.event, file, key)
                    queue.remove_head()
            if due is None and not queue.is_empty():
                await asyncio.sleep(AGAIN_SECONDS)
        del self._queues[key]

    async def _react(self, event: Event, file: str, key: _QueueKey) -> None:
        try:
            reactions = await self._render(event, file, key)
        except Exception as error:  # noqa: BLE001 - stored and retried
            await self._postpone(event, file, None, error, key.shipped)
            return
        for reaction in reactions:
            await self._perform(event, file, reaction, key.shipped)

    async def _render(self, event: Event, file: str, key: _QueueKey) -> Sequence[Reaction]:
        """Return the reactions of *file*, from its early rendering if there is one."""
        begun = self._early.take(key, event, file)

        async def render() -> Sequence[Reaction]:
            nonlocal begun
            early, begun = begun, None
            if early is not None:
                return await early
            return await self._renderer.render(file, event.tag, seen_by_files(event))

        return await self._with_retries(render, event, file, key.shipped)

    async def _perform(self, event: Event, file: str, reaction: Reaction, shipped: bool) -> None:
        try:
            key = key_of(event, file, reaction)
            await self._with_retries(lambda: self._act(reaction, key), event, file, shipped)
        except TryLaterError as error:
            await self._postpone(event, file, reaction, error, shipped)
        except CatenaError as error:
            await self._failed(event, file, reaction.id, error)
        except Exception as error:  # noqa: BLE001 - stored and retried
            await self._postpone(event, file, reaction, error, shipped)

    async def _act(self, reaction: Reaction, key: str) -> None:
        failpoints.hit("master.reaction")
        await self._performer.perform(reaction, key)

    async def _with_retries(
        self, do: Callable[[], Awaitable[_T]], event: Event, file: str, shipped: bool
    ) -> _T:
        """Return the result of *do*; repeat it up to TRIES times if it raises TryLaterError."""
        for _ in range(TRIES[shipped] - 1):
            try:
                return await do()
            except TryLaterError as error:
                LOG.warning("reaction to %s (%s) is postponed: %s", event.tag, file, error)
                await asyncio.sleep(AGAIN_SECONDS)
        return await do()

    async def _postpone(
        self, event: Event, file: str, reaction: Reaction | None, error: Exception, shipped: bool
    ) -> None:
        """Store a failed reaction (None: a failed rendering) for a retry; report the failure."""
        entry = reaction.id if reaction else ""
        text = str(error) or repr(error)
        if not isinstance(error, CatenaError):
            text = f"{type(error).__name__}: {error}"
            LOG.error("reacting to %s (%s)", event.tag, file, exc_info=error)
        if self.retries.is_full(event.source) and not shipped:
            text += "; not tried again, too many failed reactions wait already"
            await self._failed(event, file, entry, CatenaError(text))
            return
        failed = Failed(event, file, reaction, text, self._now(), shipped)
        kept = await self.retries.add(failed)
        await self._failed(event, file, entry, CatenaError(text), kept.due)

    async def _retry(self, failed: Failed) -> None:
        """Attempt a failed reaction or rendering again; a refusal ends its retries.

        Raises:
            Exception: the attempt failed in another way than by a refusal.
        """
        event, file = failed.event, failed.file
        if failed.reaction is None:
            found = await self._renderer.render(file, event.tag, seen_by_files(event))
            for reaction in found:
                await self._perform(event, file, reaction, failed.shipped)
            return
        try:
            await self._act(failed.reaction, failed.key)
        except TryLaterError:
            raise
        except CatenaError as error:
            await self._failed(event, file, failed.reaction.id, error)

    def _with_current_path(self, failed: Failed) -> Failed:
        """Return *failed* with the current path of its file; an upgrade moves shipped files."""
        paths = [path for rule in self.rules if rule.shipped for path in rule.files]
        for path in paths if failed.shipped else ():
            if path != failed.file and PurePath(path).name == PurePath(failed.file).name:
                return replace(failed, file=path, stored_path=failed.file)
        return failed

    async def _failed(
        self, event: Event, file: str, entry: str, error: CatenaError, again: float = 0.0
    ) -> None:
        """Log a failure and send its event.

        Args:
            event: caused the reaction.
            file: the reactor file.
            entry: id of the reaction in the file; "" if the file could not be rendered.
            error: the failure.
            again: wall clock of the next attempt, seconds since the epoch; 0.0 if there is none.
        """
        self._failures += 1
        self._last_failure = f"{event.tag}: {error}"
        LOG.error("reaction to %s (%s %s) failed: %s", event.tag, file, entry, error)
        data = {"event": event.seq, "tag": event.tag, "file": file, "id": entry, "again": again}
        try:
            await self._bus.fire(f"{OWN_TAGS}failed", {**data, "error": str(error)})
        except Exception as fire_error:  # noqa: BLE001 - the queue must go on
            # The log and the status already show the failure.
            LOG.warning("cannot send the event of a failed reaction: %s", fire_error)

    async def _keep_cursor(self, saved: int) -> None:
        try:
            while True:
                await asyncio.sleep(SAVE_SECONDS)
                try:
                    saved = await self._save(saved)
                except CatenaError as error:
                    LOG.warning("cannot store the reactor's position: %s", error)
        finally:
            with suppress(CatenaError):
                await self._save(saved)

    async def _save(self, saved: int) -> int:
        position = self._done_up_to()
        if position != saved:
            await self._bus.advance(CONSUMER, position)
        return position


def _may_react_to(event: Event) -> bool:
    # As in Salt, events caused by the reactor cause no reactions, which prevents loops.
    return not event.tag.startswith(OWN_TAGS) and event.data.get("user") != USER


def _memory_by_kind() -> dict[bool, QueueMemory]:
    # Separate limits: a flood of events of site rules must not displace those of shipped rules.
    return {shipped: QueueMemory() for shipped in (True, False)}
