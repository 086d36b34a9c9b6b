"""Reactions that failed and are tried again: which, when, and until they are done.

Each is kept in the store before the reactor's position moves past its event, so that neither a
restart of the master nor the pruning of events loses it. Files are served side by side, the
reactions of one file one after the other: a file that hangs or fails for ever delays no other.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from catena.core.errors import NotFoundError
from catena.core.events import Event
from catena.reactors.reaction import Reaction

LOG = logging.getLogger(__name__)

#: First pause before a reaction is tried again, seconds; it doubles with each failure.
FIRST_SECONDS = 5.0
#: Longest pause, seconds, by whether the rule is a shipped one: a chain waits for that.
LONGEST_SECONDS = {True: 60.0, False: 3600.0}
#: Failed reactions of people's rules that are kept; those of shipped rules have no limit.
KEPT_LIMIT = 10_000
#: What these take in the store, bytes. All of them are in memory as well, and what minions send
#: may make a site's file fail again and again.
KEPT_BYTES = 32 * 1024 * 1024
#: Share of both that events of one minion may take: one that sends such events without end leaves
#: the reactions to others' events their place.
SOURCE_SHARE = 0.1
#: Files whose reactions are tried again at the same time.
FILES = 4
#: Pause before a failure is written again that the store did not take, seconds.
STORE_AGAIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Failed:
    """A reaction, or the rendering of a file, that failed and is tried again."""

    event: Event
    file: str
    #: What could not be done; None: the file could not be rendered.
    reaction: Reaction | None
    error: str
    #: Wall clock of the first failure, seconds since the epoch.
    since: float
    #: Of a shipped rule.
    ahead: bool = False
    attempts: int = 1
    #: Wall clock of the next try, seconds since the epoch.
    due: float = 0.0
    #: Row in the store; 0: not kept yet.
    id: int = 0
    #: The file's path when this was kept, where an upgrade has moved it since; "": it has not.
    kept_as: str = ""
    #: What its event and reaction take in the store, bytes.
    size: int = 0

    @property
    def key(self) -> str:
        """Return what a job is recognised by that this reaction made already."""
        return key_of(self.event, self.kept_as or self.file, self.reaction)


class RetryStore(Protocol):
    """Where failed reactions are durable."""

    async def load(self) -> Sequence[Failed]:
        """Return all of them."""

    async def keep(self, failed: Failed) -> Failed:
        """Store *failed*, in the place of what has its key; return it with its row."""

    async def drop(self, row: int) -> None:
        """Forget a row; fine if there is none."""


#: Tries once more; raises what is wrong now.
Attempt = Callable[[Failed], Awaitable[None]]


def key_of(event: Event, file: str, reaction: Reaction | None) -> str:
    """Return the key of a reaction to an event; None: of rendering the file."""
    if reaction is None:
        return f"rendering:{event.seq}:{file}"
    return f"reaction:{event.seq}:{file}:{reaction.id}:{reaction.kind}.{reaction.fun}"


def pause(attempts: int, ahead: bool) -> float:
    """Return the seconds until the next try of what failed *attempts* times."""
    # Bound the exponent: the power itself would overflow.
    return min(FIRST_SECONDS * 2.0 ** min(attempts - 1, 30), LONGEST_SECONDS[ahead])


class Retries:
    """Tries failed reactions again, each after a pause that doubles.

    Args:
        kept: where they are durable.
        attempt: tries one once more.
        now: the wall clock, seconds since the epoch.
    """

    def __init__(self, kept: RetryStore, attempt: Attempt, now: Callable[[], float]) -> None:
        self._kept = kept
        self._attempt = attempt
        self._now = now
        self._failed: dict[int, Failed] = {}
        self._counts: Counter[bool] = Counter()
        self._bytes: Counter[bool] = Counter()
        #: The same of people's rules, by the minion that the event is of; "": of the master.
        self._source_counts: Counter[str] = Counter()
        self._source_bytes: Counter[str] = Counter()
        #: Due times by the event loop's clock and rows, by file; the next one comes first.
        self._due: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
        #: The due time of each row that counts; others that `_due` has are of earlier plans.
        self._plans: dict[int, float] = {}
        self._busy: set[str] = set()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def waiting(self) -> list[Failed]:
        """Return what is to be tried again, the oldest first."""
        return sorted(self._failed.values(), key=lambda failed: (failed.since, failed.id))

    def is_full(self, source: str = "") -> bool:
        """Return whether no more reactions of people's rules are kept to events of *source*.

        Args:
            source: the minion; "": the master.
        """
        if self._counts[False] >= KEPT_LIMIT or self._bytes[False] >= KEPT_BYTES:
            return True
        if not source:
            return False
        many = self._source_counts[source] >= KEPT_LIMIT * SOURCE_SHARE
        return many or self._source_bytes[source] >= KEPT_BYTES * SOURCE_SHARE

    async def add(self, failed: Failed) -> Failed:
        """Keep *failed* durably and plan its next try; waits while the store takes nothing."""
        planned = replace(failed, due=self._now() + pause(failed.attempts, failed.ahead))
        while True:
            try:
                stored = await self._kept.keep(planned)
            except Exception as error:  # noqa: BLE001 - whatever the store has: never dropped
                LOG.warning(
                    "cannot store a failed reaction to %s yet: %s", failed.event.tag, error
                )
                await asyncio.sleep(STORE_AGAIN_SECONDS)
                continue
            if failed.id and failed.id not in self._failed:
                # The reaction was discarded during the retry.
                await self._drop(stored)
            else:
                self._plan(stored)
            return stored

    async def discard(self, row: int) -> Failed:
        """Try a reaction no more; return it.

        Raises:
            NotFoundError: no such row waits.
        """
        failed = self._failed.get(row)
        if failed is None:
            raise NotFoundError(f"no reaction {row} waits; see: catena runner reactor.waiting")
        await self._done(failed)
        return failed

    def hurry(self, row: int = 0) -> int:
        """Make one reaction due now, or all of them; return how many.

        Raises:
            NotFoundError: no such row waits.
        """
        if row and row not in self._failed:
            raise NotFoundError(f"no reaction {row} waits; see: catena runner reactor.waiting")
        chosen = [row] if row else list(self._failed)
        for one in chosen:
            self._plan_at(self._failed[one], 0.0)
        return len(chosen)

    async def run(self) -> None:
        """Try again what is due, until cancelled."""
        try:
            while True:
                self._changed.clear()
                left = self._begin_due()
                # Not wait_for: on Python 3.11 it loses a cancellation that comes with a change.
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._changed.wait()
        finally:
            for task in self._tasks:
                task.cancel()
            self._busy.clear()

    async def load(self, present: Callable[[Failed], Failed]) -> None:
        """Plan what an earlier run of the master kept.

        Args:
            present: gives each the path that its file has now.
        """
        rows = await self._kept.load()
        newest = max((row.id for row in rows), default=0)
        # The reaction was stored while the others were read.
        rows = [*rows, *(one for one in self._failed.values() if one.id > newest)]
        self._failed.clear()
        self._due.clear()
        self._plans.clear()
        self._counts.clear()
        self._bytes.clear()
        self._source_counts.clear()
        self._source_bytes.clear()
        for failed in rows:
            self._plan(present(failed))

    def _plan(self, failed: Failed) -> None:
        if failed.id not in self._failed:
            self._count(failed, 1)
        self._failed[failed.id] = failed
        # The wall clock may have been changed since.
        left = min(max(failed.due - self._now(), 0.0), pause(failed.attempts, failed.ahead))
        self._plan_at(failed, asyncio.get_running_loop().time() + left)

    def _count(self, failed: Failed, number: int) -> None:
        self._counts[failed.ahead] += number
        self._bytes[failed.ahead] += number * failed.size
        if not failed.ahead:
            source = failed.event.source
            self._source_counts[source] += number
            self._source_bytes[source] += number * failed.size
            if not self._source_counts[source]:
                del self._source_counts[source], self._source_bytes[source]

    def _plan_at(self, failed: Failed, at: float) -> None:
        """Plan the next try of *failed*, in the place of an earlier plan."""
        if self._plans.get(failed.id) != at:
            self._plans[failed.id] = at
            heapq.heappush(self._due[failed.file], (at, failed.id))
        self._changed.set()

    def _heads(self) -> list[tuple[tuple[float, int], str]]:
        """Return the next try of each file, the one that is due first."""
        found = []
        for file, queue in list(self._due.items()):
            while queue and self._plans.get(queue[0][1]) != queue[0][0]:
                heapq.heappop(queue)
            if queue:
                found.append((queue[0], file))
            else:
                del self._due[file]
        return sorted(found)

    def _begin_due(self) -> float | None:
        """Begin what is due; return the seconds until something is, None: nothing waits."""
        now = asyncio.get_running_loop().time()
        for (at, row), file in self._heads():
            if file in self._busy:
                continue
            if len(self._busy) >= FILES:
                return None
            if at > now:
                return at - now
            heapq.heappop(self._due[file])
            del self._plans[row]
            self._busy.add(file)
            task = asyncio.create_task(self._try(file, row))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return None

    async def _try(self, file: str, row: int) -> None:
        failed = self._failed.get(row)
        try:
            # The reaction was done or discarded before.
            if failed is not None:
                await self._once_more(failed)
        finally:
            self._busy.discard(file)
            self._changed.set()

    async def _once_more(self, failed: Failed) -> None:
        try:
            await self._attempt(failed)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it: tried again
            LOG.warning(
                "reaction to %s (%s) failed again, %d times now: %s",
                failed.event.tag,
                failed.file,
                failed.attempts + 1,
                error,
            )
            if failed.id in self._failed:
                words = str(error) or repr(error)
                await self.add(replace(failed, attempts=failed.attempts + 1, error=words))
            return
        LOG.info("reaction to %s (%s) is done", failed.event.tag, failed.file)
        await self._done(failed)

    async def _done(self, failed: Failed) -> None:
        left = self._failed.pop(failed.id, None)
        if left is not None:
            self._count(left, -1)
        self._plans.pop(failed.id, None)
        await self._drop(failed)

    async def _drop(self, failed: Failed) -> None:
        while True:
            try:
                await self._kept.drop(failed.id)
                break
            except Exception as error:  # noqa: BLE001 - as in add
                LOG.warning("cannot remove reaction %d yet: %s", failed.id, error)
                await asyncio.sleep(STORE_AGAIN_SECONDS)
