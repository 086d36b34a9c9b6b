"""The master's three ROUTER sockets on an asyncio loop.

Whatever a peer does, these rules hold. Control and bulk require an accepted key. The sender of a
frame is the key proved in the handshake, looked up in the live KeyTable for every frame. A bad
frame is counted and answered and ends nothing. A peer that sends much or does not read can neither
block the loop nor fill the memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Protocol, Tuple

import zmq

from catena.core.errors import CatenaError, TryLaterError
from catena.core.frozen import dataclass
from catena.transport import wire
from catena.transport.failures import failure_of
from catena.transport.keys import KeyPair
from catena.transport.messages import Envelope, Failure, Ping, Pong, Refused
from catena.transport.networks import network
from catena.transport.peers import Endpoints, KeyTable, Peer
from catena.transport.port import Live, Port, PortLimits
from catena.transport.selftest import refuses_strangers
from catena.transport.sockets import require_libzmq
from catena.transport.wire import ZERO
from catena.transport.zap import ZapThread

log = logging.getLogger(__name__)


class Ending(Protocol):
    """Signals the end of the work on a message; a future is one."""

    def done(self) -> bool:
        """Return whether the work has ended."""

    def add_done_callback(self, fn: Callable[[Any], object]) -> object:
        """Call *fn* in the loop when the work has ended."""


#: Called in the loop for each valid message; must not block. A CatenaError that it raises is
#: answered with a Failure. If it returns an Ending, the message's bytes count against the peer's
#: budget until it is done; a peer over its budget gets TryLaterError.
OnMessage = Callable[[Peer, Envelope], Optional[Ending]]

IO_THREADS = 2
MAX_SOCKETS = 8192
#: `ZMQ_ZERO_COPY_RECV` (zmq.h; pyzmq has no name for it). libzmq reads a connection in blocks of
#: 8 KB and returns messages as views of a block, so that each waiting message keeps 18 KB. With a
#: thousand busy minions that took 100 MB. When it is off, a message is a copy of its own size.
_ZERO_COPY_RECV = 10
STOP_LINGER_MS = 200


@dataclass(frozen=True)
class GatewaySettings:
    """Limits of a gateway's peers."""

    #: Maximum bytes per peer, in messages in progress or in an incomplete message
    #: (`peer_budget_kib`).
    peer_budget_bytes: int = 4 * 1024 * 1024
    #: The same for an enrol connection, whose messages are below 4 KiB.
    enrol_budget_bytes: int = 64 * 1024
    #: Maximum number of simultaneous enrol connections, and below the seconds one may last.
    enrol_connections: int = 512
    enrol_seconds: float = 60.0
    #: Maximum requests per second on the enrol socket, over all peers.
    enrol_rate: float = 200.0
    #: Maximum share of that rate for one host, and for one prefix (`networks`).
    enrol_share: Tuple[float, float] = (0.25, 0.5)


_USUAL = GatewaySettings()


#: Number of networks whose use of the enrol socket is tracked; the least recent is dropped.
_NETWORKS = 4096


class _Bucket:
    """A rate limit per second that allows a burst of one second's worth."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._level = rate
        self._at = time.monotonic()

    def take(self) -> bool:
        now = time.monotonic()
        self._level = min(self._rate, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True


class _EnrolRate:
    """Rate limits of the enrol socket per host, per prefix, and in total.

    A request that one network makes beyond its share does not reduce the share of others.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        self._all = _Bucket(settings.enrol_rate)
        self._rates = [max(1.0, settings.enrol_rate * part) for part in settings.enrol_share]
        self._networks: Dict[str, _Bucket] = {}

    def take(self, address: str) -> bool:
        place = network(address)
        shares = zip((place.host, place.prefix), self._rates)
        return all(self._of(*share).take() for share in shares) and self._all.take()

    def _of(self, name: str, rate: float) -> _Bucket:
        bucket = self._networks.pop(name, None) or _Bucket(rate)
        self._networks[name] = bucket
        if len(self._networks) > _NETWORKS:
            del self._networks[next(iter(self._networks))]
        return bucket


