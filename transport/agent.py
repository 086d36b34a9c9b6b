"""The minion's side of the sockets, for one poll loop (no asyncio, no threads of ours).

The link uses the enrol socket until both sides trust each other's keys, then the control socket,
and the bulk socket while it is needed. Each connection is a new ZeroMQ socket, because libzmq
itself never retries after some refusals, keeps the old address of a name, and keeps its traffic
keys. `reconnect.py` decides when to try, ping and give up; `enrolment.py` decides whom to trust.
"""

from __future__ import annotations

import math
import os
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Union

from catena.core.config.minion import PORT
from catena.core.errors import CatenaError
from catena.core.frozen import dataclass
from catena.transport import keys as keystore
from catena.transport import wire
from catena.transport.channel import DOWN, KEYS_REFUSED, UP, Channel, Remote, outgoing
from catena.transport.enrolment import (
    Applicant,
    Enrolment,
    EnrolOutcome,
    EnrolState,
    Trusted,
    TrustStore,
)
from catena.transport.keys import BOOTSTRAP, KeyPair
from catena.transport.messages import (
    Envelope,
    Goodbye,
    KeyAnnounce,
    KeyRotate,
    KeyTaken,
    Ping,
    Pong,
    Refused,
    Welcome,
)
from catena.transport.peers import Endpoints
from catena.transport.reconnect import (
    DisconnectCause,
    LinkAction,
    LinkPhase,
    Reconnect,
    ReconnectRules,
)
from catena.transport.sockets import Family, family, require_libzmq
from catena.transport.wire import ZERO
from catena.transport.zeromq import zmq

__all__ = [
    "AgentLink",
    "Connected",
    "EnrolState",
    "LinkConfig",
    "LinkEvent",
    "Lost",
    "Noted",
    "Received",
    "Rotated",
    "Trusted",
]

#: Maximum number of frames read from one socket in one `service`.
BATCH = 128
#: Seconds of silence after which the bulk socket is closed.
BULK_IDLE_SECONDS = 120.0
#: Maximum sleep that `timeout` returns, in seconds.
LONGEST_SLEEP_SECONDS = 60.0
#: Milliseconds that `close` waits for queued messages to be sent.
LAST_WORD_MS = 100
#: File name of a new key pair that the master does not know yet.
NEXT_KEY = "curve.next"


@dataclass(frozen=True)
class LinkConfig:
    """Settings of a link."""

    #: Minion id and machine id, for EnrolRequest.
    id: str
    machine_id: str
    #: Version of the agent.
    version: str
    #: Host name or address; resolved again for each attempt.
    master: str
    #: Folder of the minion's keys and of the master's key (`master.pub`).
    pki_dir: str
    port: int = PORT
    #: Fingerprint that the master's key must have; "" trusts the first key seen.
    master_finger: str = ""
    enrol_token: str = ""
    ping_interval_seconds: float = 15.0
    recon_max_seconds: float = 60.0
    #: Addresses that do not follow from master and port (tests, port forwarding).
    endpoints: Optional[Endpoints] = None
    #: Names of messages that are only forwarded unread (`wire.unpack`).
    unread: FrozenSet[str] = frozenset()


@dataclass(frozen=True)
class Connected:
    """The control connection is up, both keys are proved: send Hello. Repeated after each Lost."""


@dataclass(frozen=True)
class Received:
    """A message of the master (Ping, Pong and key rotation are handled by the link)."""

    #: "control" or "bulk".
    socket: str
    envelope: Envelope


@dataclass(frozen=True)
class Lost:
    """A connection broke, and everything in transit is lost. The link reconnects by itself.

    socket "bulk": only requests on bulk must be sent again.
    """

    reason: str
    socket: str = "control"


@dataclass(frozen=True)
class Rotated:
    """The minion's own key was replaced at the master's request; Lost and Connected follow."""

    fingerprint: str


@dataclass(frozen=True)
class Noted:
    """A line for the log (the logging module would cost an idle agent 0.8 MB)."""

    #: "info" or "warning".
    level: str
    text: str


LinkEvent = Union[Trusted, EnrolState, Connected, Received, Lost, Rotated, Noted]


def _uniform() -> float:
    # The random module and its imports would stay in memory for this one number.
    return int.from_bytes(os.urandom(6), "big") / 2**48


