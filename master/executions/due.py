"""Start times of scheduled runs, by both clocks, and the loop of an engine's scheduler.

`judge_due` decides without I/O whether a run starts. `DueRuns` reads an engine's scheduled runs
and applies `judge_due` to them. `repeat` runs an engine's scheduler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

import sqlalchemy as sa

from catena.core.errors import CatenaError
from catena.master.executions import due_rows
from catena.master.executions.model import Run
from catena.master.process.clocks import ClockReading, passed

LOG = logging.getLogger(__name__)

T = TypeVar("T")

#: Maximum sleep of a scheduler, seconds; a change of the wall clock is noticed within it.
TICK_SECONDS = 5.0
#: Minimum sleep of a scheduler, seconds.
_REST_SECONDS = 0.05


@dataclass(frozen=True)
class DueRules:
    """Limits of the decision whether a run may start."""

    #: A run that is later than this is rejected, or held if the clocks disagree.
    late_seconds: float = 24 * 3600
    #: Maximum step of the wall clock that does not count as setting it.
    agreement_seconds: float = 300


class Due(StrEnum):
    """What to do with a scheduled run now."""

    wait = "wait"
    fire = "fire"
    reject = "reject"
    hold = "hold"


@dataclass(frozen=True)
class DueVerdict:
    """The decision, with a sentence for people."""

    what: Due
    reason: str = ""


def judge_due(
    due: float, anchor: ClockReading | None, now: ClockReading, rules: DueRules
) -> DueVerdict:
    """Return whether a run that is due at *due* waits, starts, is rejected or needs a person.

    A wall clock that was set proves neither that a run is due nor how late it is. A person
    therefore decides (`chain release`) in three cases: the clock was set past the due time; the
    lateness is unknown because the host has booted since; the clock was set back, so the run would
    silently wait for the same time again.

    Args:
        due: wall clock, seconds since the epoch.
        anchor: the reading of `anchor_of`.
        now: the clocks now.
        rules: limits.
    """
    late = now.wall - due
    if late < 0:
        return _judge_early(due, anchor, now, rules)
    too_late = late > rules.late_seconds
    if anchor is None or anchor.boot != now.boot:
        if too_late:
            return DueVerdict(
                Due.hold,
                f"it seems to be {_span(late)} late, but the master's host has booted since "
                "it was due, so the clock can't be checked",
            )
        return DueVerdict(Due.fire)
    step = (now.wall - anchor.wall) - (now.mono - anchor.mono)
    if abs(step) <= rules.agreement_seconds:
        if too_late:
            return DueVerdict(
                Due.reject,
                f"rejected: it is {_span(late)} late, more than {_span(rules.late_seconds)}",
            )
        return DueVerdict(Due.fire)
    by_boot_clock = anchor.wall + (now.mono - anchor.mono) >= due
    if by_boot_clock and not too_late:
        return DueVerdict(Due.fire)
    return _clock_was_set(step)


def _judge_early(
    due: float, anchor: ClockReading | None, now: ClockReading, rules: DueRules
) -> DueVerdict:
    """Return whether a run that is not due by the wall clock waits or needs a person."""
    if anchor is None:
        return DueVerdict(Due.wait)
    if anchor.boot != now.boot:
        step = min(0.0, now.wall - anchor.wall)
    elif anchor.wall + (now.mono - anchor.mono) >= due:
        step = (now.wall - anchor.wall) - (now.mono - anchor.mono)
    else:
        return DueVerdict(Due.wait)
    return _clock_was_set(step) if -step > rules.agreement_seconds else DueVerdict(Due.wait)


def waited_since(due: float, scheduled: ClockReading, now: ClockReading) -> float:
    """Return the seconds since a run was due, by the monotonic clock where that is possible.

    Args:
        due: wall clock, seconds since the epoch.
        scheduled: the clocks when the run was scheduled.
        now: the clocks now.
    """
    return passed(scheduled, now) - max(0.0, due - scheduled.wall)


def _clock_was_set(step: float) -> DueVerdict:
    way = "forward" if step > 0 else "back"
    return DueVerdict(
        Due.hold, f"the master's clock was set {way} by {_span(abs(step))} since it was scheduled"
    )


def anchor_of(
    due: float, scheduled: ClockReading, first: ClockReading | None, now: ClockReading
) -> ClockReading | None:
    """Return the earlier reading with which `judge_due` compares the clocks; None if none fits.

    Args:
        due: wall clock, seconds since the epoch.
        scheduled: the clocks when the run was scheduled.
        first: the first reading of this boot; None if it was not recorded.
        now: the clocks now.
    """
    # A wall clock earlier than at the scheduling was set back, in this boot or before.
    if scheduled.boot == now.boot or now.wall < scheduled.wall:
        return scheduled
    if first is not None and (first.wall <= due or now.wall < due):
        return first
    return None


def _span(seconds: float) -> str:
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 60:.0f} min"


def pause(next_due: float | None, now: float) -> float:
    """Return how many seconds a scheduler may sleep.

    Args:
        next_due: due time of the next run, seconds since the epoch; None: no run is scheduled.
        now: the wall clock.
    """
    if next_due is None:
        return TICK_SECONDS
    return min(TICK_SECONDS, max(_REST_SECONDS, next_due - now))


class DueRun(NamedTuple):
    """A scheduled run that is due by at least one clock, and the decision about it."""

    run: Run
    verdict: DueVerdict


class DueStore(Protocol):
    """The part of `store.Store` that is used here."""

    async def write(self, fn: Callable[[sa.Connection], T]) -> T:
        """Run *fn* in a transaction; return its value once it is durable."""

    async def read(self, fn: Callable[[sa.Connection], T]) -> T:
        """Run *fn* on a snapshot; *fn* must not write."""


class DueRuns:
    """The scheduled runs of an engine, judged by the clocks of the master.

    Args:
        store: of the master.
        clocks: reads both clocks.
        scheduled: queries the engine's scheduled runs.
        rules: limits of the decision.
    """

    def __init__(
        self,
        store: DueStore,
        clocks: Callable[[], ClockReading],
        scheduled: due_rows.Scheduled,
        rules: DueRules,
    ) -> None:
        self._store = store
        self._clocks = clocks
        self._scheduled = scheduled
        self._rules = rules
        self._anchored = False
        #: Wall clock time of the last call of `look`.
        self._looked = 0.0

    async def look(self) -> list[DueRun]:
        """Return the runs that are due by at least one clock, the earliest first.

        Raises:
            StoreUnavailableError: the store can't be read now; retry.
        """
        await self._anchor()
        now = self._clocks()
        self._looked = now.wall
        first, runs = await self._store.read(lambda conn: self._read(conn, now))
        return [DueRun(run, self._judged(run, first, now)) for run in runs]

    async def pause(self) -> float:
        """Return how many seconds the scheduler may sleep.

        A run that was due at the last `look` and did not start is judged again at the next tick.
        """
        looked = self._looked
        due = await self._store.read(lambda conn: self._scheduled.next_due(conn, looked))
        return pause(due, self._clocks().wall)

    async def _anchor(self) -> None:
        """Store the first reading of both clocks in this boot."""
        if not self._anchored:
            now = self._clocks()
            await self._store.write(lambda conn: due_rows.keep_first(conn, now))
            self._anchored = True

    def _read(
        self, conn: sa.Connection, now: ClockReading
    ) -> tuple[ClockReading | None, list[Run]]:
        first = due_rows.first(conn, now.boot)
        # The time that the wall clock would show if it had not been set during this boot.
        unset = now.wall if first is None else first.wall + now.mono - first.mono
        return first, self._scheduled.due(conn, now, max(now.wall, unset))

    def _judged(self, run: Run, first: ClockReading | None, now: ClockReading) -> DueVerdict:
        due = run.due or 0.0
        return judge_due(due, anchor_of(due, run.scheduled, first, now), now, self._rules)


async def repeat(
    name: str,
    wake: asyncio.Event,
    tick: Callable[[], Awaitable[None]],
    delay: Callable[[], Awaitable[float]],
) -> None:
    """Call *tick* until cancelled: at once when *wake* is set, else when the next run is due.

    Args:
        name: of the engine, for the log.
        wake: set when there may be work.
        tick: does all work that is due.
        delay: returns the seconds until the next tick, unless *wake* is set earlier.
    """
    while True:
        wake.clear()
        seconds = TICK_SECONDS
        try:
            await tick()
            seconds = await delay()
        except (CatenaError, OSError) as error:
            LOG.warning("%s: %s", name, error)
        try:
            # Not wait_for: on Python 3.11 it loses a cancellation that coincides with the wake.
            async with asyncio.timeout(seconds):
                await wake.wait()
        except TimeoutError:
            continue
