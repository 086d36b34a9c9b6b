"""The network between one master and its minions: slow, lossy, sometimes partitioned.

The ends are those of `transport.gateway.Gateway` and `transport.agent.AgentLink`; every frame goes
through the codec. One connection keeps the order of its frames as TCP does, unless the world
asks for worse than TCP: frames dropped, doubled or overtaken.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from catena.transport import wire
from catena.transport.agent import Connected, LinkEvent, Lost, Received
from catena.transport.keys import fingerprint
from catena.transport.memory import take_frame
from catena.transport.messages import Ping, Pong
from catena.transport.peers import Endpoints, KeyTable, Peer
from catena.transport.wire import ZERO
from tests.sim.clockwork import SimLoop

OnMessage = Callable[[Peer, Any], Any]


@dataclass
class Weather:
    """How bad the network is."""

    delay: float = 0.005
    drop: float = 0.0
    double: float = 0.0
    overtake: float = 0.0


class Network:
    """All connections.

    Args:
        loop: the time.
        rng: the network's luck.
        note: told of each message: from whom, what.
    """

    def __init__(
        self, loop: SimLoop, rng: random.Random, note: Callable[[str, str], None]
    ) -> None:
        self.loop, self.rng, self.note = loop, rng, note
        #: Judges frames of the master: to whom, on which socket, what.
        self.on_send: Callable[[str, str, bytes], None] = lambda *_: None
        self.weather = Weather()
        #: The master's end; None: its host refuses connections.
        self.gateway: SimGateway | None = None
        #: Minions that nobody can reach.
        self.parted: set[str] = set()

    def part(self, minion: str) -> None:
        """Cut one minion off."""
        self.parted.add(minion)

    def heal(self, minion: str) -> None:
        """Take a cut back."""
        self.parted.discard(minion)


class Connection:
    """One connection of one minion, with its two sockets."""

    def __init__(self, network: Network, link: SimLink, gateway: SimGateway, number: int) -> None:
        self.network, self.link, self.gateway = network, link, gateway
        self.open = True
        self._last = {True: 0.0, False: 0.0}
        key = link.key
        self.peers = {
            name: Peer(
                name,
                b"\0" + (2 * number + index).to_bytes(4, "big"),
                fingerprint(key),
                "127.0.0.1",
                key,
            )
            for index, name in enumerate(("control", "bulk"))
        }

    def carry(self, socket: str, frame: bytes, *, up: bool) -> None:
        """Carry a frame to the master (up) or to the minion."""
        network = self.network
        weather, rng = network.weather, network.rng
        if self.link.minion in network.parted or rng.random() < weather.drop:
            return
        for _ in range(2 if rng.random() < weather.double else 1):
            arrives = network.loop.now + rng.uniform(0.2, 2.0) * weather.delay
            if rng.random() >= weather.overtake:
                arrives = max(arrives, self._last[up])
                self._last[up] = arrives
            network.loop.call_at(arrives, self._arrive, socket, frame, up)

    def _arrive(self, socket: str, frame: bytes, up: bool) -> None:
        if not self.open:
            return
        if up:
            self.gateway.take(self.peers[socket], frame)
        else:
            self.link.take(socket, frame)

    def close(self, why: str) -> None:
        """Both ends learn that it is over, each in its time."""
        if not self.open:
            return
        self.open = False
        loop, rng = self.network.loop, self.network.rng
        slow = 20.0 if self.link.minion in self.network.parted else 0.5
        loop.call_later(rng.uniform(0, slow), self.link.lost, self, why)
        loop.call_later(rng.uniform(0, slow), self.gateway.lost, self)


class SimGateway:
    """The master's sockets (`transport.gateway.Gateway`)."""

    def __init__(
        self,
        network: Network,
        accepted: KeyTable,
        on_message: OnMessage,
        on_gone: Callable[[Peer], None],
    ) -> None:
        self.endpoints = Endpoints("sim:control", "sim:bulk", "sim:enrol")
        self._network = network
        self._accepted = accepted
        self._on_message, self._on_gone = on_message, on_gone
        self._connections: dict[bytes, Connection] = {}
        self._count = 0

    async def start(self) -> None:
        """Listen."""
        self._network.gateway = self

    async def stop(self) -> None:
        """Close every connection."""
        self.vanish()

    def vanish(self) -> None:
        """The program is gone: the kernel closes its connections."""
        if self._network.gateway is self:
            self._network.gateway = None
        for connection in list(self._connections.values()):
            connection.close("the master is gone")
        self._connections.clear()

    def connect(self, link: SimLink) -> Connection | None:
        """Take a connection whose key is accepted."""
        if fingerprint(link.key) not in self._accepted:
            return None
        self._count += 1
        made = Connection(self._network, link, self, self._count)
        for peer in made.peers.values():
            self._connections[peer.routing_id] = made
        return made

    def send(
        self, peer: Peer, message: Any, reply_to: bytes = ZERO, msg_id: bytes | None = None
    ) -> bool:
        """As Gateway.send."""
        frame = wire.pack(message, msg_id=msg_id, reply_to=reply_to)
        wire.check_outgoing(frame, socket=peer.socket, receiver="minion")
        connection = self._connections.get(peer.routing_id)
        if connection is None or peer.user_id not in self._accepted:
            return False
        self._network.note(f"master > {connection.link.minion}", _name(message))
        self._network.on_send(connection.link.minion, peer.socket, frame)
        connection.carry(peer.socket, frame, up=False)
        return True

    def drop(self, peer: Peer) -> None:
        """As Gateway.drop."""
        connection = self._connections.get(peer.routing_id)
        if connection is not None:
            connection.close("connection closed")

    def connections(self, user_id: str, socket: str = "control") -> list[Peer]:
        """As Gateway.connections."""
        found = (c.peers[socket] for c in dict.fromkeys(self._connections.values()))
        return [peer for peer in found if peer.user_id == user_id]

    def lost(self, connection: Connection) -> None:
        """A connection has ended."""
        for peer in connection.peers.values():
            if self._connections.pop(peer.routing_id, None) is not None:
                self._on_gone(peer)

    def take(self, peer: Peer, frame: bytes) -> None:
        """A frame of a minion is here."""
        if peer.routing_id not in self._connections or peer.user_id not in self._accepted:
            return
        take_frame(peer, frame, self.send, self._on_message)