class AgentLink:
    """Establishes trust, connects, and stays connected.

        link = AgentLink(config, keys, now)
        poller = zmq.Poller()
        link.register(poller)          # from now on the link (un)registers its own sockets
        while running:
            poller.poll(link.timeout(clock.monotonic()))
            for event in link.service(clock.monotonic()): ...

    Args:
        config: see LinkConfig.
        keys: the minion's key pair (`keys.load_or_create(pki_dir)`).
        now: monotonic seconds, as in every call.
        rules: times of reconnecting, if they do not follow from *config*.
        uniform: source of random numbers in [0, 1).

    Raises:
        OldLibzmqError: this libzmq is not safe to use on a network.
        UnsafeKeyError: the stored key of the master is damaged.
    """

    def __init__(
        self,
        config: LinkConfig,
        keys: KeyPair,
        now: float,
        rules: Optional[ReconnectRules] = None,
        uniform: Callable[[], float] = _uniform,
    ) -> None:
        require_libzmq()
        self._config = config
        self._keys = keys
        self._endpoints = config.endpoints or Endpoints.of(config.master, config.port)
        self._policy = Reconnect(
            rules
            or ReconnectRules(
                largest=config.recon_max_seconds, ping_interval=config.ping_interval_seconds
            ),
            uniform,
            now,
        )
        self._enrolment = self._enrolment_with(keys)
        #: Whether the next attempt goes to control; False: to enrol, to learn why control refused.
        self._enrolled = self._enrolment.master_key is not None
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
        self._poller = zmq.Poller()
        self._channels: Dict[str, Channel] = {}
        self._question = ZERO
        self._seq = 0
        self._bulk_up = False
        self._bulk_until = 0.0
        #: Whether the next lookup of a name uses IPv6; each failure switches the address family.
        self._ipv6 = False
        self._now = now
        self._next_keys = self._load_next()
        self._events: List[LinkEvent] = []

    def register(self, poller: zmq.Poller) -> None:
        """Keep the link's sockets registered in *poller*, also when they are replaced.

        Call it once, before the first `service`.
        """
        self._poller = poller

    @property
    def connected(self) -> bool:
        """Whether the control connection is up."""
        return self._policy.phase is LinkPhase.up

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the minion's own key, which an operator compares before accepting it."""
        return self._keys.fingerprint

    @property
    def master_fingerprint(self) -> str:
        """Fingerprint of the trusted master key; "" while there is none."""
        key = self._enrolment.master_key
        return keystore.fingerprint(key) if key else ""

    def send(
        self,
        socket_name: str,
        message: Any,
        reply_to: bytes = ZERO,
        msg_id: Optional[bytes] = None,
    ) -> bool:
        """Queue a message on "control" or "bulk" (which connects on first use).

        Return False if the link is not connected or the queue is full; then nothing is queued.
        True does not confirm delivery: repeat what must arrive until the master's program
        acknowledges it.

        Raises:
            MessageTooLargeError: it does not fit; for JobReturned use `return_parts.split_return`.
            NotPackableError: it contains a value that the wire cannot carry.
        """
        if not self.connected:
            return False
        frame = outgoing(message, socket_name, msg_id, reply_to)
        if socket_name == "bulk":
            if "bulk" not in self._channels:
                self._open("bulk")
                self._bulk_up = False
                self._bulk_until = self._now + self._policy.rules.attempt
            elif self._bulk_up:
                self._bulk_until = self._now + BULK_IDLE_SECONDS
        return self._channels[socket_name].send(frame)

    def service(self, now: float) -> List[LinkEvent]:
        """Read what arrived and do what is due, without blocking. Call it after each poll."""
        self._now = now
        for name in ("enrol", "control", "bulk"):
            if name in self._channels:
                self._watch(name)
            if name in self._channels:
                self._read(name)
        self._act()
        events, self._events = self._events, []
        return events

    def timeout(self, now: float) -> int:
        """Return how many milliseconds the loop may sleep before `service` is due."""
        end = self._policy.deadline()
        if "bulk" in self._channels:
            end = min(end, self._bulk_until)
        return math.ceil(1000 * min(max(0.0, end - now), LONGEST_SLEEP_SECONDS))

    def close(self) -> None:
        """Close everything; messages queued on control (Goodbye) have LAST_WORD_MS to leave."""
        control = self._channels.pop("control", None)
        if control is not None:
            control.close(LAST_WORD_MS if self.connected else 0)
        self._close("enrol", "bulk")
        self._context.term()

    # What is due

    def _act(self) -> None:
        due = self._policy.due(self._now)
        if due is LinkAction.connect:
            self._connect()
        elif due is LinkAction.give_up:
            self._close("enrol", "control")
            self._down("no answer", DisconnectCause.failed)
        elif due is LinkAction.aged:
            self._down("time for new traffic keys", DisconnectCause.renewed)
        elif due is LinkAction.silent:
            self._down("the master's program does not answer pings", DisconnectCause.failed)
        elif due is LinkAction.ping:
            self._ping()
        if "bulk" in self._channels and self._now >= self._bulk_until:
            if self._bulk_up:
                self._close("bulk")
            else:
                self._bulk_down("no answer")

    def _connect(self) -> None:
        name = "control" if self._enrolled else "enrol"
        # The enrol connection stayed open for the master's decision about the key.
        self._close("enrol")
        self._policy.tried(self._now)
        self._open(name)
        if name == "enrol":
            self._ask()

    def _open(self, name: str) -> None:
        key = BOOTSTRAP.public if name == "enrol" else self._enrolment.master_key
        assert key is not None
        endpoint = self._endpoints.named(name)
        kind = family(endpoint)
        ipv6 = kind is Family.ipv6 or (kind is Family.name and self._ipv6)
        remote = Remote(endpoint, key, self._keys, ipv6)
        self._channels[name] = Channel(self._context, name, remote, self._poller)

    def _close(self, *names: str) -> None:
        for name in names:
            channel = self._channels.pop(name, None)
            if channel is not None:
                channel.close()

    def _ping(self) -> None:
        if self._channels["control"].address_gone():
            self._down("the address of this host has changed", DisconnectCause.renewed)
            return
        self._seq += 1
        self._policy.pinged(self._now)
        self._channels["control"].send(wire.pack(Ping(self._seq)))

    def _down(self, reason: str, cause: DisconnectCause, at_least: float = 0.0) -> None:
        """End the control connection, if any, and schedule the next attempt."""
        was_up = self.connected
        self._close("control", "bulk")
        wait = self._policy.lost(self._now, cause, at_least)
        where = "" if was_up else f"{self._config.master} port {self._config.port} not reached: "
        self._note("info", f"{where}{reason}; next attempt in {wait:.1f} s")
        if was_up:
            self._enrolment.forget_state()
            self._events.append(Lost(reason))
        else:
            self._ipv6 = not self._ipv6

    def _note(self, level: str, text: str) -> None:
        self._events.append(Noted(level, text))

    def _bulk_down(self, reason: str) -> None:
        self._close("bulk")
        self._events.append(Lost(reason, "bulk"))

    # What happened to connections

    def _watch(self, name: str) -> None:
        channel = self._channels[name]
        events = channel.events()
        if channel.found and name != "bulk":
            self._policy.found()
        for event in events:
            if event == UP:
                self._came_up(name)
            elif event in KEYS_REFUSED:
                self._keys_refused(name, KEYS_REFUSED[event])
            elif event in DOWN:
                self._broken(name, DOWN[event])
            if name not in self._channels:
                return

    def _came_up(self, name: str) -> None:
        if name == "control":
            self._policy.came_up(self._now)
            self._events.append(Connected())
        elif name == "bulk":
            self._bulk_up = True
            self._bulk_until = self._now + BULK_IDLE_SECONDS

    def _keys_refused(self, name: str, reason: str) -> None:
        if name == "bulk":
            self._bulk_down(reason)
            return
        # The enrol socket tells if the key is pending or rejected, or if the master's key changed.
        self._enrolled = False
        self._close("enrol")
        self._down(reason, DisconnectCause.failed)

    def _broken(self, name: str, reason: str) -> None:
        if name == "bulk":
            self._bulk_down(reason)
            return
        # Frames that arrived before the end still count: a Refused or Goodbye gives the reason.
        self._read(name)
        if name in self._channels:
            self._close(name)
            if self._policy.phase is LinkPhase.waiting:
                return
            self._down(
                reason, DisconnectCause.broken if self.connected else DisconnectCause.failed
            )

    # What arrived

    def _read(self, name: str) -> None:
        for _ in range(BATCH):
            channel = self._channels.get(name)
            frame = channel.receive() if channel is not None else None
            if frame is None:
                return
            try:
                envelope = wire.unpack(
                    frame.buffer, socket=name, receiver="minion", unread=self._config.unread
                )
            except wire.WireError as error:
                self._note("warning", f"{name}: bad frame from the master: {error}")
                continue
            if name == "enrol":
                self._answered(envelope)
            else:
                self._received(name, envelope)

    def _received(self, name: str, envelope: Envelope) -> None:
        if name == "bulk":
            self._bulk_until = self._now + BULK_IDLE_SECONDS
            self._events.append(Received(name, envelope))
            return
        self._policy.heard()
        message = envelope.message
        if isinstance(message, Ping):
            self._channels[name].send(wire.pack(Pong(message.seq), reply_to=envelope.msg_id))
        elif isinstance(message, (KeyRotate, KeyTaken)):
            self._rotate(message)
        elif not isinstance(message, Pong):
            self._events.append(Received(name, envelope))
            self._consider(message)

    def _consider(self, message: Any) -> None:
        if isinstance(message, Welcome):
            self._policy.settled()
            if self._next_keys is not None:
                # A crash interrupted a rotation; the master may or may not have stored the new
                # key.
                self._announce(self._next_keys)
        elif isinstance(message, Goodbye):
            self._down(f"the master stops: {message.reason}", DisconnectCause.herd)
        elif isinstance(message, Refused):
            if message.code == "revoked":
                self._enrolled = False
            cause = DisconnectCause.herd if message.code == "busy" else DisconnectCause.failed
            reason = f"the master refuses ({message.code}): {message.reason}"
            self._down(reason, cause, max(0.0, message.retry_seconds))

    # Enrolment

    def _enrolment_with(self, keys: KeyPair) -> Enrolment:
        config = self._config
        applicant = Applicant(
            config.id,
            config.machine_id,
            config.version,
            keys.public,
            config.master_finger,
            config.enrol_token,
        )
        return Enrolment(applicant, TrustStore(config.pki_dir))

    def _ask(self) -> None:
        self._question = wire.new_id()
        frame = wire.pack(self._enrolment.question(), msg_id=self._question)
        self._channels["enrol"].send(frame)

    def _answered(self, envelope: Envelope) -> None:
        if envelope.reply_to != self._question:
            return
        following = self._enrolment.answer(envelope.message)
        self._events.extend(following.events)
        if following.ask:
            self._policy.tried(self._now)
            self._ask()
            return
        if following.retry_seconds is None:
            self._close("enrol")
        self._after_answer(following)

    def _after_answer(self, following: EnrolOutcome) -> None:
        if following.connect:
            # Not counted as a failure, but without an immediate retry if control has refused
            # before.
            failed = self._policy.failures > 0
            self._enrolled = True
            self._policy.lost(
                self._now, DisconnectCause.failed if failed else DisconnectCause.renewed
            )
            return
        if following.retry_seconds is None:
            self._policy.lost(self._now, DisconnectCause.failed)
        else:
            # Keep the connection: the master reports the acceptance of the key on it at once.
            self._policy.settled()
            self._policy.lost(self._now, DisconnectCause.told, following.retry_seconds)

    # Rotation of the minion's own key

    def _load_next(self) -> Optional[KeyPair]:
        try:
            return keystore.load(self._config.pki_dir, NEXT_KEY)
        except FileNotFoundError:
            return None

    def _rotate(self, message: Union[KeyRotate, KeyTaken]) -> None:
        try:
            self._rotate_files(message)
        except (OSError, CatenaError) as error:
            # The old key stays valid until the new one is first used.
            self._note("warning", f"the key cannot be rotated now: {error}")

    def _rotate_files(self, message: Union[KeyRotate, KeyTaken]) -> None:
        if isinstance(message, KeyRotate):
            if self._next_keys is None:
                self._next_keys = keystore.load_or_create(self._config.pki_dir, NEXT_KEY)
            self._announce(self._next_keys)
            return
        if self._next_keys is None or message.public_key != self._next_keys.public:
            self._note("warning", "the master took a key that was not announced; kept the old one")
            return
        self._keys = keystore.promote(self._config.pki_dir, NEXT_KEY)
        self._next_keys = None
        self._enrolment = self._enrolment_with(self._keys)
        self._events.append(Rotated(self._keys.fingerprint))
        self._down("the key was rotated", DisconnectCause.renewed)

    def _announce(self, pair: KeyPair) -> None:
        self._channels["control"].send(wire.pack(KeyAnnounce(pair.public)))
