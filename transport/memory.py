"""A master and minions connected in memory: Gateway and AgentLink without sockets.

Every message passes through the codec and the rules of who may send what, so a program that works
here sends nothing that a real socket would refuse. Messages are delivered when the receiver asks:
to the minion in `MemoryLink.service`, to the master in `MemoryGateway.deliver` or, after `start`,
at once. Tests can hold, drop and duplicate messages on the way.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from catena.core.errors import CatenaError
from catena.core.frozen import dataclass
from catena.transport import wire
from catena.transport.agent import Connected, LinkEvent, Lost, Received
from catena.transport.failures import failure_of
from catena.transport.gateway import OnMessage
from catena.transport.keys import fingerprint
from catena.transport.messages import Ping, Pong
from catena.transport.peers import Endpoints, KeyTable, Peer
from catena.transport.wire import ZERO

#: Maps a frame in transit to the frames that are delivered in its place.
Fault = Callable[[bytes], List[bytes]]


def pass_on(frame: bytes) -> List[bytes]:
    """Deliver *frame* unchanged, once."""
    return [frame]


@dataclass
class _Line:
    """One connection of one minion."""

    peer: Peer
    link: MemoryLink


class MemoryGateway:
    """Stands in for a Gateway; `link` makes its minions."""

    def __init__(
        self,
        accepted: KeyTable,
        on_message: OnMessage,
        on_gone: Optional[Callable[[Peer], None]] = None,
    ) -> None:
        self.endpoints = Endpoints("memory:control", "memory:bulk", "memory:enrol")
        #: Applied to each frame sent to a minion.
        self.fault: Fault = pass_on
        self._accepted = accepted
        self._on_message = on_message
        self._gone = on_gone or (lambda peer: None)
        self._lines: Dict[bytes, _Line] = {}
        self._waiting: Deque[Tuple[Peer, bytes]] = deque()
        self._started = False
        self._count = 0

    async def start(self) -> None:
        """Deliver the waiting messages, and from now on every message as soon as it is sent."""
        self._started = True
        self.deliver()

    async def stop(self) -> None:
        """Break every connection."""
        self._started = False
        for line in list(self._lines.values()):
            line.link.cut("the master is gone")

    def link(self, key: str, address: str = "127.0.0.1") -> MemoryLink:
        """Return the link of a minion with the key *key* (Z85)."""
        return MemoryLink(self, key, address)

    def send(
        self, peer: Peer, message: Any, reply_to: bytes = ZERO, msg_id: Optional[bytes] = None
    ) -> bool:
        """As Gateway.send."""
        frame = wire.pack(message, msg_id=msg_id, reply_to=reply_to)
        wire.check_outgoing(frame, socket=peer.socket, receiver="minion")
        line = self._lines.get(peer.routing_id)
        if line is None or peer.user_id not in self._accepted:
            return False
        for out in self.fault(frame):
            line.link.arrive(peer.socket, out)
        return True

    def drop(self, peer: Peer) -> None:
        """As Gateway.drop."""
        line = self._lines.get(peer.routing_id)
        if line is not None:
            line.link.cut("connection closed")

    def connections(self, user_id: str, socket: str = "control") -> List[Peer]:
        """As Gateway.connections."""
        return [
            line.peer
            for line in self._lines.values()
            if line.peer.user_id == user_id and line.peer.socket == socket
        ]

    def deliver(self) -> int:
        """Pass the minions' messages to the master's program; return how many."""
        count = 0
        while self._waiting:
            peer, frame = self._waiting.popleft()
            if peer.user_id in self._accepted:
                self._take(peer, frame)
                count += 1
        return count

    def attach(self, link: MemoryLink, key: str, address: str) -> Dict[str, Peer]:
        """Connect control and bulk of a link; return {} if its key is not accepted."""
        user_id = fingerprint(key)
        if user_id not in self._accepted:
            return {}
        peers = {}
        for socket in ("control", "bulk"):
            self._count += 1
            routing_id = b"\0" + self._count.to_bytes(4, "big")
            peers[socket] = Peer(socket, routing_id, user_id, address, key)
            self._lines[routing_id] = _Line(peers[socket], link)
        return peers

    def detach(self, peers: Dict[str, Peer]) -> None:
        """Remove a link's connections."""
        for peer in peers.values():
            if self._lines.pop(peer.routing_id, None) is not None:
                self._gone(peer)

    def arrive(self, peer: Peer, frame: bytes) -> None:
        """Accept a frame of a minion."""
        self._waiting.append((peer, frame))
        if self._started:
            self.deliver()

    def _take(self, peer: Peer, frame: bytes) -> None:
        take_frame(peer, frame, self.send, self._on_message)


