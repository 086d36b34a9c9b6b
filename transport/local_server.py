"""The master's unix socket for clients on its own host (asyncio)."""

from __future__ import annotations

import asyncio
import logging
import pwd
from pathlib import Path
from typing import Any, Awaitable, Callable, Dict, Optional, Set

from catena.core.errors import CatenaError, NotAllowedError, PeerError, UnreachableError
from catena.core.files import AnyPath
from catena.transport import wire
from catena.transport.answers import Answers
from catena.transport.failures import failure_of
from catena.transport.framing import FrameReader
from catena.transport.local import LocalPeer, listen, peer_of
from catena.transport.messages import ClientReply, ClientStop, Envelope, Failure
from catena.transport.wire import ZERO

log = logging.getLogger(__name__)

_READ_BYTES = 256 * 1024
#: What is gathered in one turn of the loop is written from this size on.
_GATHER_BYTES = 64 * 1024
#: How long something patient waits for company: a quick minion has answered by then.
PATIENT_SECONDS = 0.004
#: Requests that one client may have under way.
REQUESTS = 64


class LocalConnection:
    """One client. `peer` says who; `send` waits while the client does not read."""

    def __init__(self, peer: LocalPeer, writer: asyncio.StreamWriter) -> None:
        self.peer = peer
        self._writer = writer
        self._lock = asyncio.Lock()
        #: Said in this turn of the loop: it goes out as one write, for its bytes.
        self._said = Answers()
        #: Written at the end of this turn, or when patience is over.
        self._soon = False
        self._later: Optional[asyncio.TimerHandle] = None

    async def send(self, message: Any, reply_to: bytes = ZERO, *, patient: bool = False) -> None:
        """Send; waits while the client does not read.

        Args:
            message: what to say.
            reply_to: what it answers.
            patient: it may go a moment later, with what else is said by then.

        Raises:
            UnreachableError: the client is gone.
            LimitError, NotPackableError: the message can't travel.
        """
        if self._lock.locked() or self._writer.transport.get_write_buffer_size():
            await self._readable()
        elif self._writer.is_closing():
            raise UnreachableError("the client is gone")
        last = type(message) is ClientReply
        self._said.add(message, reply_to)
        # The end of a request is what its client waits for.
        if last or self._said.size >= _GATHER_BYTES:
            self.flush()
        else:
            self._schedule(patient)

    def _schedule(self, patient: bool) -> None:
        loop = asyncio.get_running_loop()
        if not patient and not self._soon:
            self._soon = True
            loop.call_soon(self.flush)
        elif patient and self._later is None:
            self._later = loop.call_later(PATIENT_SECONDS, self.flush)

    async def _readable(self) -> None:
        """Wait until the client has read; one after the other."""
        async with self._lock:
            try:
                await self._writer.drain()
            except (ConnectionError, RuntimeError):
                raise UnreachableError("the client is gone") from None

    def flush(self) -> None:
        """Write what was said."""
        said, self._soon = self._said.take(), False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if said and not self._writer.is_closing():
            self._writer.write(said)


#: Runs as a task of its own per ClientRequest; cancelled by ClientStop and when the client goes.
#: A CatenaError that it raises is answered with a Failure.
Handler = Callable[[LocalConnection, Envelope], Awaitable[None]]


class LocalServer:
    """Serves ClientRequest on a unix socket.

    Args:
        path: socket to make; its folder becomes 0700 (0750 with *group*).
        handler: see Handler.
        allow: asked once per connection; False answers NotAllowedError and hangs up.
        group: gid that may connect too.
    """

    def __init__(
        self,
        path: AnyPath,
        handler: Handler,
        allow: Callable[[LocalPeer], bool],
        group: Optional[int] = None,
    ) -> None:
        self._path = Path(path)
        self._handler = handler
        self._allow = allow
        self._group = group
        self._server: Optional[asyncio.AbstractServer] = None
        self._clients: Set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen.

        Raises:
            UnreachableError: another process serves the path.
            UnsafeFolderError: the folder is not this user's alone.
        """
        listener = listen(self._path, self._group)
        self._server = await asyncio.start_unix_server(self._client, sock=listener)

    async def stop(self) -> None:
        """Hang up on everybody, cancel their requests, remove the socket."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        self._path.unlink(missing_ok=True)
        clients = list(self._clients)
        for task in clients:
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        requests: Dict[bytes, asyncio.Task[None]] = {}
        connection = LocalConnection(peer_of(writer.get_extra_info("socket")), writer)
        try:
            if self._allow(connection.peer):
                await self._serve(connection, reader, requests)
            else:
                refusal = NotAllowedError(_not_allowed(connection.peer.uid))
                await connection.send(failure_of(refusal))
        except (ConnectionError, UnreachableError):
            log.debug("%s: a client is gone", self._path)
        except PeerError as error:
            log.warning("%s: a client broke the protocol: %s", self._path, error)
        except asyncio.CancelledError:
            # Only `stop` cancels; a task that ends as cancelled is reported by the stream server.
            log.debug("%s: stops", self._path)
        finally:
            self._clients.discard(task)
            for request in requests.values():
                request.cancel()
            await asyncio.gather(*requests.values(), return_exceptions=True)
            connection.flush()
            writer.close()

    async def _serve(
        self,
        connection: LocalConnection,
        reader: asyncio.StreamReader,
        requests: Dict[bytes, asyncio.Task[None]],
    ) -> None:
        frames = FrameReader()
        while True:
            data = await reader.read(_READ_BYTES)
            if not data:
                return
            for raw in frames.feed(data):
                try:
                    envelope = wire.unpack(raw, socket="local", receiver="master")
                except wire.WireError as error:
                    await connection.send(failure_of(error), error.msg_id)
                    continue
                await self._begin(connection, envelope, requests)

    async def _begin(
        self,
        connection: LocalConnection,
        envelope: Envelope,
        requests: Dict[bytes, asyncio.Task[None]],
    ) -> None:
        if isinstance(envelope.message, ClientStop):
            request = requests.get(envelope.reply_to)
            if request is not None:
                request.cancel()
            return
        if len(requests) >= REQUESTS or envelope.msg_id in requests:
            fault = PeerError(f"more than {REQUESTS} requests at once, or one id twice")
            await connection.send(failure_of(fault), envelope.msg_id)
            return
        task = asyncio.create_task(self._handle(connection, envelope))
        requests[envelope.msg_id] = task
        task.add_done_callback(lambda _: requests.pop(envelope.msg_id, None))

    async def _handle(self, connection: LocalConnection, envelope: Envelope) -> None:
        try:
            await self._handler(connection, envelope)
        except CatenaError as error:
            await self._fail(connection, envelope, failure_of(error))
        except Exception:  # the edge: one request must not end the server
            log.exception("%s: request failed", self._path)
            failure = Failure(CatenaError.__name__, "internal error; the log has it")
            await self._fail(connection, envelope, failure)

    async def _fail(
        self, connection: LocalConnection, envelope: Envelope, failure: Failure
    ) -> None:
        try:
            await connection.send(failure, envelope.msg_id)
        except UnreachableError:
            log.debug("%s: nobody is left to tell: %s", self._path, failure.message)


def _not_allowed(uid: int) -> str:
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = f"uid {uid}"
    return f"{user} may not use the master: not in `cli_users` of its configuration"
