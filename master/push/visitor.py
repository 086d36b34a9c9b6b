"""The master's side of one visit: its process, and the messages from and to it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

from catena.core.errors import CatenaError
from catena.master.push import messages as m

#: Time in which a process must end after its last message.
END_SECONDS = 2.0


class VisitDiedError(CatenaError):
    """The process of a visit ended before its last message."""


class Visitor:
    """The process of one visit.

    Args:
        process: `python -m catena.master.push.child` with pipes as stdin and stdout.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        #: Whether the last message was received.
        self._over = False

    @classmethod
    async def start(cls, order: m.VisitOrder) -> Visitor:
        """Start the process of a visit and send its order.

        Raises:
            VisitDiedError: the process ended at once.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-m", "catena.master.push.child",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=4 * 1024 * 1024,
            # A new session: signals of the user's terminal reach only the master.
            start_new_session=True,
        )  # fmt: skip
        visitor = cls(process)
        try:
            await visitor.send(order)
        except BaseException:
            await visitor.end()
            raise
        return visitor

    async def send(self, message: Any) -> None:
        """Send a message to the process.

        Raises:
            VisitDiedError: the process has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(m.pack(message))
            await self._process.stdin.drain()
        except ConnectionError:
            raise VisitDiedError("the process of the visit has ended") from None

    async def messages(self) -> AsyncIterator[Any]:
        """Yield the messages of the process up to its last one.

        Raises:
            VisitDiedError: the process ended before its last message.
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
        """End the process; runs on the host continue."""
        if self._over:
            # The process ends by itself now, and a signal could hit a reused process id.
            # Not wait_for: on Python 3.11 it loses a cancellation that comes with the end.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await self._process.wait()
                return
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


def _of_code(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"code {code}"
