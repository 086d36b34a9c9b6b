"""The connected minions, and the connection by which jobs reach each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from catena.transport.peers import Peer


class MessageSender(Protocol):
    """The part of a gateway that sends."""

    def send(self, peer: Peer, message: Any, reply_to: bytes = ...) -> bool:
        """Send without blocking; return False if the peer is gone, revoked or its queue full."""


@dataclass(slots=True)
class Session:
    """A minion's agent process on its newest connection."""

    minion: str
    peer: Peer
    #: The agent process, as named in its Hello.
    session: str
    machine_id: str
    boot_id: str
    version: str
    #: Monotonic time of the last frame.
    heard: float
    #: The agent's AGENT_WIRE (`transport.messages.session`).
    wire: int


class Sessions:
    """The live sessions. Changed in the loop's thread; any thread may test membership."""

    def __init__(self) -> None:
        self._by_minion: dict[str, Session] = {}
        self._by_route: dict[tuple[str, bytes], Session] = {}
        self._by_machine: dict[str, Session] = {}

    def get(self, minion: str) -> Session | None:
        """Return the session of *minion*, or None."""
        return self._by_minion.get(minion)

    def of(self, peer: Peer) -> Session | None:
        """Return the session with the connection *peer*, or None."""
        return self._by_route.get((peer.socket, peer.routing_id))

    def of_machine(self, machine_id: str) -> Session | None:
        """Return the session of the host with that machine id, or None."""
        return self._by_machine.get(machine_id)

    def put(self, session: Session) -> None:
        """Make *session* the current one of its minion."""
        old = self._by_minion.get(session.minion)
        if old is not None:
            self.drop(old)
        self._by_minion[session.minion] = session
        self._by_machine[session.machine_id] = session
        self._by_route[session.peer.socket, session.peer.routing_id] = session

    def drop(self, session: Session) -> bool:
        """Remove *session*; return False if a newer one has replaced it."""
        self._by_route.pop((session.peer.socket, session.peer.routing_id), None)
        if self._by_machine.get(session.machine_id) is session:
            del self._by_machine[session.machine_id]
        if self._by_minion.get(session.minion) is not session:
            return False
        del self._by_minion[session.minion]
        return True

    def __contains__(self, minion: object) -> bool:
        return minion in self._by_minion

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_minion.values()))

    def __len__(self) -> int:
        return len(self._by_minion)
