"""The daemon's unix socket for job processes and `catena call` of this host (non-blocking)."""

from __future__ import annotations

import os
import socket
from collections import deque
from itertools import islice
from pathlib import Path
from typing import Any, Callable, Deque, Dict, Tuple

from catena.core.errors import CatenaError, NotAllowedError
from catena.core.files import private_folder
from catena.minion.log import Log
from catena.minion.loop import Loop
from catena.transport import wire
from catena.transport.failures import failure_of
from catena.transport.framing import FrameReader, StreamError, frame, head
from catena.transport.local import listen, peer_of
from catena.transport.messages import Envelope
from catena.transport.zeromq import zmq

_READ_BYTES = 256 * 1024
#: Maximum number of waiting buffers passed to one sendmsg() call.
_AT_ONCE = 16
#: Size in bytes of a connection's send buffer in the kernel.
_SEND_BYTES = 2 * 1024 * 1024
#: Missing in Python's socket module (asm-generic/socket.h).
_SO_SNDBUFFORCE = 32
#: Maximum bytes of unread answers of one connection.
_UNREAD_LIMIT = 64 * 1024 * 1024


class LocalCaller:
    """The connection of one process of this host."""

    def __init__(self, owner: LocalSocket, sock: socket.socket) -> None:
        self._owner = owner
        self.socket = sock
        self.handle = sock.fileno()
        self.peer = peer_of(sock)
        self._reader = FrameReader()
        self._unsent: Deque[memoryview] = deque()
        self._unsent_bytes = 0
        #: Whether the loop waits until the socket is writable.
        self._full = False
        self.open = True

    def send(self, message: Any, reply_to: bytes) -> None:
        """Send without waiting; close a connection whose unread answers exceed the limit."""
        if not self.open:
            return
        try:
            parts = _framed(message, reply_to)
        except CatenaError as error:
            parts = _framed(failure_of(error), reply_to)
        for part in parts:
            self._unsent.append(memoryview(part))
            self._unsent_bytes += len(part)
        self.flush()
        if self._unsent_bytes > _UNREAD_LIMIT:
            self._owner.drop(self)

    def flush(self) -> None:
        """Send as much as possible of what waits."""
        while self._unsent:
            try:
                sent = self.socket.sendmsg(list(islice(self._unsent, _AT_ONCE)))
            except BlockingIOError:
                break
            except OSError:
                self._owner.drop(self)
                return
            self._sent(sent)
        if self._full != bool(self._unsent):
            self._full = bool(self._unsent)
            self._owner.interest(self, self._full)

    def _sent(self, count: int) -> None:
        self._unsent_bytes -= count
        while count:
            first = self._unsent.popleft()
            if count < len(first):
                self._unsent.appendleft(first[count:])
            count -= min(count, len(first))

    def read(self) -> None:
        """Handle the data that has arrived."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._owner.drop(self)
            return
        try:
            frames = self._reader.feed(data)
        except StreamError:
            self._owner.drop(self)
            return
        for item in frames:
            if self.open:
                self._owner.handle(self, item)


def _framed(message: Any, reply_to: bytes) -> Tuple[bytes, wire.Buffer]:
    """Return the frame's head and the message's body, which may be large."""
    top, body = wire.parts(message, reply_to=reply_to)
    return head(len(top) + len(body)) + top, body


def _make_room(sock: socket.socket) -> None:
    """Enlarge the send buffer for several pieces of files, to wake the agent less often."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SEND_BYTES)
    except OSError:
        # Only root may exceed the system's limit.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)


class LocalSocket:
    """Serves root and the daemon's own user.

    Args:
        loop: watches the socket.
        path: of the socket; its folder gets mode 0700.
        on_message: called for each valid message. A CatenaError is answered with a Failure.
        on_gone: called when a connection ends.
        log: the agent's log.
    """

    def __init__(
        self,
        loop: Loop,
        path: Path,
        on_message: Callable[[LocalCaller, Envelope], None],
        on_gone: Callable[[LocalCaller], None],
        log: Log,
    ) -> None:
        self._loop, self._path, self._log = loop, path, log
        self._on_message, self._on_gone = on_message, on_gone
        private_folder(path.parent)
        self._listener = listen(path)
        self._connections: Dict[int, LocalCaller] = {}
        loop.watch(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Close all connections and remove the socket."""
        for connection in list(self._connections.values()):
            self.drop(connection)
        self._loop.forget(self._listener.fileno())
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def interest(self, connection: LocalCaller, write: bool) -> None:
        """Choose whether to wait until the connection is writable, too."""
        self._loop.watch(
            connection.handle, lambda mask: self._ready(connection, mask), write=write
        )

    def drop(self, connection: LocalCaller) -> None:
        """Close a connection."""
        if not connection.open:
            return
        connection.open = False
        self._loop.forget(connection.handle)
        self._connections.pop(connection.handle, None)
        connection.socket.close()
        self._on_gone(connection)

    def handle(self, connection: LocalCaller, data: bytes) -> None:
        """Decode and dispatch a frame; an invalid one is answered and affects nobody else."""
        msg_id = wire.ZERO
        try:
            envelope = wire.unpack(data, socket="local", receiver="minion", keep=True)
            msg_id = envelope.msg_id
            self._on_message(connection, envelope)
        except wire.WireError as error:
            connection.send(failure_of(error), error.msg_id)
        except CatenaError as error:
            connection.send(failure_of(error), msg_id)
        except OSError as error:
            # For example a full disk while an event is stored: report it and keep running.
            self._log.error(f"local request failed: {error}")
            connection.send(failure_of(CatenaError(str(error))), msg_id)

    def _accept(self, _mask: int) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        _make_room(sock)
        connection = LocalCaller(self, sock)
        if connection.peer.uid not in (0, os.geteuid()):
            self._log.warning(f"local socket: refused user {connection.peer.uid}")
            refusal = failure_of(NotAllowedError("only root and the agent's user are allowed"))
            sock.send(frame(wire.pack(refusal)))
            sock.close()
            return
        self._connections[connection.handle] = connection
        self.interest(connection, False)

    def _ready(self, connection: LocalCaller, mask: int) -> None:
        if mask & zmq.POLLOUT:
            connection.flush()
        if connection.open and mask & (zmq.POLLIN | zmq.POLLERR):
            connection.read()
