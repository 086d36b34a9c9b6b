"""A semaphore with named queues, which are served round-robin."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """A semaphore whose waiters stand in named queues; free slots go to the queues round-robin.

    With two queues, each gets every second slot, however long the other one is.

    Args:
        count: number of slots.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        #: Queues by name, in round-robin order: the first one is served next.
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}

    def waiting(self, line: str) -> int:
        """Return the number of waiters in the queue *line*."""
        return len(self._lines.get(line, ()))

    @asynccontextmanager
    async def turn(self, line: str) -> AsyncIterator[None]:
        """Wait in the queue *line* for a slot, and hold it while the block runs."""
        await self._wait(line)
        try:
            yield
        finally:
            self._deal()

    async def _wait(self, line: str) -> None:
        if self._free:
            self._free -= 1
            return
        mine = asyncio.get_running_loop().create_future()
        self._lines.setdefault(line, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.cancelled():
                self._leave(line, mine)
            else:
                # The slot was granted just before the cancellation; pass it to the next waiter.
                self._deal()
            raise

    def _leave(self, line: str, one: asyncio.Future[None]) -> None:
        queue = self._lines.get(line, deque())
        if one not in queue:
            return  # _deal has removed the cancelled waiter already
        queue.remove(one)
        if not queue:
            del self._lines[line]

    def _deal(self) -> None:
        while self._lines:
            line = next(iter(self._lines))
            queue = self._lines.pop(line)
            one = queue.popleft()
            if queue:
                self._lines[line] = queue  # append it behind the other queues
            # A cancelled waiter stays queued until the next iteration of the event loop.
            if not one.cancelled():
                one.set_result(None)
                return
        self._free += 1
