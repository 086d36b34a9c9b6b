"""How a visit's process is ended, with a scripted process."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from catena.master.push import messages as m
from catena.master.push.visitor import Visitor


class Process:
    """A process that has sent its last message and ends when the test says so."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.stdout = asyncio.StreamReader()
        self.stdout.feed_data(m.pack(m.Done()))

    async def wait(self) -> int:
        return await asyncio.shield(self.ended)

    def kill(self) -> None:
        raise AssertionError("a process that ends by itself is not killed")


@pytest.mark.parametrize("steps", range(4))
async def test_cancellation_that_coincides_with_the_end_of_the_process_is_kept(steps: int) -> None:
    process = Process()
    visitor = Visitor(cast(Any, process))
    assert [type(message) async for message in visitor.messages()] == [m.Done]
    task = asyncio.create_task(visitor.end())
    await asyncio.sleep(0)
    process.ended.set_result(0)
    for _ in range(steps):
        await asyncio.sleep(0)
    if task.cancel():
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        await task
