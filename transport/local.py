"""Unix sockets on one host: the peer's identity, and a blocking client. No zmq, no asyncio."""

from __future__ import annotations

import itertools
import os
import socket
import stat
import struct
import time
from collections import deque
from pathlib import Path
from typing import AbstractSet, Any, Deque, Dict, Iterator, List, Optional, Sequence, Tuple

from catena.core.errors import CatenaError, NotAllowedError, PeerError, UnreachableError
from catena.core.files import AnyPath, private_folder
from catena.core.frozen import dataclass
from catena.transport import wire
from catena.transport.failures import error_of
from catena.transport.framing import Frame, FrameReader, frame
from catena.transport.messages import (
    ClientItem,
    ClientItems,
    ClientStop,
    Envelope,
    Failure,
)

_CREDENTIALS = struct.Struct("3i")
_PATH_LIMIT = 107
#: Messages that are followed by more answers.
_ITEMS = (ClientItem, ClientItems)
_ITEM_NAMES = frozenset(kind.__name__ for kind in _ITEMS)


class LostAnswerError(UnreachableError):
    """The connection broke after a request was sent, which may or may not have taken effect."""


@dataclass(frozen=True)
class LocalPeer:
    """The process at the other end of a unix socket, as reported by the kernel."""

    uid: int
    gid: int
    pid: int


