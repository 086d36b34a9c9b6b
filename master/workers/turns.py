"""Turns at something scarce, dealt fairly to those who wait in different lines."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """So many turns at a time; lines in which somebody waits get the next ones by turns.

    A line of ten thousand costs another one nothing but every second turn.

    Args:
        count: turns at a time.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        #: By the name of a line; the one that is served next comes first.
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}

    def waiting(self, line: str) -> int:
        """Return how many wait in *line*."""
        return len(self._lines.get(line, ()))

    @asynccontextmanager
    async def turn(self, line: str) -> AsyncIterator[None]:
        """Wait in *line* for a turn, and have it while the block runs."""
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
                # Its turn had come in the same moment: somebody else's now.
                self._deal()
            raise

    def _leave(self, line: str, one: asyncio.Future[None]) -> None:
        queue = self._lines.get(line, deque())
        if one not in queue:
            return  # a turn was dealt since it left, and has passed it by
        queue.remove(one)
        if not queue:
            del self._lines[line]

    def _deal(self) -> None:
        while self._lines:
            line = next(iter(self._lines))
            queue = self._lines.pop(line)
            one = queue.popleft()
            if queue:
                self._lines[line] = queue  # behind all others
            # Who was cancelled hears of it in the loop's next round, and stands here until then.
            if not one.cancelled():
                one.set_result(None)
                return
        self._free += 1
