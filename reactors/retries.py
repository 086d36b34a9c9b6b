"""Retries of failed reactions, until they succeed, are refused or are discarded.

A failed reaction is stored before the reactor's position moves past its event, so neither a
restart of the master nor the pruning of events loses it. The reactions of one file are retried one
after the other, different files concurrently: a file that hangs or always fails delays no other.
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

#: Pause before the first retry of a reaction, in seconds; it doubles with each failure.
FIRST_SECONDS = 5.0
#: Longest pause in seconds, by whether the rule is shipped; chains wait for shipped rules.
LONGEST_SECONDS = {True: 60.0, False: 3600.0}
#: Maximum number of stored reactions of site rules; shipped rules have no limit.
KEPT_LIMIT = 10_000
#: Maximum size of the stored reactions of site rules in bytes. All of them are in memory, too, and
#: minions can send events that make a site's file fail each time.
KEPT_BYTES = 32 * 1024 * 1024
#: Share of both limits that the events of one minion may use, so that a minion that causes endless
#: failures leaves space for the events of others.
SOURCE_SHARE = 0.1
#: Number of files whose reactions are retried at the same time.
FILES = 4
#: Pause before another attempt to write to the store, in seconds.
STORE_AGAIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed reaction, or a failed rendering of a file, that will be retried."""

    event: Event
    file: str
    #: The failed reaction; None if the file could not be rendered.
    reaction: Reaction | None
    error: str
    #: Wall clock of the first failure, seconds since the epoch.
    since: float
    #: Whether the rule is shipped with catena.
    shipped: bool = False
    attempts: int = 1
    #: Wall clock of the next attempt, seconds since the epoch.
    due: float = 0.0
    #: Row in the store; 0 if it is not stored yet.
    id: int = 0
    #: Path of the file when the row was stored, if an upgrade moved the file; otherwise "".
    stored_path: str = ""
    #: Size of the event and the reaction in the store, in bytes.
    size: int = 0

    @property
    def key(self) -> str:
        """Return the key by which the master recognises a repeated job of this reaction."""
        return key_of(self.event, self.stored_path or self.file, self.reaction)


class RetryStore(Protocol):
    """Stores failed reactions durably."""

    async def load(self) -> Sequence[Failed]:
        """Return all stored reactions."""

    async def keep(self, failed: Failed) -> Failed:
        """Store *failed*, replacing one with the same key; return it with its row."""

    async def drop(self, row: int) -> None:
        """Remove a row, if it exists."""


#: Makes one attempt; raises an exception if it fails.
Attempt = Callable[[Failed], Awaitable[None]]


def key_of(event: Event, file: str, reaction: Reaction | None) -> str:
    """Return the key of a reaction to an event, or of the rendering of *file* if it is None."""
    if reaction is None:
        return f"rendering:{event.seq}:{file}"
    return f"reaction:{event.seq}:{file}:{reaction.id}:{reaction.kind}.{reaction.fun}"


def pause(attempts: int, shipped: bool) -> float:
    """Return the seconds to wait after *attempts* failed attempts."""
    # Bound the exponent: the power itself would overflow.
    return min(FIRST_SECONDS * 2.0 ** min(attempts - 1, 30), LONGEST_SECONDS[shipped])


