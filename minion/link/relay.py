"""Relay of requests from this host's processes to the master, and of its answers."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Protocol, Type

from catena.core.errors import CatenaError, TryLaterError, UnreachableError
from catena.core.frozen import dataclass
from catena.transport import wire
from catena.transport.failures import failure_of
from catena.transport.messages import (
    ChunkRequest,
    Envelope,
    FilePush,
    FilesRequest,
    ManifestRequest,
    PeerRequest,
    PillarRequest,
)

#: Relayed messages -> the master's socket.
CARRIED: Mapping[Type[Any], str] = {
    PillarRequest: "control",
    PeerRequest: "control",
    ManifestRequest: "bulk",
    ChunkRequest: "bulk",
    FilesRequest: "bulk",
    FilePush: "bulk",
}
#: Answers that are relayed undecoded: the process that asked checks them.
ANSWERS = frozenset(
    {"PillarReply", "PeerReply", "ManifestReply", "ChunkReply", "FilesReply", "FileStored"}
)
#: Seconds for the master to answer; compiling a pillar takes longest.
SECONDS = 110.0
#: Maximum number of concurrent requests on the bulk socket, so that its queue stays short.
BULK_WINDOW = 4


class Requester(Protocol):
    """The process that asked."""

    def send(self, message: Any, reply_to: bytes) -> None:
        """Send it the answer."""


class Sender(Protocol):
    """The part of the link to the master that is used here."""

    @property
    def connected(self) -> bool:
        """Return whether the master is connected."""

    def send(
        self, socket_name: str, message: Any, reply_to: bytes = ..., msg_id: Optional[bytes] = ...
    ) -> bool:
        """Queue a message; return False if that is not possible now."""


@dataclass(frozen=True)
class Question:
    """One relayed request."""

    asker: Requester
    #: msg-id of the process's own message.
    msg_id: bytes
    message: Any
    socket: str
    until: float


class Relay:
    """The open requests. Each gets exactly one answer: the master's, or a Failure."""

    def __init__(self, link: Sender) -> None:
        self._link = link
        self._waiting: List[Question] = []
        self._asked: Dict[bytes, Question] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._asked)

    def use(self, link: Sender) -> None:
        """Send requests over another link from now on."""
        self._link = link

    def ask(self, asker: Requester, envelope: Envelope, now: float) -> None:
        """Relay a request.

        Raises:
            UnreachableError: there is no connection to the master.
        """
        if not self._link.connected:
            raise UnreachableError("no connection to the master")
        socket = CARRIED[type(envelope.message)]
        question = Question(asker, envelope.msg_id, envelope.message, socket, now + SECONDS)
        self._waiting.append(question)
        self.service(now)

    def service(self, now: float) -> None:
        """Send what waits, and give up what has waited too long."""
        if not (self._waiting or self._asked):
            return
        flying = sum(1 for question in self._asked.values() if question.socket == "bulk")
        left: List[Question] = []
        for question in self._waiting:
            bulk = question.socket == "bulk"
            if question.until < now:
                self._fail(question, TryLaterError("the master did not answer in time"))
            elif (bulk and flying >= BULK_WINDOW) or not self._send(question):
                left.append(question)
            else:
                flying += bulk
        self._waiting = left
        for msg_id, question in list(self._asked.items()):
            if question.until < now:
                del self._asked[msg_id]
                self._fail(question, TryLaterError("the master did not answer in time"))

    def answer(self, envelope: Envelope) -> bool:
        """Pass an answer to the process that asked; return False if none did."""
        question = self._asked.pop(envelope.reply_to, None)
        if question is None:
            return False
        question.asker.send(envelope.message, question.msg_id)
        return True

    def lost(self, socket: str) -> None:
        """Resend requests on bulk, and fail those on control, after a connection has ended.

        A job repeats its request for pillar itself, since it knows how long it can wait.
        """
        mine = [(key, q) for key, q in self._asked.items() if socket in (q.socket, "control")]
        for key, question in mine:
            del self._asked[key]
            if socket == "bulk":
                self._waiting.append(question)
            else:
                self._fail(question, UnreachableError("the connection to the master broke"))

    def gone(self, asker: Requester) -> None:
        """Remove the requests of a process that disconnected."""
        self._waiting = [question for question in self._waiting if question.asker is not asker]
        self._asked = {key: q for key, q in self._asked.items() if q.asker is not asker}

    @property
    def waiting(self) -> bool:
        """Return whether a request could not be sent yet."""
        return bool(self._waiting)

    def _send(self, question: Question) -> bool:
        msg_id = wire.new_id()
        try:
            sent = self._link.send(question.socket, question.message, wire.ZERO, msg_id)
        except CatenaError as error:
            self._fail(question, error)
            return True
        if sent:
            self._asked[msg_id] = question
        return sent

    def _fail(self, question: Question, error: CatenaError) -> None:
        question.asker.send(failure_of(error), question.msg_id)
