"""A master and minions joined in memory: the interfaces of Gateway and AgentLink, without sockets.

Every message goes through the codec and its rules for who may say what, so that a program which
works here says nothing that a real socket would refuse. Delivery happens when the receiver looks:
the minion's in `MemoryLink.service`, the master's when `MemoryGateway.deliver` is called or,
with `start`, at once. Messages can be held, dropped and doubled on the way.
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

#: What happens to a frame on its way: it is replaced by the frames that come back.
Fault = Callable[[bytes], List[bytes]]


def pass_on(frame: bytes) -> List[bytes]:
    """Deliver *frame* once (no fault)."""
    return [frame]


@dataclass
class _Line:
    """One connection of one minion."""

    peer: Peer
    link: MemoryLink


class MemoryGateway:
    """Stands for a Gateway; minions are made by `link`."""

    def __init__(
        self,
        accepted: KeyTable,
        on_message: OnMessage,
        on_gone: Optional[Callable[[Peer], None]] = None,
    ) -> None:
        self.endpoints = Endpoints("memory:control", "memory:bulk", "memory:enrol")
        #: Applied to each frame towards the minions.
        self.fault: Fault = pass_on
        self._accepted = accepted
        self._on_message = on_message
        self._gone = on_gone or (lambda peer: None)
        self._lines: Dict[bytes, _Line] = {}
        self._waiting: Deque[Tuple[Peer, bytes]] = deque()
        self._started = False
        self._count = 0

    async def start(self) -> None:
        """Deliver what waits, and everything else as soon as it is sent."""
        self._started = True
        self.deliver()

    async def stop(self) -> None:
        """Break every connection."""
        self._started = False
        for line in list(self._lines.values()):
            line.link.cut("the master is gone")

    def link(self, key: str, address: str = "127.0.0.1") -> MemoryLink:
        """Return a minion's link whose key is *key* (Z85)."""
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
        """Hand what minions sent to the master's program; return how many messages."""
        count = 0
        while self._waiting:
            peer, frame = self._waiting.popleft()
            if peer.user_id in self._accepted:
                self._take(peer, frame)
                count += 1
        return count

    def attach(self, link: MemoryLink, key: str, address: str) -> Dict[str, Peer]:
        """Connect a link's control and bulk; {} when its key is not accepted."""
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
        """Forget a link's connections."""
        for peer in peers.values():
            if self._lines.pop(peer.routing_id, None) is not None:
                self._gone(peer)

    def arrive(self, peer: Peer, frame: bytes) -> None:
        """Take a frame of a minion."""
        self._waiting.append((peer, frame))
        if self._started:
            self.deliver()

    def _take(self, peer: Peer, frame: bytes) -> None:
        take_frame(peer, frame, self.send, self._on_message)


def take_frame(
    peer: Peer, frame: bytes, send: Callable[[Peer, Any, bytes], Any], on_message: OnMessage
) -> None:
    """Do with a minion's frame what a gateway does: decode, answer pings and faults, hand over.

    Args:
        peer: who sent it.
        frame: as it travelled.
        send: takes a peer, a message and the id of the message that it answers.
        on_message: the program; its CatenaErrors become Failures.
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
    """Stands for an AgentLink of an enrolled minion. `service` connects and delivers."""

    def __init__(self, gateway: MemoryGateway, key: str, address: str) -> None:
        #: Applied to each frame towards the master.
        self.fault: Fault = pass_on
        #: False: as if the network were down.
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
        """Return 0 while something waits, else a second."""
        return 0 if self._inbox or self._events or not self._peers else 1000

    def close(self) -> None:
        """Hang up."""
        self._gateway.detach(self._peers)
        self._peers = {}
        self._inbox.clear()

    def cut(self, reason: str) -> None:
        """Break the connection, with all that is on its way."""
        if self._peers:
            self.close()
            self._events.append(Lost(reason))

    def arrive(self, socket: str, frame: bytes) -> None:
        """Take a frame of the master."""
        self._inbox.append((socket, frame))
