"""The minion's side of the sockets, for one poll loop (no asyncio, no threads of ours)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, List, Optional, Union

from catena.core.config.minion import PORT
from catena.transport.keys import KeyPair
from catena.transport.messages import Envelope
from catena.transport.wire import ZERO

if TYPE_CHECKING:
    import zmq


@dataclass(frozen=True)
class LinkConfig:
    """What a link needs of the minion's settings."""

    #: Minion id and machine id, for EnrolRequest.
    id: str
    machine_id: str
    #: Version of the agent.
    version: str
    #: Host name or address; resolved anew for each attempt.
    master: str
    #: Where the minion's keys and the master's (`master.pub`) are kept.
    pki_dir: str
    port: int = PORT
    #: Fingerprint that the master's key must have; "" trusts the first one seen.
    master_finger: str = ""
    enrol_token: str = ""
    ping_interval_seconds: float = 15.0
    recon_max_seconds: float = 60.0


@dataclass(frozen=True)
class Trusted:
    """The master's key is known now. first_use: nothing but its being first speaks for it."""

    fingerprint: str
    first_use: bool


@dataclass(frozen=True)
class EnrolState:
    """What the master (or somebody in its place: not authenticated) says of our key.

    state: "accepted", "pending", "rejected", "denied", or "untrusted": the key that the master
    offers, or answers with, is not the one that must be.
    """

    state: str
    reason: str


@dataclass(frozen=True)
class Connected:
    """The control connection is up and both keys are proved; say Hello. Again after each Lost."""


@dataclass(frozen=True)
class Received:
    """A message of the master (Ping, Pong and key rotation are handled inside)."""

    #: "control" or "bulk".
    socket: str
    envelope: Envelope


@dataclass(frozen=True)
class Lost:
    """A connection that was up is gone, with all that was on its way. The link comes back itself.

    socket "bulk": only requests on bulk must be asked again.
    """

    reason: str
    socket: str = "control"


@dataclass(frozen=True)
class Rotated:
    """The minion's own key was replaced, on the master's word; a Lost and Connected follow."""

    fingerprint: str


LinkEvent = Union[Trusted, EnrolState, Connected, Received, Lost, Rotated]


class AgentLink:
    """Finds trust, connects, and stays connected.

        link = AgentLink(config, keys, now)
        poller = zmq.Poller()
        link.register(poller)          # the link (un)registers its sockets itself from now on
        while running:
            poller.poll(link.timeout(clock.monotonic()))
            for event in link.service(clock.monotonic()): ...

    Args:
        config: see LinkConfig.
        keys: the minion's key pair (`keys.load_or_create(pki_dir)`).
        now: monotonic seconds, as for every call.
    """

    def __init__(self, config: LinkConfig, keys: KeyPair, now: float) -> None:
        raise NotImplementedError

    def register(self, poller: zmq.Poller) -> None:
        """Keep the link's sockets registered in *poller*, whatever becomes of them."""
        raise NotImplementedError

    def service(self, now: float) -> List[LinkEvent]:
        """Read what arrived, do what is due; never blocks. Call after each poll."""
        raise NotImplementedError

    def send(
        self,
        socket_name: str,
        message: Any,
        reply_to: bytes = ZERO,
        msg_id: Optional[bytes] = None,
    ) -> bool:
        """Queue a message on "control" or "bulk" (which connects on first use).

        False: not connected or the queue is full; nothing was queued.

        Raises:
            MessageTooLargeError: it does not fit; for JobReturned use `wire.split_return`.
            NotPackableError: it holds a value that can't travel.
        """
        raise NotImplementedError

    def timeout(self, now: float) -> int:
        """Return how many milliseconds the loop may sleep before `service` is due."""
        raise NotImplementedError

    @property
    def connected(self) -> bool:
        """Whether the control connection is up."""
        raise NotImplementedError

    def close(self) -> None:
        """Close everything at once; what was not sent is dropped."""
        raise NotImplementedError
