"""Events to reactions: reads the durable event table, renders, performs, remembers how far.

Order: the events of one minion one after the other; different minions side by side. What goes on
with chains stands in a row of its own, however many events people's rules are about. The cursor
moves to the last event before which everything is done, so that a killed master does again what it
had not finished: at least once, each reaction under a key that stays the same, by which the master
recognises a job that it has already stored. What fails by an unexpected error is kept and tried
again (`retries`); what is refused is an event and a line in the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Protocol, TypeVar

from catena.core import failpoints
from catena.core.errors import CatenaError, TryLaterError
from catena.core.events import Event, Stretch
from catena.reactors.early import EarlyRenderings, seen_by_files
from catena.reactors.reaction import Reaction
from catena.reactors.retries import Failed, Retries, RetryStore, key_of
from catena.reactors.rules import Rule

LOG = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Name of the engine's cursor on the event table, and the user of what it starts.
CONSUMER = "reactor"
USER = "Reactor"
#: Events that the engine makes itself; never reacted to.
OWN_TAGS = "catena/reactor/"
#: Minions served at the same time, of each of the two rows.
LANES = 16
#: How often the cursor is saved while events flow, seconds.
SAVE_SECONDS = 1.0
#: How soon a reaction is tried again that could not be done at the moment, seconds.
AGAIN_SECONDS = 5.0
#: Tries of a rendering or a reaction before it is put off (`retries`) and the next one begins, by
#: whether the rule is a shipped one: a chain waits for that, in the order of its events.
TRIES = {True: 60, False: 3}


class EventTable(Protocol):
    """The master's event table."""

    @property
    def last(self) -> int:
        """Return the position of the newest event."""

    def follow(self, tags: Sequence[str], after: int = -1) -> AsyncIterator[Stretch]:
        """Yield what is behind position *after*, with the events of *tags*, for ever."""

    async def cursor(self, consumer: str) -> int:
        """Return a consumer's saved position; the newest event's where it has none."""

    async def advance(self, consumer: str, seq: int) -> None:
        """Save a consumer's position."""

    async def fire(self, tag: str, data: Mapping[str, Any], source: str = "") -> Event:
        """Store an event of the master's own."""


class SlsRenderer(Protocol):
    """Renders reactor SLS files, away from the event loop."""

    async def render(self, file: str, tag: str, data: Mapping[str, Any]) -> Sequence[Reaction]:
        """Return the reactions of *file*.

        Raises:
            TryLaterError: it could not be rendered now.
            CatenaError: it can't be rendered; the text names file and line.
            Exception: whatever is wrong with the program.
        """


class Performer(Protocol):
    """Does what a reaction asks, by the path of a person's command."""

    async def perform(self, reaction: Reaction, key: str) -> None:
        """Do it, or recognise by *key* that it is done.

        Raises:
            TryLaterError: it could not be done now.
            CatenaError: it is refused, and would be again.
            Exception: whatever is wrong with the program.
        """


@dataclass(frozen=True)
class ReactorStatus:
    """How far the engine is."""

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
class _Lane:
    """What is served in order."""

    minion: str
    #: Of rules that wait for no others.
    ahead: bool


@dataclass(frozen=True, slots=True)
class _Due:
    """An event and the files that shall be rendered with it."""

    event: Event
    files: Sequence[str]


