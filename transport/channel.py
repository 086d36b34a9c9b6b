"""One DEALER socket of the minion with its monitor, in one poll loop."""

from __future__ import annotations

import socket
from typing import List, Mapping, Optional, Tuple

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
from catena.transport.zeromq import zmq

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

#: Events that mean "no connection", with their description.
DOWN: Mapping[int, str] = {
    zmq.EVENT_CONNECT_RETRIED: "connection refused",
    zmq.EVENT_CLOSED: "connection closed",
    zmq.EVENT_DISCONNECTED: "connection closed",
}
#: Handshakes that failed because of the keys; the enrol socket can tell why.
KEYS_REFUSED: Mapping[int, str] = {
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "the master does not accept our key",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "the handshake failed: the master's key may differ",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "the handshake failed: the master's key may differ",
}
UP = zmq.EVENT_HANDSHAKE_SUCCEEDED


@dataclass(frozen=True)
class Remote:
    """The address that a channel connects to, and the keys for it."""

    endpoint: str
    server_key: str
    keys: KeyPair
    ipv6: bool = False


class Channel:
    """A connection attempt and, if it succeeds, the connection. Used only once.

    Args:
        context: ZeroMQ context of the link.
        name: "control", "bulk" or "enrol".
        remote: see Remote.
        poller: where the sockets are registered while the channel is open.
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
        #: Whether libzmq has resolved an address to connect to; it sends no event if it has not.
        self.found = False
        poller.register(self._sock, zmq.POLLIN)
        poller.register(self._watch, zmq.POLLIN)
        try:
            if remote.ipv6:
                use_ipv6(self._sock)
            self._sock.connect(remote.endpoint)
        except zmq.ZMQError:
            # An open socket would block the termination of its context for ever.
            self.close()
            raise

    def events(self) -> List[int]:
        """Return the monitor events that have arrived, oldest first."""
        found = []
        for event in monitor_events(self._watch):
            self.found = True
            if event.event == zmq.EVENT_CONNECTED:
                self.local_address = _local_address(event.value)
            elif event.event != zmq.EVENT_CONNECT_DELAYED:
                found.append(event.event)
        return found

    def receive(self) -> Optional[zmq.Frame]:
        """Return the next frame, or None; drop further parts of a multipart message."""
        if not readable(self._sock):
            return None
        frame = self._sock.recv(zmq.NOBLOCK, copy=False)
        more = frame.more
        while more:
            more = self._sock.recv(zmq.NOBLOCK, copy=False).more
        return frame

    def send(self, frame: bytes) -> bool:
        """Queue a frame; return False if the queue is full."""
        try:
            self._sock.send(frame, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def address_gone(self) -> bool:
        """Return whether this host has lost the address that the connection was made from.

        Such a connection is dead, but TCP would take many minutes to notice.
        """
        return self.local_address is not None and address_gone(*self.local_address)

    def close(self, linger_ms: int = 0) -> None:
        """Close the channel; drop what is not sent within *linger_ms*."""
        self._poller.unregister(self._sock)
        self._poller.unregister(self._watch)
        unwatch(self._sock, self._watch)
        self._sock.close(linger=linger_ms)


def address_gone(family: int, address: str) -> bool:
    """Return whether *address* can no longer be bound on this host."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return True
    return False


def _local_address(fd: int) -> Optional[Tuple[int, str]]:
    # libzmq owns the descriptor and may have closed it by now, so it must not be closed here.
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
    # A link-local address cannot be bound without its scope; pings detect its loss instead.
    return None if "%" in name[0] or name[0].startswith("fe80") else (int(sock.family), name[0])


def outgoing(message: object, name: str, msg_id: Optional[bytes], reply_to: bytes) -> bytes:
    """Return *message* as a frame that the master accepts on socket *name*.

    Raises:
        MessageTooLargeError, NotPackableError: the message cannot be sent as a frame.
    """
    frame = wire.pack(message, msg_id=msg_id, reply_to=reply_to)
    wire.check_outgoing(frame, socket=name, receiver="master")
    return frame