class Gateway:
    """Serves control, bulk and enrol. Call all methods in the loop's thread.

    Do not fork after `start`: a copied ZeroMQ context aborts. (subprocess is safe, since it
    execs.)

    Args:
        endpoints: where to listen; port 0 picks a free one (see `endpoints` after start).
        keys: the master's key pair for control and bulk; the enrol socket uses BOOTSTRAP.
        accepted: live table of accepted keys.
        on_message: see OnMessage. A Ping is answered here and passed on as well.
        settings: see GatewaySettings.
        on_gone: called with each peer that had sent something and whose connection has ended.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        keys: KeyPair,
        accepted: KeyTable,
        on_message: OnMessage,
        settings: GatewaySettings = _USUAL,
        on_gone: Optional[Callable[[Peer], None]] = None,
    ) -> None:
        #: Addresses of the sockets; after `start` with the actual ports.
        self.endpoints = endpoints
        self._keys = keys
        self._accepted = accepted
        self._on_message = on_message
        self._settings = settings
        self._gone = on_gone or (lambda peer: None)
        self._ports: Dict[str, Port] = {}
        self._context: Optional[zmq.Context[zmq.Socket[bytes]]] = None
        self._zap: Optional[ZapThread] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._held: Counter[str] = Counter()
        self._enrol_rate = _EnrolRate(settings)
        accepted.on_revoke(self._revoked)

    async def start(self) -> None:
        """Bind the sockets and check that an unaccepted key is refused.

        Raises:
            OldLibzmqError: this libzmq is not safe to use on a network.
            SelfTestError: an unaccepted key was admitted, or there was no answer; all is closed.
            UnreachableError: an address cannot be bound.
        """
        require_libzmq()
        self._loop = asyncio.get_running_loop()
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=IO_THREADS)
        context.set(zmq.MAX_SOCKETS, MAX_SOCKETS)
        with contextlib.suppress(zmq.ZMQError):  # an older libzmq works without this option
            context.set(_ZERO_COPY_RECV, 0)
        self._context = context
        try:
            self._zap = ZapThread(context, self._accepted)
            self._zap.start()
            bound = [self._open(context, name) for name in ("control", "bulk", "enrol")]
            self.endpoints = Endpoints(*bound)
            for name in ("control", "bulk"):
                await asyncio.to_thread(
                    refuses_strangers, name, self.endpoints.named(name), self._keys.public
                )
        except BaseException:
            await self.stop()
            raise
        for port in self._ports.values():
            port.serve(self._loop)

    def _open(self, context: zmq.Context[zmq.Socket[bytes]], name: str) -> str:
        settings = self._settings
        if name == "enrol":
            limits = PortLimits(
                settings.enrol_budget_bytes,
                settings.enrol_connections,
                settings.enrol_seconds,
                check_seconds=0.2,
            )
        else:
            # The budget must admit any complete message.
            whole = wire.LIMITS[name, "master"].frame_bytes
            limits = PortLimits(settings.peer_budget_bytes + whole)
        callbacks = (self._on_frame, self._gone)
        port = Port.make(context, name, self._keys, limits, callbacks)
        self._ports[name] = port
        return port.bind(self.endpoints.named(name))

    async def stop(self) -> None:
        """Close the sockets after a moment for queued messages, and end the ZAP thread."""
        for port in self._ports.values():
            port.close(STOP_LINGER_MS)
        self._ports = {}
        context, self._context = self._context, None
        if context is not None:
            await asyncio.to_thread(context.term)
        if self._zap is not None:
            self._zap.join()
            self._zap = None

    def send(
        self,
        peer: Peer,
        message: Any,
        reply_to: bytes = ZERO,
        msg_id: Optional[bytes] = None,
    ) -> bool:
        """Send without blocking; return False if the peer is gone or revoked or its queue is full.

        True does not confirm delivery: the receiving program acknowledges what must arrive.

        Raises:
            MessageTooLargeError, NotPackableError: the message cannot be sent.
        """
        frame = wire.pack(message, msg_id=msg_id, reply_to=reply_to)
        wire.check_outgoing(frame, socket=peer.socket, receiver="minion")
        port = self._ports.get(peer.socket)
        if port is None or not self._may(peer):
            return False
        live = port.live.get(peer.routing_id)
        if live is None or live.ending:
            return False
        return port.send(peer.routing_id, frame)

    def drop(self, peer: Peer) -> None:
        """End one connection, such as that of a second minion with the same key or machine.

        Its further messages are ignored; messages sent to it before (Refused) have a moment to
        leave.
        """
        port = self._ports.get(peer.socket)
        live = port.live.get(peer.routing_id) if port is not None else None
        if port is not None and live is not None:
            port.end(live)

    def connections(self, user_id: str, socket: str = "control") -> List[Peer]:
        """Return the live connections of one key, oldest first. More than one suggests a clone."""
        port = self._ports.get(socket)
        return [live.peer for live in port.of_user(user_id)] if port is not None else []

    def counters(self) -> Dict[str, Dict[str, int]]:
        """Return the counters of each socket.

        They are: frames, bad, accepted (connections), full (refused sends), cut, over (budget),
        nameless.
        """
        return {name: dict(port.counters) for name, port in self._ports.items()}

    def _may(self, peer: Peer) -> bool:
        return peer.socket == "enrol" or peer.user_id in self._accepted

    def _on_frame(self, live: Live, frame: zmq.Frame) -> None:
        peer = live.peer
        port = self._ports[peer.socket]
        if not self._may(peer):
            port.counters["revoked"] += 1
            port.cut(live)
            return
        try:
            envelope = wire.unpack(frame.buffer, socket=peer.socket, receiver="master", keep=True)
        except wire.WireError as error:
            self._answer(peer, failure_of(error), error.msg_id)
            port.bad(live, str(error))
            return
        size = len(frame)
        if self._refuse_for_now(peer, size):
            port.counters["later"] += 1
            self._answer(peer, failure_of(TryLaterError("too much at once")), envelope.msg_id)
            return
        if isinstance(envelope.message, Ping):
            self._answer(peer, Pong(envelope.message.seq), envelope.msg_id)
        self._hand_over(peer, envelope, size)

    def _refuse_for_now(self, peer: Peer, size: int) -> bool:
        if peer.socket == "enrol":
            return not self._enrol_rate.take(peer.address)
        held = self._held.get(peer.user_id, 0)
        return held > 0 and held + size > self._settings.peer_budget_bytes

    def _hand_over(self, peer: Peer, envelope: Envelope, size: int) -> None:
        try:
            pending = self._on_message(peer, envelope)
        except CatenaError as error:
            self._answer(peer, failure_of(error), envelope.msg_id)
            return
        except Exception:  # the edge of the loop: one message must not end it
            log.exception("%s of %s failed", type(envelope.message).__name__, peer.user_id[:16])
            failure = Failure(CatenaError.__name__, "internal error; the master's log has it")
            self._answer(peer, failure, envelope.msg_id)
            return
        if pending is not None and not pending.done():
            self._held[peer.user_id] += size
            pending.add_done_callback(partial(self._release, peer.user_id, size))

    def _release(self, user_id: str, size: int, _: object) -> None:
        self._held[user_id] -= size
        if self._held[user_id] <= 0:
            del self._held[user_id]

    def _answer(self, peer: Peer, message: Any, reply_to: bytes) -> None:
        port = self._ports.get(peer.socket)
        if port is not None:
            port.send(peer.routing_id, wire.pack(message, reply_to=reply_to))

    def _revoked(self, user_id: str) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._shut_out, user_id)

    def _shut_out(self, user_id: str) -> None:
        """Tell a revoked minion why, and cut it; its frames are ignored since the revocation."""
        if user_id in self._accepted:
            return
        for name in ("control", "bulk"):
            port = self._ports.get(name)
            for live in port.of_user(user_id) if port is not None else ():
                if name == "control":
                    refused = Refused("revoked", "this key is no longer accepted", 0.0)
                    self._answer(live.peer, refused, ZERO)
                assert port is not None
                port.end(live)