class Reactor:
    """The reactor.

    Args:
        rules: what to react to.
        bus: the event table.
        renderer: of the rules' files.
        performer: of reactions.
        kept: where failed reactions are durable until they are done.
        now: the wall clock, seconds since the epoch.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        bus: EventTable,
        renderer: SlsRenderer,
        performer: Performer,
        kept: RetryStore,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.rules = tuple(rules)
        self.retries = Retries(kept, self._once_more, now)
        self._now = now
        self._bus = bus
        self._renderer = renderer
        self._performer = performer
        self._lanes: dict[_Lane, asyncio.Queue[_Due]] = {}
        self._early = EarlyRenderings(renderer.render, LANES)
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[tuple[int, bool]] = set()
        self._read = 0
        self._failures = 0
        self._last_failure = ""
        self._slots = {ahead: asyncio.Semaphore(LANES) for ahead in (True, False)}

    def status(self) -> ReactorStatus:
        """Return how far the engine is."""
        position = self._done_up_to()
        return ReactorStatus(
            position,
            self._bus.last - position,
            self._failures,
            self._last_failure,
            len(self.retries.waiting()),
        )

    async def run(self) -> None:
        """React until cancelled; what an earlier run left undone is read again."""
        self._lanes.clear()
        self._early.clear()
        self._open.clear()
        self._read = await self._bus.cursor(CONSUMER)
        await self.retries.load(self._present)
        saver = asyncio.create_task(self._keep_cursor(self._read))
        retrier = asyncio.create_task(self.retries.run())
        try:
            async for stretch in self._bus.follow([rule.tag for rule in self.rules], self._read):
                for event in stretch.events:
                    if _concerns(event):
                        self._take(event)
                self._read = stretch.upto
        finally:
            saver.cancel()
            retrier.cancel()
            for task in self._tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await saver

    def _done_up_to(self) -> int:
        return min(self._open)[0] - 1 if self._open else self._read

    def expect(self, event: Event, stored: asyncio.Future[Event]) -> None:
        """Begin to render to an event that is being stored; the others of its minion go first.

        Args:
            event: without its position.
            stored: done when it is durable.
        """
        if _concerns(event):
            for lane, files in self._due(event):
                if lane not in self._lanes:
                    self._early.begin(lane, event, files[0], stored)

    def _take(self, event: Event) -> None:
        """Put *event* behind the others of its minion that its rules are about."""
        for lane, files in self._due(event):
            self._open.add((event.seq, lane.ahead))
            self._queue(lane, _Due(event, files))

    def _due(self, event: Event) -> Iterator[tuple[_Lane, Sequence[str]]]:
        """Yield where *event* waits, and the files that are to be rendered to it."""
        # The master's own events (a start, a return) name the minion that they are about.
        minion = event.source or str(event.data.get("id", ""))
        found = [rule for rule in self.rules if rule.matches(event.tag)]
        for ahead in (True, False):
            files = [file for rule in found if rule.ahead is ahead for file in rule.files]
            if files:
                yield _Lane(minion, ahead), files

    def _queue(self, lane: _Lane, due: _Due) -> None:
        queue = self._lanes.get(lane)
        if queue is not None:
            queue.put_nowait(due)
            return
        queue = self._lanes[lane] = asyncio.Queue()
        queue.put_nowait(due)
        task = asyncio.create_task(self._serve(lane, queue))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, lane: _Lane, queue: asyncio.Queue[_Due]) -> None:
        """React to the events of one minion in their order, until there are none."""
        while not queue.empty():
            due = queue.get_nowait()
            async with self._slots[lane.ahead]:
                for file in due.files:
                    await self._react(due.event, file, lane)
            self._open.discard((due.event.seq, lane.ahead))
        del self._lanes[lane]

    async def _react(self, event: Event, file: str, lane: _Lane) -> None:
        try:
            reactions = await self._render(event, file, lane)
        except Exception as error:  # noqa: BLE001 - of a template, a worker, or our own
            await self._put_off(event, file, None, error, lane.ahead)
            return
        for reaction in reactions:
            await self._perform(event, file, reaction, lane.ahead)

    async def _render(self, event: Event, file: str, lane: _Lane) -> Sequence[Reaction]:
        """Return the reactions of *file*, which may have been begun early."""
        begun = self._early.take(lane, event, file)

        async def render() -> Sequence[Reaction]:
            nonlocal begun
            early, begun = begun, None
            if early is not None:
                return await early
            return await self._renderer.render(file, event.tag, seen_by_files(event))

        return await self._patiently(render, event, file, lane.ahead)

    async def _perform(self, event: Event, file: str, reaction: Reaction, ahead: bool) -> None:
        try:
            key = key_of(event, file, reaction)
            await self._patiently(lambda: self._act(reaction, key), event, file, ahead)
        except TryLaterError as error:
            await self._put_off(event, file, reaction, error, ahead)
        except CatenaError as error:
            await self._failed(event, file, reaction.id, error)
        except Exception as error:  # noqa: BLE001 - kept, shown and tried again
            await self._put_off(event, file, reaction, error, ahead)

    async def _act(self, reaction: Reaction, key: str) -> None:
        failpoints.hit("master.reaction")
        await self._performer.perform(reaction, key)

    async def _patiently(
        self, do: Callable[[], Awaitable[_T]], event: Event, file: str, ahead: bool
    ) -> _T:
        """Return what *do* returns; try a few times more what can't be done at the moment."""
        for _ in range(TRIES[ahead] - 1):
            try:
                return await do()
            except TryLaterError as error:
                LOG.warning("reaction to %s (%s) is postponed: %s", event.tag, file, error)
                await asyncio.sleep(AGAIN_SECONDS)
        return await do()

    async def _put_off(
        self, event: Event, file: str, reaction: Reaction | None, error: Exception, ahead: bool
    ) -> None:
        """Keep what failed to be tried again, and make the failure visible."""
        entry = reaction.id if reaction else ""
        words = str(error) or repr(error)
        if not isinstance(error, CatenaError):
            words = f"{type(error).__name__}: {error}"
            LOG.error("reacting to %s (%s)", event.tag, file, exc_info=error)
        if self.retries.is_full(event.source) and not ahead:
            words += "; not tried again, too many failed reactions wait already"
            await self._failed(event, file, entry, CatenaError(words))
            return
        failed = Failed(event, file, reaction, words, self._now(), ahead)
        kept = await self.retries.add(failed)
        await self._failed(event, file, entry, CatenaError(words), kept.due)

    async def _once_more(self, failed: Failed) -> None:
        """Try what failed once more; a refusal is its end."""
        event, file = failed.event, failed.file
        if failed.reaction is None:
            found = await self._renderer.render(file, event.tag, seen_by_files(event))
            for reaction in found:
                await self._perform(event, file, reaction, failed.ahead)
            return
        try:
            await self._act(failed.reaction, failed.key)
        except TryLaterError:
            raise
        except CatenaError as error:
            await self._failed(event, file, failed.reaction.id, error)

    def _present(self, failed: Failed) -> Failed:
        """Return *failed* with the path that its file has now: an upgrade moves shipped ones."""
        shipped = [path for rule in self.rules if rule.ahead for path in rule.files]
        for path in shipped if failed.ahead else ():
            if path != failed.file and PurePath(path).name == PurePath(failed.file).name:
                return replace(failed, file=path, kept_as=failed.file)
        return failed

    async def _failed(
        self, event: Event, file: str, entry: str, error: CatenaError, again: float = 0.0
    ) -> None:
        """Make a failure visible; *again* is when it is tried again, 0.0: never."""
        self._failures += 1
        self._last_failure = f"{event.tag}: {error}"
        LOG.error("reaction to %s (%s %s) failed: %s", event.tag, file, entry, error)
        data = {"event": event.seq, "tag": event.tag, "file": file, "id": entry, "again": again}
        try:
            await self._bus.fire(f"{OWN_TAGS}failed", {**data, "error": str(error)})
        except Exception as unsaid:  # noqa: BLE001 - the lane must not end
            # The log and the status show the failure; the other events of the minion must go on.
            LOG.warning("cannot send the event of a failed reaction: %s", unsaid)

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


def _concerns(event: Event) -> bool:
    # What the reactor itself started does not start it again (Salt's rule against loops).
    return not event.tag.startswith(OWN_TAGS) and event.data.get("user") != USER
