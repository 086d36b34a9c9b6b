"""Steps of the scheduler that run beside each other."""

from __future__ import annotations

import asyncio

import pytest

from catena.master.chains import steps
from catena.master.store.database import StoreUnavailableError

ITEMS = range(steps.AT_A_TIME + 1)


async def test_several_steps_run_at_the_same_time_up_to_the_limit() -> None:
    begun: list[int] = []
    together: list[int] = []

    async def act(item: int) -> None:
        begun.append(item)
        await asyncio.sleep(0)
        together.append(len(begun))

    await steps.several(ITEMS, act)
    assert begun == list(ITEMS)
    assert together == [steps.AT_A_TIME] * steps.AT_A_TIME + [len(ITEMS)]


async def test_error_of_a_step_is_raised_after_those_beside_it_have_ended() -> None:
    ended: list[int] = []

    async def act(item: int) -> None:
        if item == 0:
            raise StoreUnavailableError("the store is down")
        await asyncio.sleep(0)
        ended.append(item)

    with pytest.raises(StoreUnavailableError):
        await steps.several(ITEMS, act)
    assert ended == list(ITEMS)[1:-1]
