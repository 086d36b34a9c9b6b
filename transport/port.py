"""One ROUTER socket of the gateway, its connections, and the peers on them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import Any, Callable, Dict, List, Optional, Tuple
from urllib.parse import urlsplit

import zmq

from catena.core.errors import UnreachableError
from catena.core.frozen import dataclass
from catena.transport.connections import Connections, remote
from catena.transport.keys import BadKeyError, KeyPair, fingerprint
from catena.transport.peers import Peer
from catena.transport.sockets import (
    Family,
    family,
    monitor_events,
    readable,
    router,
    unwatch,
    use_ipv6,
    watch,
)
from catena.transport.zap import KEY_PROPERTY

log = logging.getLogger(__name__)

#: Maximum number of messages read from one socket in one iteration of the event loop.
BATCH = 64
#: Seconds for which a last message to a connection may be sent before the connection is cut.
LAST_WORD_SECONDS = 0.2
#: Seconds until a disconnect event is checked again whose descriptor still looks connected.
SURE_SECONDS = 0.1
#: After this many messages in a row the next one is read without polling first. A poll costs more
#: than a read, and less only than the exception of a read that finds nothing.
BURST = 2
#: Number of bad frames after which a connection is cut.
BAD_FRAMES = 64
#: Maximum number of connections checked per second for their bytes: about 1 % of a core.
CHECKS_PER_SECOND = 5000
#: Number of cut connections that are remembered, so that frames still queued are dropped unread.
CUT_REMEMBERED = 256
#: Seconds of silence after which a peer without a known connection is removed.
FORGET_SECONDS = 60.0

# Plain integers: combining members of an enumeration takes longer than sending.
_NOW = int(zmq.NOBLOCK)
_NOW_AND_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED


@dataclass
class Live:
    """A peer with the data that only the gateway needs."""

    peer: Peer
    #: File descriptor of its TCP connection; -1 if libzmq did not report it.
    fd: int
    heard: float
    bad: int = 0
    #: The connection is about to be cut; its frames are ignored.
    ending: bool = False
    #: Remote address and port. They identify the connection; a descriptor is soon reused.
    remote: Optional[Tuple[Any, ...]] = None


@dataclass(frozen=True)
class PortLimits:
    """Limits of one connection: see `Connections`."""

    budget: int
    capacity: int = 0
    seconds: float = 0.0
    check_seconds: float = 0.5


#: Called with a frame of a peer whose identity the channel proves.
OnFrame = Callable[[Live, "zmq.Frame"], None]


class Port:
    """Reads one ROUTER without blocking and maps each frame to its connection.

    Args:
        name: "control", "bulk" or "enrol".
        sock: as made by `sockets.router`.
        limits: see PortLimits.
        on_frame: called for each complete message of one part.
        on_gone: called when a peer's connection has ended.
    """

    def __init__(
        self,
        name: str,
        sock: zmq.Socket[bytes],
        limits: PortLimits,
        on_frame: OnFrame,
        on_gone: Callable[[Peer], None],
    ) -> None:
        self.name = name
        self.live: Dict[bytes, Live] = {}
        self.counters: Counter[str] = Counter()
        self._sock = sock
        self._limits = limits
        self._on_frame = on_frame
        self._on_gone = on_gone
        self._by_fd: Dict[int, bytes] = {}
        #: Recently cut connections, oldest first; the socket still returns frames that they sent
        #: before. A dict, because every received frame is looked up here.
        self._cut: Dict[bytes, None] = {}
        self._scheduled = False
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._timer: Optional[asyncio.TimerHandle] = None

    @classmethod
    def make(
        cls,
        context: zmq.Context[zmq.Socket[bytes]],
        name: str,
        keys: KeyPair,
        limits: PortLimits,
        callbacks: tuple[OnFrame, Callable[[Peer], None]],
    ) -> Port:
        """Return a port with a new socket, not bound."""
        return cls(name, router(context, name, keys), limits, *callbacks)

    def bind(self, endpoint: str) -> str:
        """Listen on *endpoint*; return the address with the actual port.

        Raises:
            UnreachableError: the address cannot be bound.
        """
        if family(endpoint) is Family.ipv6:
            use_ipv6(self._sock)
        self._watch = watch(self._sock, self.name, _EVENTS)
        try:
            self._sock.bind(endpoint)
        except zmq.ZMQError as error:
            raise UnreachableError(f"cannot listen on {endpoint}: {error}") from None
        bound = self._sock.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        number = urlsplit(bound.rstrip(b"\0").decode()).port or 0
        limits = self._limits
        self._connections = Connections(number, limits.budget, limits.capacity, limits.seconds)
        head, _, _ = endpoint.rpartition(":")
        return f"{head}:{number}"

    def serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to read in *loop*."""
        self._loop = loop
        loop.add_reader(self._fd(self._sock), self._drain)
        loop.add_reader(self._fd(self._watch), self._read_events)
        # Both descriptors signal changes only, so what arrived earlier must be read now.
        self._read_events()
        self._drain()

    def close(self, linger_ms: int) -> None:
        """Stop reading and close the socket; unsent messages have *linger_ms* to leave."""
        if self._loop is not None:
            self._loop.remove_reader(self._fd(self._sock))
            self._loop.remove_reader(self._fd(self._watch))
        if self._timer is not None:
            self._timer.cancel()
        if hasattr(self, "_watch"):
            unwatch(self._sock, self._watch)
        self._sock.close(linger=linger_ms)
        self._loop = None

    @staticmethod
    def _fd(sock: zmq.Socket[bytes]) -> int:
        found = sock.getsockopt(zmq.FD)
        assert isinstance(found, int)
        return found

    def send(self, routing_id: bytes, frame: bytes) -> bool:
        """Send to one connection; return False if it is gone or its queue is full."""
        try:
            try:
                self._put(routing_id, frame)
            except zmq.Again:
                # Sending notices freed capacity at most once per millisecond; this does at once.
                self._sock.getsockopt(zmq.EVENTS)
                self._put(routing_id, frame)
        except zmq.Again:
            self.counters["full"] += 1
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return False
        finally:
            # Sending may consume the signal that a message arrived, so look again.
            self._schedule()
        return True

    def _put(self, routing_id: bytes, frame: bytes) -> None:
        self._sock.send(routing_id, _NOW_AND_MORE)
        self._sock.send(frame, _NOW)

    def cut(self, live: Live) -> None:
        """End a peer's connection at once."""
        self.counters["cut"] += 1
        self._cut[live.peer.routing_id] = None
        if len(self._cut) > CUT_REMEMBERED:
            del self._cut[next(iter(self._cut))]
        self._connections.cut(live.fd)
        self._forget(live)

    def end(self, live: Live) -> None:
        """Ignore a connection from now on and cut it after LAST_WORD_SECONDS."""
        live.ending = True
        if self._loop is not None:
            self._loop.call_later(LAST_WORD_SECONDS, self._end_now, live)

    def _end_now(self, live: Live) -> None:
        if live.peer.routing_id in self.live:
            self.cut(live)

    def bad(self, live: Live, why: str) -> None:
        """Count a bad frame; cut the connection after BAD_FRAMES of them."""
        self.counters["bad"] += 1
        live.bad += 1
        if live.bad == 1:
            log.warning("%s: bad frame from %s: %s", self.name, _shown(live.peer), why)
        if live.bad >= BAD_FRAMES:
            log.warning("%s: cut %s after %d bad frames", self.name, _shown(live.peer), live.bad)
            self.cut(live)

    def of_user(self, user_id: str) -> List[Live]:
        """Return the connections of one key, oldest first, except those about to be cut."""
        return [
            live for live in self.live.values() if live.peer.user_id == user_id and not live.ending
        ]

    def _schedule(self) -> None:
        if not self._scheduled and self._loop is not None:
            self._scheduled = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        if self._loop is None:
            return
        # Set while reading: this loop also reads what a send in a handler would schedule.
        self._scheduled = True
        for number in range(BATCH):
            try:
                if number < BURST and not readable(self._sock):
                    break
                routing_id = self._sock.recv(_NOW)
            except zmq.Again:
                break
            frame = self._sock.recv(_NOW, copy=False)
            parts = 1
            more = frame.more
            while more:
                more = self._sock.recv(_NOW, copy=False).more
                parts += 1
            self._take(bytes(routing_id), frame, parts)
            if self._loop is None:
                return
        else:
            self._loop.call_soon(self._drain)
            return
        self._scheduled = False

    def _take(self, routing_id: bytes, frame: zmq.Frame, parts: int) -> None:
        self.counters["frames"] += 1
        if routing_id in self._cut:
            return
        live = self._live(routing_id, frame)
        if live is None:
            self.counters["nameless"] += 1
            return
        live.heard = time.monotonic()
        self._connections.message(live.fd)
        if live.ending:
            return
        if parts > 1:
            self.counters["bad"] += 1
            log.warning("%s: cut %s: message of %d parts", self.name, _shown(live.peer), parts)
            self.cut(live)
            return
        self._on_frame(live, frame)

    def _live(self, routing_id: bytes, frame: zmq.Frame) -> Optional[Live]:
        """Return the sender of *frame*, identified only by what ZAP set on its connection."""
        try:
            user_id = str(frame.get("User-Id"))
            live = self.live.get(routing_id)
            if live is not None:
                return live if live.peer.user_id == user_id else None
            key = str(frame.get(KEY_PROPERTY))
            address = str(frame.get("Peer-Address"))
            fd = frame.get(zmq.SRCFD)
        except zmq.ZMQError:
            return None
        try:
            if fingerprint(key) != user_id:
                return None
        except BadKeyError:
            return None
        peer = Peer(self.name, routing_id, user_id, address, key)
        number = fd if isinstance(fd, int) else -1
        live = Live(peer, number, time.monotonic(), remote=remote(number))
        self.live[routing_id] = live
        self._by_fd[live.fd] = routing_id
        return live

    def _read_events(self) -> None:
        if self._loop is None:
            return
        # Read a connection's last messages before its end is processed.
        self._drain()
        if self._scheduled:
            self._loop.call_soon(self._read_events)
            return
        for event in monitor_events(self._watch):
            if event.event == zmq.EVENT_ACCEPTED:
                self.counters["accepted"] += 1
                self._connections.accepted(event.value, time.monotonic())
                self._arm()
            elif event.event == zmq.EVENT_DISCONNECTED:
                self._connections.closed(event.value)
                self._disconnected(event.value)

    def _disconnected(self, fd: int, sure: bool = False) -> None:
        """Process the end of a connection on *fd*, a number that a newer one may already use."""
        routing_id = self._by_fd.get(fd)
        live = self.live.get(routing_id) if routing_id is not None else None
        if live is None:
            return
        if live.remote is None or remote(fd) != live.remote:
            self._forget(live)
        elif not sure and self._loop is not None:
            # Either the event belongs to an older connection, or libzmq is about to close this
            # one.
            self._loop.call_later(SURE_SECONDS, self._disconnected, fd, True)

    def _gone(self, fd: int) -> None:
        routing_id = self._by_fd.get(fd)
        live = self.live.get(routing_id) if routing_id is not None else None
        if live is not None:
            self._forget(live)

    def _forget(self, live: Live) -> None:
        if self.live.pop(live.peer.routing_id, None) is None:
            return
        if self._by_fd.get(live.fd) == live.peer.routing_id:
            del self._by_fd[live.fd]
        self._on_gone(live.peer)

    def _check(self) -> None:
        if self._loop is None:
            return
        self._drain()
        self._timer = None
        self._arm()
        if self._scheduled:
            # Complete messages are still queued here, so unread bytes are not the peer's fault.
            return
        now = time.monotonic()
        for fd in self._connections.check(now):
            self.counters["over"] += 1
            log.warning("%s: cut a connection that exceeded its bytes or time", self.name)
            self._gone(fd)
        for live in list(self.live.values()):
            if live.fd not in self._connections and now - live.heard > FORGET_SECONDS:
                self._forget(live)

    def _arm(self) -> None:
        """Schedule the next check: later if there are many connections, none if there are none."""
        if self._timer is None and self._loop is not None and (self._connections or self.live):
            wait = max(self._limits.check_seconds, len(self._connections) / CHECKS_PER_SECOND)
            self._timer = self._loop.call_later(wait, self._check)


def _shown(peer: Peer) -> str:
    return f"{peer.address} key {peer.user_id[:16]}"