class Retries:
    """Retries failed reactions, each after a pause that doubles.

    Args:
        store: stores them durably.
        attempt: makes one attempt.
        now: returns the wall clock, in seconds since the epoch.
    """

    def __init__(self, store: RetryStore, attempt: Attempt, now: Callable[[], float]) -> None:
        self._store = store
        self._attempt = attempt
        self._now = now
        self._failed: dict[int, Failed] = {}
        #: Number and bytes of stored reactions, by whether the rule is shipped.
        self._counts: Counter[bool] = Counter()
        self._bytes: Counter[bool] = Counter()
        #: Number of stored reactions of site rules by source minion; "" is the master.
        self._source_counts: Counter[str] = Counter()
        #: Bytes of these reactions by source minion.
        self._source_bytes: Counter[str] = Counter()
        #: Heaps by file of (due time on the event loop's clock, row).
        self._due: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
        #: Valid due time of each row; other entries of `_due` are outdated.
        self._plans: dict[int, float] = {}
        self._busy: set[str] = set()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def waiting(self) -> list[Failed]:
        """Return the reactions that will be retried, the oldest first."""
        return sorted(self._failed.values(), key=lambda failed: (failed.since, failed.id))

    def is_full(self, source: str = "") -> bool:
        """Return whether failed reactions of site rules to events of *source* are refused.

        Args:
            source: the minion that sent the event; "" is the master.
        """
        if self._counts[False] >= KEPT_LIMIT or self._bytes[False] >= KEPT_BYTES:
            return True
        if not source:
            return False
        many = self._source_counts[source] >= KEPT_LIMIT * SOURCE_SHARE
        return many or self._source_bytes[source] >= KEPT_BYTES * SOURCE_SHARE

    async def add(self, failed: Failed) -> Failed:
        """Store *failed* and plan its next attempt; wait until the store accepts it."""
        planned = replace(failed, due=self._now() + pause(failed.attempts, failed.shipped))
        while True:
            try:
                stored = await self._store.keep(planned)
            except Exception as error:  # noqa: BLE001 - no error of the store may lose a reaction
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
        """Remove a reaction without another attempt; return it.

        Raises:
            NotFoundError: no reaction with this row waits for a retry.
        """
        failed = self._failed.get(row)
        if failed is None:
            raise NotFoundError(f"no reaction {row} waits; see: catena runner reactor.waiting")
        await self._done(failed)
        return failed

    def hurry(self, row: int = 0) -> int:
        """Make one reaction due now, or all if *row* is 0; return their number.

        Raises:
            NotFoundError: no reaction with this row waits for a retry.
        """
        if row and row not in self._failed:
            raise NotFoundError(f"no reaction {row} waits; see: catena runner reactor.waiting")
        chosen = [row] if row else list(self._failed)
        for one in chosen:
            self._plan_at(self._failed[one], 0.0)
        return len(chosen)

    async def run(self) -> None:
        """Retry reactions when they are due, until cancelled."""
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

    async def load(self, update: Callable[[Failed], Failed]) -> None:
        """Plan the reactions that an earlier run of the master stored.

        Args:
            update: returns a reaction with the current path of its file.
        """
        rows = await self._store.load()
        newest = max((row.id for row in rows), default=0)
        # Keep reactions that were stored while the others were read.
        rows = [*rows, *(one for one in self._failed.values() if one.id > newest)]
        self._failed.clear()
        self._due.clear()
        self._plans.clear()
        self._counts.clear()
        self._bytes.clear()
        self._source_counts.clear()
        self._source_bytes.clear()
        for failed in rows:
            self._plan(update(failed))

    def _plan(self, failed: Failed) -> None:
        if failed.id not in self._failed:
            self._count(failed, 1)
        self._failed[failed.id] = failed
        # The wall clock may have been changed since.
        left = min(max(failed.due - self._now(), 0.0), pause(failed.attempts, failed.shipped))
        self._plan_at(failed, asyncio.get_running_loop().time() + left)

    def _count(self, failed: Failed, number: int) -> None:
        self._counts[failed.shipped] += number
        self._bytes[failed.shipped] += number * failed.size
        if not failed.shipped:
            source = failed.event.source
            self._source_counts[source] += number
            self._source_bytes[source] += number * failed.size
            if not self._source_counts[source]:
                del self._source_counts[source], self._source_bytes[source]

    def _plan_at(self, failed: Failed, at: float) -> None:
        """Plan the next attempt of *failed*, replacing an earlier plan."""
        if self._plans.get(failed.id) != at:
            self._plans[failed.id] = at
            heapq.heappush(self._due[failed.file], (at, failed.id))
        self._changed.set()

    def _heads(self) -> list[tuple[tuple[float, int], str]]:
        """Return ((due time, row), file) of the next attempt of each file, the earliest first."""
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
        """Begin the attempts that are due.

        Returns:
            Seconds until the next attempt is due; None if none is planned or FILES are running.
        """
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
            task = asyncio.create_task(self._retry_row(file, row))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return None

    async def _retry_row(self, file: str, row: int) -> None:
        failed = self._failed.get(row)
        try:
            # The reaction may have succeeded or been discarded meanwhile.
            if failed is not None:
                await self._retry(failed)
        finally:
            self._busy.discard(file)
            self._changed.set()

    async def _retry(self, failed: Failed) -> None:
        try:
            await self._attempt(failed)
        except Exception as error:  # noqa: BLE001 - any error leads to a retry
            LOG.warning(
                "reaction to %s (%s) failed again, %d times now: %s",
                failed.event.tag,
                failed.file,
                failed.attempts + 1,
                error,
            )
            if failed.id in self._failed:
                text = str(error) or repr(error)
                await self.add(replace(failed, attempts=failed.attempts + 1, error=text))
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
                await self._store.drop(failed.id)
                break
            except Exception as error:  # noqa: BLE001 - as in add
                LOG.warning("cannot remove reaction %d yet: %s", failed.id, error)
                await asyncio.sleep(STORE_AGAIN_SECONDS)
