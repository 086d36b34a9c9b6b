"""A semaphore with named queues, which are served round-robin."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSemaphore:
    """A semaphore whose waiters are in named queues; free slots go to the queues round-robin.

    With two queues, each gets every second slot, however long the other one is.

    Args:
        count: number of slots.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        #: Queues by name, in round-robin order: the first one is served next.
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    def waiting(self, queue_name: str) -> int:
        """Return the number of waiters in the queue *queue_name*."""
        return len(self._queues.get(queue_name, ()))

    @asynccontextmanager
    async def slot(self, queue_name: str) -> AsyncIterator[None]:
        """Wait in the queue *queue_name* for a slot, and hold it while the block runs."""
        await self._wait(queue_name)
        try:
            yield
        finally:
            self._grant_next()

    async def _wait(self, queue_name: str) -> None:
        if self._free:
            self._free -= 1
            return
        mine = asyncio.get_running_loop().create_future()
        self._queues.setdefault(queue_name, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.cancelled():
                self._leave(queue_name, mine)
            else:
                # The slot was granted just before the cancellation; pass it to the next waiter.
                self._grant_next()
            raise

    def _leave(self, queue_name: str, one: asyncio.Future[None]) -> None:
        queue = self._queues.get(queue_name, deque())
        if one not in queue:
            return  # _grant_next has removed the cancelled waiter already
        queue.remove(one)
        if not queue:
            del self._queues[queue_name]

    def _grant_next(self) -> None:
        while self._queues:
            queue_name = next(iter(self._queues))
            queue = self._queues.pop(queue_name)
            one = queue.popleft()
            if queue:
                self._queues[queue_name] = queue  # append it behind the other queues
            # A cancelled waiter stays queued until the next iteration of the event loop.
            if not one.cancelled():
                one.set_result(None)
                return
        self._free += 1
