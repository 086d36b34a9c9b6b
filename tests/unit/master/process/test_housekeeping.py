"""Chores become due by the clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from catena.core.errors import CatenaError
from catena.master.process.housekeeping import Housekeeping, PeriodicTask


def noting(
    done: list[str], name: str, fault: Exception | None = None
) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        done.append(name)
        if fault:
            raise fault

    return work


@pytest.mark.parametrize("step", [1.0, 2.5, 7.0])
async def test_chore_runs_on_time_however_long_a_round_takes(
    step: float,
) -> None:
    done: list[str] = []
    housekeeping = Housekeeping([PeriodicTask(5.0, noting(done, "sweep"))], 100.0)
    now, rounds = 100.0, 0
    while now < 200.0:
        now, rounds = now + step, rounds + 1
        await housekeeping.run_due(now)
    every = step * -(-5.0 // step)
    assert len(done) == int(rounds * step / every)


async def test_missed_chores_run_once() -> None:
    done: list[str] = []
    housekeeping = Housekeeping([PeriodicTask(5.0, noting(done, "sweep"))], 0.0)
    for now in (4.9, 3600.0, 3601.0):
        await housekeeping.run_due(now)
    assert done == ["sweep"]


async def test_failing_chore_does_not_delay_others() -> None:
    done: list[str] = []
    chores = [
        PeriodicTask(1.0, noting(done, "sweep", CatenaError("the store is locked"))),
        PeriodicTask(1.0, noting(done, "prune", OSError("gone"))),
        PeriodicTask(1.0, noting(done, "trim")),
    ]
    housekeeping = Housekeeping(chores, 0.0)
    for now in (1.0, 2.0):
        await housekeeping.run_due(now)
    assert done == ["sweep", "prune", "trim"] * 2
