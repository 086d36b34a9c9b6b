"""When a run begins, by both clocks of the master."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from catena.core.clock import ManualClock
from catena.core.errors import TryLaterError
from catena.master.executions import due
from catena.master.executions.due import (
    TICK_SECONDS,
    Due,
    DueRules,
    DueRuns,
    anchor_of,
    judge_due,
    pause,
    waited_since,
)
from catena.master.executions.due_rows import Scheduled
from catena.master.process.clocks import ClockReading, HostClocks
from catena.master.store.database import Store
from catena.master.store.execution_tables import RUNS

HOUR = 3600.0
DUE = 1_000_000.0
#: Scheduled two hours before it is due.
ANCHOR = ClockReading(DUE - 2 * HOUR, 500.0, "boot")
RULES = DueRules()
#: Of an engine that is no chain.
TOYS, PLANNED = "toys", "planned"


def after(wall_hours: float, mono_hours: float | None = None, boot: str = "boot") -> ClockReading:
    """Return the clocks so long after the due time."""
    mono = wall_hours if mono_hours is None else mono_hours
    return ClockReading(DUE + wall_hours * HOUR, 500.0 + (mono + 2) * HOUR, boot)


@pytest.mark.parametrize(
    ("now", "anchor", "what"),
    [
        (after(-0.1), ANCHOR, Due.wait),
        (after(0), ANCHOR, Due.fire),
        (after(23.9), ANCHOR, Due.fire),
        (after(24.1), ANCHOR, Due.reject),
        # The wall clock was set forward over the due time: nobody knows what is right.
        (after(1, -1), ANCHOR, Due.hold),
        (after(30, 2), ANCHOR, Due.hold),
        # Both clocks say that it is due, whatever they think of how long ago.
        (after(1, 5), ANCHOR, Due.fire),
        (after(5, 1), ANCHOR, Due.fire),
        # The host has booted since, so the boot clock says nothing.
        (after(1, boot="other"), ANCHOR, Due.fire),
        (after(30, boot="other"), ANCHOR, Due.hold),
        (after(30), None, Due.hold),
        # The wall clock was set back: by the boot clock the time has come, or will come.
        (after(-71, 1), ANCHOR, Due.hold),
        (after(-71, -1), ANCHOR, Due.wait),
        (after(-0.05, 0), ANCHOR, Due.wait),
        (after(-71, boot="other"), ANCHOR, Due.hold),
        (after(-1, boot="other"), ANCHOR, Due.wait),
        (after(-71), None, Due.wait),
        # A small step is what time servers do.
        (after(0.05, 0), ANCHOR, Due.fire),
    ],
)
def test_due_chain_starts_waits_or_is_rejected(
    now: ClockReading, anchor: ClockReading | None, what: Due
) -> None:
    verdict = judge_due(DUE, anchor, now, RULES)
    assert verdict.what is what
    assert bool(verdict.reason) == (what in (Due.hold, Due.reject))


@pytest.mark.parametrize(
    ("now", "first", "expected"),
    [
        (after(1), None, ANCHOR),
        (after(-71, 1, boot="other"), after(-70, 0, boot="other"), ANCHOR),
        (after(1, boot="other"), after(-1, boot="other"), after(-1, boot="other")),
        (after(-1, 5, boot="other"), after(1, 1, boot="other"), after(1, 1, boot="other")),
        (after(2, boot="other"), after(1, boot="other"), None),
        (after(2, boot="other"), None, None),
    ],
)
def test_anchor_is_the_reading_by_which_the_clocks_can_be_compared(
    now: ClockReading, first: ClockReading | None, expected: ClockReading | None
) -> None:
    assert anchor_of(DUE, ANCHOR, first, now) == expected


@pytest.mark.parametrize(
    ("now", "hours"),
    [
        (after(3), 3),
        # The wall clock was set within the boot: the boot clock tells.
        (after(30, 3), 3),
        (after(-71, 3), 3),
        (after(5, boot="other"), 5),
    ],
)
def test_wait_of_a_host_is_counted_by_the_monotonic_clock(now: ClockReading, hours: float) -> None:
    assert waited_since(DUE, ANCHOR, now) == hours * HOUR


@pytest.mark.parametrize(
    ("next_due", "seconds"),
    [(None, TICK_SECONDS), (1002.0, 2.0), (9000.0, TICK_SECONDS), (900.0, 0.05)],
)
def test_pause_ends_with_the_next_due_time(next_due: float | None, seconds: float) -> None:
    assert pause(next_due, 1000.0) == seconds


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = Store(f"sqlite:///{tmp_path}/master.db")
    await opened.open()
    yield opened
    await opened.close()


class Plan:
    """The due runs of an engine that is no chain, on clocks that the test sets."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
        self.clocks = HostClocks(self.clock, "boot-1")
        self.runs = DueRuns(store, self.clocks.read, Scheduled(TOYS, PLANNED), RULES)

    async def add(
        self, ref: str, seconds: float, engine: str = TOYS, state: str = PLANNED
    ) -> None:
        """Store a run that is due so many seconds from now."""
        now = self.clocks.read()
        row = {
            "engine": engine, "ref": ref, "owner": "anna", "state": state, "created": now.wall,
            "status": "PENDING_SCHEDULE", "due": now.wall + seconds, "anchor_wall": now.wall,
            "anchor_mono": now.mono, "anchor_boot": now.boot,
        }  # fmt: skip
        await self.store.write(lambda conn: conn.execute(sa.insert(RUNS).values(row)))

    async def found(self) -> list[tuple[str, Due]]:
        return [(run.ref, verdict.what) for run, verdict in await self.runs.look()]


async def test_due_runs_are_those_of_the_engine_that_wait_for_their_time(store: Store) -> None:
    plan = Plan(store)
    await plan.add("later", 60.0)
    await plan.add("second", 2.0)
    await plan.add("first", 1.0)
    await plan.add("foreign", 1.0, engine="others")
    await plan.add("begun", 1.0, state="works")
    assert await plan.found() == []
    plan.clock.advance(3.0)
    assert await plan.found() == [("first", Due.fire), ("second", Due.fire)]


async def test_due_run_is_held_when_the_clock_was_set_back(store: Store) -> None:
    plan = Plan(store)
    await plan.add("report", 60.0)
    plan.clock.step(-HOUR)
    plan.clock.advance(90.0)
    assert await plan.found() == [("report", Due.hold)]


async def test_scheduler_sleep_ignores_runs_that_were_already_due(store: Store) -> None:
    plan = Plan(store)
    await plan.add("stuck", 1.0)
    await plan.add("next", 4.0)
    assert await plan.runs.pause() == 1.0
    plan.clock.advance(2.0)
    await plan.found()
    assert await plan.runs.pause() == 2.0


async def test_scheduler_ticks_again_after_an_error_when_it_is_woken() -> None:
    wake = asyncio.Event()
    ticks: list[int] = []

    async def tick() -> None:
        ticks.append(len(ticks))
        wake.set()
        if len(ticks) == 1:
            raise TryLaterError("the store is busy")
        if len(ticks) == 3:
            raise asyncio.CancelledError

    async def delay() -> float:
        return 60.0

    with pytest.raises(asyncio.CancelledError):
        await due.repeat(TOYS, wake, tick, delay)
    assert ticks == [0, 1, 2]