def take_frame(
    peer: Peer, frame: bytes, send: Callable[[Peer, Any, bytes], Any], on_message: OnMessage
) -> None:
    """Process a minion's frame as a gateway does: decode it, answer pings and errors, dispatch it.

    Args:
        peer: who sent it.
        frame: the encoded message.
        send: takes a peer, a message and the id of the message that it answers.
        on_message: the program; its CatenaErrors are answered with Failures.
    """
    try:
        envelope = wire.unpack(frame, socket=peer.socket, receiver="master")
    except wire.WireError as error:
        send(peer, failure_of(error), error.msg_id)
        return
    if isinstance(envelope.message, Ping):
        send(peer, Pong(envelope.message.seq), envelope.msg_id)
    try:
        on_message(peer, envelope)
    except CatenaError as error:
        send(peer, failure_of(error), envelope.msg_id)


class MemoryLink:
    """Stands in for an AgentLink of an enrolled minion. `service` connects and delivers."""

    def __init__(self, gateway: MemoryGateway, key: str, address: str) -> None:
        #: Applied to each frame sent to the master.
        self.fault: Fault = pass_on
        #: False simulates a network that is down.
        self.reachable = True
        self._gateway = gateway
        self._key = key
        self._address = address
        self._peers: Dict[str, Peer] = {}
        self._inbox: Deque[Tuple[str, bytes]] = deque()
        self._events: List[LinkEvent] = []

    @property
    def connected(self) -> bool:
        """As AgentLink.connected."""
        return bool(self._peers)

    def register(self, poller: Any) -> None:
        """Nothing to register."""

    def service(self, now: float) -> List[LinkEvent]:
        """As AgentLink.service."""
        if not self._peers and self.reachable:
            self._peers = self._gateway.attach(self, self._key, self._address)
            if self._peers:
                self._events.append(Connected())
        while self._inbox:
            socket, frame = self._inbox.popleft()
            envelope = wire.unpack(frame, socket=socket, receiver="minion")
            message = envelope.message
            if isinstance(message, Ping):
                self.send(socket, Pong(message.seq), envelope.msg_id)
            elif not isinstance(message, Pong):
                self._events.append(Received(socket, envelope))
        events, self._events = self._events, []
        return events

    def send(
        self,
        socket_name: str,
        message: Any,
        reply_to: bytes = ZERO,
        msg_id: Optional[bytes] = None,
    ) -> bool:
        """As AgentLink.send."""
        if not self._peers:
            return False
        frame = wire.pack(message, msg_id=msg_id, reply_to=reply_to)
        wire.check_outgoing(frame, socket=socket_name, receiver="master")
        for out in self.fault(frame):
            self._gateway.arrive(self._peers[socket_name], out)
        return True

    def timeout(self, now: float) -> int:
        """Return 0 if a frame is waiting, otherwise 1000 (milliseconds)."""
        return 0 if self._inbox or self._events or not self._peers else 1000

    def close(self) -> None:
        """Disconnect."""
        self._gateway.detach(self._peers)
        self._peers = {}
        self._inbox.clear()

    def cut(self, reason: str) -> None:
        """Break the connection and lose everything in transit."""
        if self._peers:
            self.close()
            self._events.append(Lost(reason))

    def arrive(self, socket: str, frame: bytes) -> None:
        """Accept a frame of the master."""
        self._inbox.append((socket, frame))
