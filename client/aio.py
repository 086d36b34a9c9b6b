"""The asyncio client of the master."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, AsyncGenerator, Callable, Coroutine, Optional, Set, TypeVar

from catena.client.connection import MasterClient
from catena.client.requests.contract import Ask
from catena.client.typed import item_of
from catena.core.errors import PeerError, UnreachableError
from catena.core.files import AnyPath
from catena.transport import wire
from catena.transport.failures import error_of
from catena.transport.framing import FrameReader, frame
from catena.transport.local import LostAnswerError
from catena.transport.messages import ClientItem, ClientItems, ClientRequest, Failure

Q = TypeVar("Q")
A = TypeVar("A")
I = TypeVar("I")  # noqa: E741 - an item

_READ_BYTES = 256 * 1024


class AsyncMasterClient:
    """A client of the master on this host for the tasks of one event loop.

    Args:
        path: the master's unix socket.
        timeout: seconds for a reply; streams wait without limit.
        key: identifies the requests of this client, in their order; "": a new key.
        tell: called, in another thread, with one line when an answer is lost.
    """

    def __init__(
        self,
        path: AnyPath,
        timeout: float = 60.0,
        key: str = "",
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._path = Path(path)
        self._timeout = timeout
        self._key = key or os.urandom(12).hex()
        self._tell = tell
        self._asked = 0
        self._open: Set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> AsyncMasterClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in tuple(self._open):
            writer.close()

    async def ask(self, ask: Ask[Q, A, Any], request: Optional[Q] = None) -> A:
        """Return the reply to a request, like `MasterClient.ask` but in a thread.

        Cancelling the task does not cancel the request.
        """
        client = MasterClient(self._path, self._timeout, self._next_key(), self._tell)
        return await asyncio.to_thread(client.ask, ask, request)

    async def follow(
        self, ask: Ask[Q, Any, I], request: Optional[Q] = None, silence: Optional[float] = None
    ) -> AsyncGenerator[I, None]:
        """Yield each item of a stream as a record. Closing the iterator ends the stream.

        A job that is followed and whose answer is lost before the first item is looked for like
        in `MasterClient.follow`.

        Args:
            ask: the contract of a verb that streams.
            request: its request record.
            silence: longest wait for an item, seconds; None: unlimited.

        Raises:
            CatenaError: the error in the master's answer, as the class that it names.
            UnreachableError: no master answers on this host, or an item took too long.
            LostAnswerError: the connection broke after an item, or in a stream that only reads.
        """
        client = MasterClient(self._path, self._timeout, self._next_key(), self._tell)
        attempts, begun = client.attempts(ask, request), False
        while True:
            values = self._values(attempts.message, silence)
            try:
                async for value in values:
                    begun = True
                    yield item_of(ask, value)
                return
            except (LostAnswerError, PeerError) as error:
                await asyncio.to_thread(attempts.repeat, error, begun)
            finally:
                await values.aclose()

    async def _values(
        self, message: ClientRequest, silence: Optional[float]
    ) -> AsyncGenerator[Any, None]:
        """Send a request once and yield the items of its stream as plain data."""
        reader, writer = await self._connected()
        self._open.add(writer)
        try:
            writer.write(frame(wire.pack(message, msg_id=wire.new_id())))
            frames = FrameReader()
            while True:
                for raw in frames.feed(await self._more(reader, silence)):
                    answer = wire.unpack(raw, socket="local", receiver="client").message
                    if isinstance(answer, Failure):
                        raise error_of(answer)
                    if isinstance(answer, ClientItems):
                        for value in answer.values:
                            yield value
                    elif isinstance(answer, ClientItem):
                        yield answer.value
                    else:
                        return
        finally:
            self._open.discard(writer)
            # The master ends the requests of a connection that is closed.
            writer.close()

    def _next_key(self) -> str:
        self._asked += 1
        return f"{self._key}.{self._asked}"

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_unix_connection(self._path)
        except OSError as error:
            reason = error.strerror or "no answer"
            raise UnreachableError(f"no process serves {self._path}: {reason}") from None

    async def _more(self, reader: asyncio.StreamReader, silence: Optional[float]) -> bytes:
        try:
            data = await _within(silence, reader.read(_READ_BYTES))
        except asyncio.TimeoutError:
            raise UnreachableError(f"{self._path}: no answer in time") from None
        except OSError as error:
            raise LostAnswerError(f"{self._path}: {error.strerror or error}") from None
        if not data:
            raise LostAnswerError(f"{self._path}: the master closed the connection")
        return data


async def _within(seconds: Optional[float], work: Coroutine[Any, Any, A]) -> A:
    """Return the result of *work*.

    Unlike `asyncio.wait_for` before Python 3.12, a cancellation that comes together with the
    result takes effect.

    Args:
        seconds: longest wait; None: unlimited.
        work: is cancelled when the wait ends without a result.

    Raises:
        asyncio.TimeoutError: there was no result in time.
    """
    if seconds is None:
        return await work
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
        # The work has ended before its stream is closed; an error of it is never left unread.
        await asyncio.gather(task, return_exceptions=True)
    if task.cancelled():
        raise asyncio.TimeoutError
    return task.result()
