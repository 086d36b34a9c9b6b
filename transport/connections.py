"""The TCP connections under a ROUTER socket: their cost, and how to cut one.

ZeroMQ shows a connection only through its complete messages. It neither limits a message of
endless parts, which fills the receiver's memory and is never delivered, nor can it end the
connection of a revoked key. Therefore this module works below it: libzmq reports the file
descriptors that it accepted, the kernel reports the bytes that each has received, and a shutdown
of the descriptor makes libzmq drop the connection.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
from typing import Any, Dict, List, Optional, Tuple

from catena.core.frozen import dataclass

log = logging.getLogger(__name__)

# Offset in struct tcp_info of linux/tcp.h: tcpi_bytes_received, since Linux 4.1.
_BYTES_RECEIVED_AT = 128
_TCP_INFO_BYTES = 136
# Value of tcpi_state, its first byte.
_ESTABLISHED = 1


@dataclass
class TcpConnection:
    """One accepted TCP connection."""

    fd: int
    #: Monotonic time in seconds at which it was accepted.
    since: float
    #: Bytes that TCP had received when the last complete message was seen.
    base: int = 0
    #: A complete message has arrived since the last check.
    delivered: bool = False


def bytes_received(fd: int) -> Optional[int]:
    """Return the bytes that TCP has received on *fd*; None if it is not a TCP connection (now)."""
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
    """Return the remote address and port of *fd*; None if it is not an open connection."""
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

    libzmq owns the descriptor and may have closed it a moment ago, after which the number can be
    reused. Only a connection of this port is touched, so the worst case is another minion that
    reconnects.
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
        port: TCP port on which they were accepted.
        budget: bytes that one may send without completing a message.
        capacity: maximum number; one more cuts the oldest. 0: unlimited.
        seconds: maximum lifetime of one. 0: unlimited.
    """

    def __init__(self, port: int, budget: int, capacity: int = 0, seconds: float = 0.0) -> None:
        self._port = port
        self._budget = budget
        self._capacity = capacity
        self._seconds = seconds
        self._by_fd: Dict[int, TcpConnection] = {}

    def accepted(self, fd: int, now: float) -> None:
        """Record a new connection."""
        self._by_fd.pop(fd, None)
        if self._capacity and len(self._by_fd) >= self._capacity:
            oldest = next(iter(self._by_fd))
            log.warning("port %d: cut the oldest of %d connections", self._port, self._capacity)
            self.cut(oldest)
        self._by_fd[fd] = TcpConnection(fd, now)

    def closed(self, fd: int) -> None:
        """Remove a connection that has closed."""
        self._by_fd.pop(fd, None)

    def message(self, fd: int) -> None:
        """Record that a complete message came from *fd*."""
        connection = self._by_fd.get(fd)
        if connection is not None:
            connection.delivered = True

    def cut(self, fd: int) -> None:
        """End a connection."""
        self._by_fd.pop(fd, None)
        cut(fd, self._port)

    def check(self, now: float) -> List[int]:
        """Cut the connections over their budget or lifetime; return their descriptors."""
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
