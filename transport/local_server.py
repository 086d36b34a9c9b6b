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
from catena.transport.answers import ReplyQueue
from catena.transport.failures import failure_of
from catena.transport.framing import FrameReader
from catena.transport.local import LocalPeer, listen, peer_of
from catena.transport.messages import ClientReply, ClientStop, Envelope, Failure
from catena.transport.wire import ZERO

log = logging.getLogger(__name__)

_READ_BYTES = 256 * 1024
#: Bytes gathered in one iteration of the event loop that are written without waiting for its end.
_GATHER_BYTES = 64 * 1024
#: Seconds for which a patient message waits for others; a quick minion answers within them.
PATIENT_SECONDS = 0.004
#: Maximum number of concurrent requests of one client.
REQUESTS = 64


class LocalConnection:
    """One client, identified by `peer`; `send` waits while the client does not read."""

    def __init__(self, peer: LocalPeer, writer: asyncio.StreamWriter) -> None:
        self.peer = peer
        self._writer = writer
        self._lock = asyncio.Lock()
        #: Messages gathered in this iteration of the event loop, which are written together.
        self._said = ReplyQueue()
        #: Whether a write is scheduled for the end of this iteration.
        self._soon = False
        self._later: Optional[asyncio.TimerHandle] = None

    async def send(self, message: Any, reply_to: bytes = ZERO, *, patient: bool = False) -> None:
        """Send a message; wait while the client does not read.

        Args:
            message: the message.
            reply_to: msg-id of the request that it answers.
            patient: wait up to PATIENT_SECONDS for further messages to share a write.

        Raises:
            UnreachableError: the client has disconnected.
            LimitError, NotPackableError: the message cannot be sent.
        """
        if self._lock.locked() or self._writer.transport.get_write_buffer_size():
            await self._readable()
        elif self._writer.is_closing():
            raise UnreachableError("the client has disconnected")
        last = type(message) is ClientReply
        self._said.add(message, reply_to)
        # The client waits for the end of its request, so write it at once.
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
        """Wait until the client has read; callers wait one after the other."""
        async with self._lock:
            try:
                await self._writer.drain()
            except (ConnectionError, RuntimeError):
                raise UnreachableError("the client has disconnected") from None

    def flush(self) -> None:
        """Write all gathered messages."""
        said, self._soon = self._said.take(), False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if said and not self._writer.is_closing():
            self._writer.write(said)


#: Runs as a task per ClientRequest; cancelled by ClientStop or when the client disconnects.
#: A CatenaError that it raises is answered with a Failure.
Handler = Callable[[LocalConnection, Envelope], Awaitable[None]]


class LocalServer:
    """Serves ClientRequest on a unix socket.

    Args:
        path: socket to create; its folder gets mode 0700 (0750 with *group*).
        handler: see Handler.
        allow: called once per connection; if it returns False, the client gets NotAllowedError and
            is disconnected.
        group: gid whose members may connect too.
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
            UnsafeFolderError: the folder belongs to another user or is writable by others.
        """
        listener = listen(self._path, self._group)
        self._server = await asyncio.start_unix_server(self._client, sock=listener)

    async def stop(self) -> None:
        """Disconnect all clients, cancel their requests, and remove the socket."""
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
            log.debug("%s: a client disconnected", self._path)
        except PeerError as error:
            log.warning("%s: a client violated the protocol: %s", self._path, error)
        except asyncio.CancelledError:
            # Only `stop` cancels; asyncio's stream server would report a cancelled task.
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
            log.debug("%s: no client left for the answer: %s", self._path, failure.message)


def _not_allowed(uid: int) -> str:
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = f"uid {uid}"
    return f"{user} may not use the master: not in `cli_users` of its configuration"
