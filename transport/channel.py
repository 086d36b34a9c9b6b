"""One DEALER of the minion with its monitor, in one poll loop."""

from __future__ import annotations

import socket
from typing import List, Mapping, Optional, Tuple

import zmq

from catena.core.frozen import dataclass
from catena.transport import wire
from catena.transport.keys import KeyPair
from catena.transport.sockets import (
    dealer,
    monitor_events,
    readable,
    unwatch,
    use_ipv6,
    watch,
)

_EVENTS = (
    zmq.EVENT_CONNECTED
    | zmq.EVENT_CONNECT_DELAYED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_CLOSED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
)

#: Events that mean "no connection", and what to call them.
DOWN: Mapping[int, str] = {
    zmq.EVENT_CONNECT_RETRIED: "connection refused",
    zmq.EVENT_CLOSED: "connection closed",
    zmq.EVENT_DISCONNECTED: "connection closed",
}
#: The handshake failed for its keys: the enrol socket knows more.
KEYS_REFUSED: Mapping[int, str] = {
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "the master does not accept our key",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "the handshake failed: the master's key may differ",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "the handshake failed: the master's key may differ",
}
UP = zmq.EVENT_HANDSHAKE_SUCCEEDED


@dataclass(frozen=True)
class Remote:
    """Where a channel leads, and the keys that prove it."""

    endpoint: str
    server_key: str
    keys: KeyPair
    ipv6: bool = False


class Channel:
    """A connection attempt and, if it succeeds, the connection. Never used for a second one.

    Args:
        context: of the link.
        name: "control", "bulk" or "enrol".
        remote: see Remote.
        poller: where its sockets are registered as long as it is open.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        name: str,
        remote: Remote,
        poller: zmq.Poller,
    ) -> None:
        self.name = name
        self._poller = poller
        self._sock = dealer(context, name, remote.keys, remote.server_key)
        self._watch = watch(self._sock, name, _EVENTS)
        #: Local address of the connection; None before it is known.
        self.local_address: Optional[Tuple[int, str]] = None
        #: Whether libzmq has found an address to connect to; it says nothing when it has not.
        self.found = False
        poller.register(self._sock, zmq.POLLIN)
        poller.register(self._watch, zmq.POLLIN)
        try:
            if remote.ipv6:
                use_ipv6(self._sock)
            self._sock.connect(remote.endpoint)
        except zmq.ZMQError:
            # A socket left open would hold the end of its context for ever.
            self.close()
            raise

    def events(self) -> List[int]:
        """Return the monitor events that came, oldest first."""
        found = []
        for event in monitor_events(self._watch):
            self.found = True
            if event.event == zmq.EVENT_CONNECTED:
                self.local_address = _local_address(event.value)
            elif event.event != zmq.EVENT_CONNECT_DELAYED:
                found.append(event.event)
        return found

    def receive(self) -> Optional[zmq.Frame]:
        """Return the next frame, or None; further parts of a message are dropped."""
        if not readable(self._sock):
            return None
        frame = self._sock.recv(zmq.NOBLOCK, copy=False)
        more = frame.more
        while more:
            more = self._sock.recv(zmq.NOBLOCK, copy=False).more
        return frame

    def send(self, frame: bytes) -> bool:
        """Queue a frame; False when the queue is full."""
        try:
            self._sock.send(frame, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def address_gone(self) -> bool:
        """Return whether this host no longer has the address that the connection was made from.

        Such a connection is dead, and TCP would need many minutes to notice.
        """
        return self.local_address is not None and address_gone(*self.local_address)

    def close(self, linger_ms: int = 0) -> None:
        """Close; what was not sent within *linger_ms* is dropped."""
        self._poller.unregister(self._sock)
        self._poller.unregister(self._watch)
        unwatch(self._sock, self._watch)
        self._sock.close(linger=linger_ms)


def address_gone(family: int, address: str) -> bool:
    """Return whether *address* can't be bound any more on this host."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return True
    return False


def _local_address(fd: int) -> Optional[Tuple[int, str]]:
    # The descriptor is libzmq's, and may be closed by now: it is lent, never closed here.
    try:
        sock = socket.socket(fileno=fd)
    except OSError:
        return None
    try:
        if sock.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        name = sock.getsockname()
    except OSError:
        return None
    finally:
        sock.detach()
    # A link-local address can't be bound without its scope: leave it to the pings.
    return None if "%" in name[0] or name[0].startswith("fe80") else (int(sock.family), name[0])


def outgoing(message: object, name: str, msg_id: Optional[bytes], reply_to: bytes) -> bytes:
    """Return *message* as a frame that the master will take on socket *name*.

    Raises:
        MessageTooLargeError, NotPackableError: there is no such frame.
    """
    frame = wire.pack(message, msg_id=msg_id, reply_to=reply_to)
    wire.check_outgoing(frame, socket=name, receiver="master")
    return frame