class SimLink:
    """A minion's sockets (`transport.agent.AgentLink`), of an enrolled key.

    Args:
        network: see Network.
        minion, key: whose.
        wake: has the agent look soon.
    """

    #: How often a minion tries to connect, and how long a silent connection lives, seconds.
    TRY_SECONDS = 2.0
    SILENT_SECONDS = 45.0

    def __init__(self, network: Network, minion: str, key: str, wake: Callable[[], None]) -> None:
        self.minion, self.key = minion, key
        self._network, self._wake = network, wake
        self._connection: Connection | None = None
        self._events: list[LinkEvent] = []
        self._next_try = network.loop.now + network.rng.uniform(0.0, 0.5)
        self._heard = self._pinged = network.loop.now
        self._closed = False

    def service(self, now: float) -> list[LinkEvent]:
        """As AgentLink.service."""
        time = self._network.loop.now
        if self._connection is None and not self._closed and time >= self._next_try:
            self._try(time)
        elif self._connection is not None and time - self._heard > self.SILENT_SECONDS:
            self._connection.close("the master is silent")
            self.lost(self._connection, "the master is silent")
        elif self._connection is not None and time - self._pinged > self.SILENT_SECONDS / 3:
            self._pinged = time
            self.send("control", Ping(1))
        events, self._events = self._events, []
        return events

    def _try(self, time: float) -> None:
        self._next_try = time + self.TRY_SECONDS * self._network.rng.uniform(0.5, 2.0)
        gateway = self._network.gateway
        if gateway is None or self.minion in self._network.parted:
            return
        self._connection = gateway.connect(self)
        if self._connection is not None:
            self._heard = self._pinged = time
            self._events.append(Connected())

    def send(
        self,
        socket_name: str,
        message: Any,
        reply_to: bytes = ZERO,
        msg_id: bytes | None = None,
    ) -> bool:
        """As AgentLink.send."""
        if self._connection is None:
            return False
        frame = wire.pack(message, msg_id=msg_id, reply_to=reply_to)
        wire.check_outgoing(frame, socket=socket_name, receiver="master")
        self._network.note(f"{self.minion} > master", _name(message))
        self._connection.carry(socket_name, frame, up=True)
        return True

    def timeout(self, now: float) -> int:
        """As AgentLink.timeout."""
        if self._events:
            return 0
        time = self._network.loop.now
        if self._connection is None:
            return max(0, int((self._next_try - time) * 1000) + 1)
        due = min(self._heard + self.SILENT_SECONDS, self._pinged + self.SILENT_SECONDS / 3)
        return max(0, int((due - time) * 1000) + 2)

    def close(self) -> None:
        """As AgentLink.close."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close("the minion hung up")

    def lost(self, connection: Connection, why: str) -> None:
        """A connection has ended."""
        if connection is self._connection:
            self._connection = None
            self._next_try = self._network.loop.now + self._network.rng.uniform(0.0, 1.0)
            self._events.append(Lost(why))
            self._wake()

    def take(self, socket: str, frame: bytes) -> None:
        """A frame of the master is here."""
        if self._connection is None or self._closed:
            return
        self._heard = self._network.loop.now
        envelope = wire.unpack(frame, socket=socket, receiver="minion")
        if isinstance(envelope.message, Ping):
            self.send(socket, Pong(envelope.message.seq), envelope.msg_id)
        elif not isinstance(envelope.message, Pong):
            self._events.append(Received(socket, envelope))
            self._wake()


def _name(message: Any) -> str:
    """Return a message in a few words."""
    inner = getattr(message, "spec", None) or getattr(message, "ret", None) or message
    more = [str(getattr(inner, key)) for key in ("jid", "fun") if hasattr(inner, key)]
    if hasattr(inner, "retcode"):
        more.append(f"{inner.retcode} {str(inner.value)[:300]}")
    progress = getattr(message, "progress", None)
    if progress is not None:
        more = [progress.kind, str(progress.data.get("event", "")), progress.jid]
    return " ".join([type(message).__name__, *more])
