"""The master's end of one visit: a process, and the words between."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

from catena.core.errors import CatenaError
from catena.master.push import messages as m

#: For a process that has said its last word to end.
END_SECONDS = 2.0


class VisitDiedError(CatenaError):
    """The process of a visit ended without a word, or hung."""


class Visitor:
    """The process of one visit.

    Args:
        process: `python -m catena.master.push.child`, with pipes.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        #: It has said its last word.
        self._over = False

    @classmethod
    async def start(cls, order: m.VisitOrder) -> Visitor:
        """Return a visit that has its order.

        Raises:
            VisitDiedError: it ended at once.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-m", "catena.master.push.child",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=4 * 1024 * 1024,
            # What the user's terminal sends to the master's group is not meant for it.
            start_new_session=True,
        )  # fmt: skip
        visitor = cls(process)
        try:
            await visitor.say(order)
        except BaseException:
            await visitor.end()
            raise
        return visitor

    async def say(self, message: Any) -> None:
        """Tell the visit.

        Raises:
            VisitDiedError: it has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(m.pack(message))
            await self._process.stdin.drain()
        except ConnectionError:
            raise VisitDiedError("the process of the visit has ended") from None

    async def words(self) -> AsyncIterator[Any]:
        """Yield what the visit says, until it is done.

        Raises:
            VisitDiedError: it ended without a last word.
        """
        assert self._process.stdout is not None
        while True:
            try:
                head = await self._process.stdout.readexactly(m.HEAD_BYTES)
                body = await self._process.stdout.readexactly(m.size_of(head))
            except (asyncio.IncompleteReadError, ConnectionError):
                code = await self._process.wait()
                raise VisitDiedError(f"the process of the visit died ({_of_code(code)})") from None
            message = m.unpack(body)
            self._over = isinstance(message, (m.Done, m.Troubled))
            yield message
            if self._over:
                return

    async def end(self) -> None:
        """End the process; what runs on the host goes on."""
        if self._over:
            # It ends by itself now; a signal would meet who reaps it.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), END_SECONDS)
                return
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


def _of_code(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"code {code}"