def peer_of(connection: socket.socket) -> LocalPeer:
    """Return the peer of a connected unix socket (SO_PEERCRED)."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return LocalPeer(uid, gid, pid)


#: Mode of a socket that a group may connect to.
SOCKET_MODE_GROUP = 0o660


def listen(path: AnyPath, group: Optional[int] = None, backlog: int = 128) -> socket.socket:
    """Return a non-blocking listening unix socket at *path*.

    The socket is 0600 in a folder of 0700; with *group* (a gid) 0660 in 0750, both of that group.
    The socket has mode 0600 in a folder of 0700; with *group* (a gid) 0660 in 0750, both owned by
    that group. A socket file that no process serves is replaced.

    Raises:
        UnreachableError: a living process serves *path* already, or the path is too long.
        UnsafeFolderError: the folder belongs to another user or is writable by others.
    """
    where = Path(path)
    folder = private_folder(where.parent)
    if len(os.fsencode(where)) > _PATH_LIMIT:
        raise UnreachableError(
            f"{where}: longer than a socket's path may be ({_PATH_LIMIT} bytes)"
        )
    _remove_dead(where)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Bind a temporary name, so that no client connects before the mode is set. Keep it no
        # longer than the socket's own name, so that a path within the limit does not fail.
        fresh = where.with_name(f".{os.getpid()}")
        fresh.unlink(missing_ok=True)
        listener.bind(os.fspath(fresh))
        fresh.chmod(0o600)
        if group is not None:
            os.chown(fresh, -1, group)
            fresh.chmod(SOCKET_MODE_GROUP)
            os.chown(folder, -1, group)
        folder.chmod(0o700 if group is None else 0o750)
        listener.listen(backlog)
        listener.setblocking(False)
        fresh.rename(where)
    except BaseException:
        listener.close()
        raise
    return listener


def _remove_dead(where: Path) -> None:
    try:
        mode = where.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise UnreachableError(f"{where}: exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(where))
        except (ConnectionRefusedError, FileNotFoundError):
            where.unlink(missing_ok=True)
            return
        except OSError as error:
            raise UnreachableError(f"{where}: {error.strerror}") from None
    raise UnreachableError(f"{where}: another process serves it already")


class LocalClient:
    """A blocking client of a master's or a minion's unix socket, for one thread.

    It connects at the first request; use it as a context manager or call `close`.

    Args:
        path: of the socket.
        receiver: "client" (a command line, or a job's relay), or "job" (a job process that sends
            PillarRequest, ChunkRequest … to its minion's daemon).
    """

    def __init__(self, path: AnyPath, receiver: str = "client") -> None:
        #: Value of the ClientReply that ended the last `stream`.
        self.last_reply: Any = None
        self._path = os.fspath(path)
        self._receiver = receiver
        self._socket: Optional[socket.socket] = None
        #: Process that connected; a forked copy needs a connection of its own.
        self._owner = 0
        self._reader = FrameReader()
        self._frames: Deque[Frame] = deque()

    def request(self, message: Any, timeout: Optional[float] = None) -> Any:
        """Send *message* and return the message that answers it (a ClientReply, PillarReply …).

        Args:
            message: ClientRequest, or for a job one of `ALLOWED["local", "minion"]`.
            timeout: seconds for the whole request; None waits for ever.

        Raises:
            CatenaError: of the class that the Failure names.
            UnreachableError: no process listens, or the time is up.
            LostAnswerError: the connection broke after the request was sent.
            NotAllowedError: this user may not open the socket.
        """
        end = _end(timeout)
        msg_id = self._send(message, end)
        while True:
            answer = self._answer(msg_id, end)
            if not isinstance(answer, _ITEMS):
                return answer

    def begin(self, message: Any, timeout: Optional[float] = None) -> bytes:
        """Send *message* and return its msg-id, by which `answered` identifies the answer.

        Raises:
            As `request`.
        """
        return self._send(message, _end(timeout))

    def answered(
        self, begun: AbstractSet[bytes], timeout: Optional[float] = None
    ) -> Tuple[bytes, Any]:
        """Return (msg-id, answer) of the first of *begun* to be answered; it may be a Failure.

        Raises:
            CatenaError: the connection as a whole is refused or lost; no more answers will come.
        """
        envelope = self._next_envelope(begun, _end(timeout))
        if envelope.reply_to == wire.ZERO:
            raise error_of(envelope.message)
        return envelope.reply_to, envelope.message

    def pipelined(
        self, messages: Sequence[Any], window: int, timeout: Optional[float] = None
    ) -> Iterator[Any]:
        """Yield the answers to *messages* in this order, with up to *window* requests in progress.

        Args:
            messages: as of `request`; each has one answer.
            window: maximum number of unanswered requests.
            timeout: longest wait for the next answer, seconds; None waits for ever.

        Raises:
            As `request`, for the first message that fails; answers to later ones are dropped.
        """
        waiting = iter(messages)
        under_way: Deque[bytes] = deque()
        early: Dict[bytes, Any] = {}
        while True:
            for message in itertools.islice(waiting, window - len(under_way)):
                under_way.append(self._send(message, _end(timeout)))
            if not under_way:
                return
            first = under_way.popleft()
            while first not in early:
                envelope = self._next_envelope({first, *under_way}, _end(timeout))
                if envelope.reply_to == wire.ZERO:
                    raise error_of(envelope.message)
                early[envelope.reply_to] = envelope.message
            answer = early.pop(first)
            if isinstance(answer, Failure):
                raise error_of(answer)
            yield answer

    def stream(
        self, message: Any, timeout: Optional[float] = None, first: Optional[float] = None
    ) -> Iterator[Any]:
        """Yield the value of each item, and return when the ClientReply has arrived.

        The reply's value is then in `last_reply`. Leaving the iteration early sends ClientStop.

        Args:
            message: a ClientRequest.
            timeout: longest wait in seconds for the next item; None waits for ever.
            first: the same for the request and its first item, if it differs.

        Raises:
            As `request`.
        """
        self.last_reply = None
        wait = timeout if first is None else first
        msg_id = self._send(message, _end(wait))
        ended = False
        try:
            while True:
                try:
                    answer = self._answer(msg_id, _end(wait))
                except CatenaError:
                    ended = True
                    raise
                wait = timeout
                if isinstance(answer, ClientItems):
                    yield from answer.values
                    continue
                if not isinstance(answer, ClientItem):
                    ended = True
                    self.last_reply = getattr(answer, "value", answer)
                    return
                yield answer.value
        finally:
            if not ended and self._socket is not None and not self._has_reply(msg_id):
                self._send(ClientStop(), _end(1.0), msg_id)

    def _has_reply(self, msg_id: bytes) -> bool:
        """Drop queued answers of an abandoned stream; return whether its reply was among them."""
        kept: List[Frame] = []
        ended = False
        for raw in self._frames:
            name, reply_to = wire.head(raw)
            if reply_to != msg_id:
                kept.append(raw)
            elif name not in _ITEM_NAMES:
                ended = True
        self._frames = deque(kept)
        return ended

    def notify(self, message: Any) -> None:
        """Send a message that has no answer (JobProgressed)."""
        self._send(message, _end(10.0))

    def is_usable(self) -> bool:
        """Return whether this process is connected and the peer has not closed the connection."""
        if self._socket is None or self._owner != os.getpid():
            return False
        # Each request sets its own time limit afterwards.
        self._socket.setblocking(False)
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._reader = FrameReader()
        self._frames.clear()

    def __enter__(self) -> LocalClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connected(self, end: Optional[float]) -> socket.socket:
        if self._socket is not None and self._owner == os.getpid():
            return self._socket
        self.close()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(_left(end))
            sock.connect(self._path)
        except PermissionError:
            sock.close()
            raise NotAllowedError(f"{self._path}: this user may not open it") from None
        except OSError as error:
            sock.close()
            reason = error.strerror or "no answer"
            raise UnreachableError(f"no process serves {self._path}: {reason}") from None
        self._socket, self._owner = sock, os.getpid()
        return sock

    def _send(self, message: Any, end: Optional[float], reply_to: bytes = wire.ZERO) -> bytes:
        msg_id = wire.new_id()
        data = frame(wire.pack(message, msg_id=msg_id, reply_to=reply_to))
        sock = self._connected(end)
        try:
            sock.settimeout(_left(end))
            sock.sendall(data)
        except OSError as error:
            if self._refusal(end):
                return msg_id
            self.close()
            raise self._broken(error) from None
        return msg_id

    def _refusal(self, end: Optional[float]) -> bool:
        """Return whether a server that closed the connection has left a message to read."""
        try:
            frames = self._read(end)
        except UnreachableError:
            return False
        self._frames.extend(frames)
        return bool(frames)

    def _broken(self, error: OSError) -> UnreachableError:
        if isinstance(error, socket.timeout):
            return UnreachableError(f"{self._path}: no answer in time")
        return LostAnswerError(f"{self._path}: {error.strerror or error}")

    def _answer(self, msg_id: bytes, end: Optional[float]) -> Any:
        message = self._next_envelope({msg_id}, end).message
        if isinstance(message, Failure):
            raise error_of(message)
        return message

    def _next_envelope(self, wanted: AbstractSet[bytes], end: Optional[float]) -> Envelope:
        """Return the next message that answers one of *wanted* or the connection as a whole."""
        while True:
            while not self._frames:
                self._frames.extend(self._read(end))
            envelope = wire.unpack(self._frames.popleft(), socket="local", receiver=self._receiver)
            # ZERO answers the connection as a whole: not allowed, or the server stops.
            if envelope.reply_to in wanted or envelope.reply_to == wire.ZERO:
                return envelope

    def _read(self, end: Optional[float]) -> List[Frame]:
        """Wait for data, and return the frames that it completes."""
        sock = self._connected(end)
        try:
            sock.settimeout(_left(end))
            count = sock.recv_into(self._reader.room())
        except OSError as error:
            self.close()
            raise self._broken(error) from None
        if not count:
            self.close()
            raise LostAnswerError(f"{self._path}: the server closed the connection")
        try:
            return self._reader.took(count)
        except PeerError:
            self.close()
            raise


def _end(timeout: Optional[float]) -> Optional[float]:
    return None if timeout is None else time.monotonic() + timeout


def _left(end: Optional[float]) -> Optional[float]:
    # 0 would make the socket non-blocking, so wait at least a millisecond.
    return None if end is None else max(0.001, end - time.monotonic())
