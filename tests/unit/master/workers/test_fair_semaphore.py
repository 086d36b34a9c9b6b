"""Slots go to the queues round-robin, also when waiters are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from catena.master.workers.fair_semaphore import FairSemaphore
from tests.support.waiting import run_ready_tasks

Story = Callable[["Desk"], Awaitable[None]]


class Desk:
    """Records the order in which waiters get slots, and decides when each slot is released."""

    def __init__(self, count: int) -> None:
        self.slots = FairSemaphore(count)
        self.had: list[str] = []
        self._over: asyncio.Queue[None] = asyncio.Queue()

    def come(self, queue: str, name: str) -> asyncio.Task[None]:
        return asyncio.create_task(self._visit(queue, name))

    async def _visit(self, queue: str, name: str) -> None:
        async with self.slots.slot(queue):
            self.had.append(name)
            await self._over.get()

    async def settle(self) -> None:
        await run_ready_tasks(5)

    async def end(self, count: int = 1) -> None:
        for _ in range(count):
            self._over.put_nowait(None)
            await self.settle()


async def test_long_queue_takes_only_every_second_slot_from_another() -> None:
    desk = Desk(1)
    tasks = [desk.come("pillar", f"p{number}") for number in range(6)]
    tasks += [desk.come("start", f"s{number}") for number in range(2)]
    await desk.settle()
    assert desk.had == ["p0"]
    assert (desk.slots.waiting("pillar"), desk.slots.waiting("start")) == (5, 2)
    await desk.end(8)
    assert desk.had == ["p0", "p1", "s0", "p2", "s1", "p3", "p4", "p5"]
    await asyncio.gather(*tasks)
    assert desk.slots.waiting("pillar") == 0


async def test_number_of_running_tasks_is_limited() -> None:
    desk = Desk(2)
    tasks = [desk.come("one", f"{number}") for number in range(5)]
    await desk.settle()
    assert len(desk.had) == 2
    await desk.end(2)
    assert len(desk.had) == 4
    await desk.end(3)
    await asyncio.gather(*tasks)


async def test_cancelled_waiter_is_skipped() -> None:
    desk = Desk(1)
    first, second, third = (desk.come("one", name) for name in ("a", "b", "c"))
    await desk.settle()
    second.cancel()
    await desk.settle()
    await desk.end(2)
    assert desk.had == ["a", "c"]
    # All slots are free again.
    await asyncio.gather(first, third, return_exceptions=True)
    again = desk.come("two", "d")
    await desk.settle()
    assert desk.had[-1] == "d"
    await desk.end()
    await again


async def test_slot_granted_to_a_just_cancelled_waiter_goes_to_the_next() -> None:
    desk = Desk(1)
    first, second, third = (desk.come("one", name) for name in ("a", "b", "c"))
    await desk.settle()
    first.cancel()
    # In one iteration of the loop, the first releases its slot, and the second gets it and ends.
    await run_ready_tasks(1)
    second.cancel()
    await desk.settle()
    assert desk.had == ["a", "c"]
    await desk.end()
    await asyncio.gather(first, second, third, return_exceptions=True)


async def test_slot_freed_while_the_next_waiter_is_cancelled_goes_to_the_one_behind() -> None:
    desk = Desk(1)
    first, second, third = (desk.come("one", name) for name in ("a", "b", "c"))
    other = desk.come("two", "d")
    await desk.settle()
    # In one iteration of the loop, the first is woken and releases its slot before the second is
    # woken by its cancellation.
    first.cancel()
    second.cancel()
    await desk.settle()
    await desk.end(2)
    assert sorted(desk.had) == ["a", "c", "d"]
    await asyncio.gather(first, second, third, other, return_exceptions=True)
    assert (desk.slots.waiting("one"), desk.slots.waiting("two")) == (0, 0)


async def test_queue_whose_last_waiter_is_cancelled_keeps_no_slot() -> None:
    desk = Desk(1)
    first, second = (desk.come("one", name) for name in ("a", "b"))
    await desk.settle()
    first.cancel()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    again = desk.come("two", "c")
    await desk.settle()
    assert desk.had == ["a", "c"]
    await desk.end()
    await again
