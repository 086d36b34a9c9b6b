"""The TCP connections under a ROUTER socket: what they cost, and how one is cut.

ZeroMQ shows a connection only by its whole messages. What comes before that (a message of endless
parts fills the memory of the receiver and is never delivered) and how to end a connection whose
key was revoked are below it: libzmq says which file descriptors it accepted, the kernel says how
many bytes each has brought, and a shutdown of the descriptor makes libzmq drop it.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
from typing import Any, Dict, List, Optional, Tuple

from catena.core.frozen import dataclass

log = logging.getLogger(__name__)

# struct tcp_info of linux/tcp.h: tcpi_bytes_received, since Linux 4.1.
_BYTES_RECEIVED_AT = 128
_TCP_INFO_BYTES = 136
# tcpi_state, its first byte.
_ESTABLISHED = 1


@dataclass
class Connection:
    """One accepted TCP connection."""

    fd: int
    #: Monotonic seconds at which it was accepted.
    since: float
    #: Bytes that TCP had brought when the last whole message was seen.
    base: int = 0
    #: A whole message came since the last check.
    delivered: bool = False


def bytes_received(fd: int) -> Optional[int]:
    """Return how many bytes TCP has brought on *fd*; None when it is no TCP connection (now)."""
    try:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=fd)
    except OSError:
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except OSError:
        return None
    finally:
        sock.detach()
    if len(info) < _TCP_INFO_BYTES:
        return None
    number: int = struct.unpack_from("=Q", info, _BYTES_RECEIVED_AT)[0]
    return number


def remote(fd: int) -> Optional[Tuple[Any, ...]]:
    """Return the address and port at the far end of *fd*; None when it is no open connection."""
    try:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=fd)
    except OSError:
        return None
    try:
        state = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        end: Tuple[Any, ...] = sock.getpeername()
    except OSError:
        return None
    finally:
        sock.detach()
    return end if state == _ESTABLISHED else None


def cut(fd: int, port: int) -> bool:
    """Shut down the TCP connection *fd* of our listening *port*; libzmq then closes it.

    The descriptor belongs to libzmq and may have been closed and given to something else a moment
    ago: nothing but a connection of this very port is touched, where the worst case is another
    minion that connects again.
    """
    try:
        copy = os.dup(fd)
    except OSError:
        return False
    try:
        sock = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return False
    with sock:
        try:
            if sock.family not in (socket.AF_INET, socket.AF_INET6):
                return False
            if sock.getsockname()[1] != port:
                return False
            sock.getpeername()
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return False
    return True


class Connections:
    """The connections of one listening port.

    Args:
        port: TCP port that they come in on.
        budget: bytes that one may bring without completing a message.
        capacity: how many there may be; one more cuts the oldest. 0: no bound.
        seconds: how long one may last. 0: no bound.
    """

    def __init__(self, port: int, budget: int, capacity: int = 0, seconds: float = 0.0) -> None:
        self._port = port
        self._budget = budget
        self._capacity = capacity
        self._seconds = seconds
        self._by_fd: Dict[int, Connection] = {}

    def accepted(self, fd: int, now: float) -> None:
        """Note a new connection."""
        self._by_fd.pop(fd, None)
        if self._capacity and len(self._by_fd) >= self._capacity:
            oldest = next(iter(self._by_fd))
            log.warning("port %d: %d connections, the oldest is cut", self._port, self._capacity)
            self.cut(oldest)
        self._by_fd[fd] = Connection(fd, now)

    def closed(self, fd: int) -> None:
        """Forget a connection."""
        self._by_fd.pop(fd, None)

    def message(self, fd: int) -> None:
        """Note that a whole message came from *fd*."""
        connection = self._by_fd.get(fd)
        if connection is not None:
            connection.delivered = True

    def cut(self, fd: int) -> None:
        """End a connection."""
        self._by_fd.pop(fd, None)
        cut(fd, self._port)

    def check(self, now: float) -> List[int]:
        """Cut what is over its budget or its time; return their descriptors."""
        over = []
        for connection in self._by_fd.values():
            received = bytes_received(connection.fd)
            if received is None:
                continue
            if connection.delivered:
                connection.delivered = False
                connection.base = received
            late = self._seconds and now - connection.since > self._seconds
            if late or received - connection.base > self._budget:
                over.append(connection.fd)
        for fd in over:
            self.cut(fd)
        return over

    def __len__(self) -> int:
        return len(self._by_fd)

    def __contains__(self, fd: int) -> bool:
        return fd in self._by_fd
