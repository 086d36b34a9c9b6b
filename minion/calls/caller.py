"""A connection of `catena call` to the master, for a host whose daemon does not run.

It blocks and serves one process that runs one job. The master welcomes it as a "caller", which
receives no jobs.
"""

from __future__ import annotations

import os
import time
from typing import (
    Any,
    Callable,
    ContextManager,
    Dict,
    Iterable,
    List,
    Mapping,
    Sequence,
    Tuple,
    Type,
)

import zmq

import catena
from catena.core.errors import (
    CatenaError,
    InvalidStateError,
    NotAllowedError,
    TryLaterError,
    UnreachableError,
)
from catena.core.job import JobProgress
from catena.core.peer import PeerCall
from catena.fileserver.remote import Request, one_by_one
from catena.minion.link.master import link_config
from catena.minion.start.blob import StartData
from catena.transport import wire
from catena.transport.agent import AgentLink, Connected, EnrolState, LinkEvent, Lost, Received
from catena.transport.failures import error_of
from catena.transport.keys import load_or_create
from catena.transport.messages import (
    ChunkReply,
    ChunkRequest,
    EventFired,
    EventStored,
    Failure,
    FilePush,
    FilesReply,
    FilesRequest,
    FileStored,
    Hello,
    ManifestReply,
    ManifestRequest,
    PeerReply,
    PeerRequest,
    PillarReply,
    PillarRequest,
    Refused,
    Welcome,
)

CONNECT_SECONDS = 15.0
_PILLAR_SECONDS = 120.0
_SECONDS = 60.0
#: For a call through the master, which waits for other minions.
_PEER_SECONDS = 100.0


class CallerService:
    """An `AgentService` (runtime) and a `ChunkSource` (fileserver) over a connection of its own.

    Args:
        start: the minion's identity and the address of its master.
        boot_id: id of the running boot.
        seconds: how long connecting may take.

    Raises:
        UnreachableError: the master does not answer, or has not accepted this minion's key.
        NotAllowedError: the master refuses this minion.
    """

    def __init__(self, start: StartData, boot_id: str, seconds: float = CONNECT_SECONDS) -> None:
        self._start, self._boot_id = start, boot_id
        keys = load_or_create(start.settings.pki_dir)
        self._poller = zmq.Poller()
        self._link = AgentLink(link_config(start), keys, time.monotonic())
        self._link.register(self._poller)
        self._answers: Dict[bytes, Any] = {}
        self._welcome = False
        self._state = "no answer"
        try:
            self._connect(time.monotonic() + seconds)
        except CatenaError:
            self.close()
            raise

    def pillar(
        self, saltenv: str, pillarenv: str, override: Mapping[str, Any]
    ) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
        """Return (pillar, errors), compiled by the master now."""
        message = PillarRequest(saltenv, pillarenv, dict(override))
        reply: PillarReply = self._ask("control", message, PillarReply, _PILLAR_SECONDS)
        return dict(reply.pillar), reply.errors

    def manifest(self, saltenv: str) -> ManifestReply:
        """Return the master's file list for this minion in *saltenv*."""
        reply: ManifestReply = self._ask("bulk", ManifestRequest(saltenv), ManifestReply)
        return reply

    def chunk(self, request: ChunkRequest) -> ChunkReply:
        """Return a piece of a file."""
        reply: ChunkReply = self._ask("bulk", request, ChunkReply)
        return reply

    def files(self, request: FilesRequest) -> FilesReply:
        """Return several small files."""
        reply: FilesReply = self._ask("bulk", request, FilesReply)
        return reply

    def pipelined(self, requests: Sequence[Request], window: int) -> Iterable[Any]:
        """Return the answers in the order of the requests, which are sent one after the other."""
        return one_by_one(self, requests)

    def fire(self, tag: str, data: Mapping[str, Any]) -> bool:
        """Send an event and wait until it is stored."""
        event = EventFired(os.urandom(16).hex(), tag, dict(data))
        return isinstance(self._ask("control", event, EventStored), EventStored)

    def hand_over(self, tag: str, data: Mapping[str, Any]) -> None:
        """Do what `fire` does."""
        self.fire(tag, data)

    def settle(self) -> None:
        """Do nothing: `fire` has waited for each event."""

    def progress(self, progress: JobProgress) -> None:
        """Drop the progress: the master knows no such job."""

    def output(self, jid: str, at: int, size: int, stream: str, text: str) -> bool:
        """Drop the output: the master knows no such job."""
        return True

    def peer(self, call: PeerCall) -> Any:
        """Return what a call through the master returns."""
        reply: PeerReply = self._ask("control", PeerRequest(call), PeerReply, _PEER_SECONDS)
        return reply.value

    def push(self, part: FilePush) -> FileStored:
        """Send one piece of a file, and return when it is stored."""
        reply: FileStored = self._ask("bulk", part, FileStored)
        return reply

    def grains(self, grains: Mapping[str, Any]) -> bool:
        """Return False: without a daemon nothing stores grains."""
        return False

    def running(self) -> List[Dict[str, Any]]:
        """Return an empty list: there are no jobs without a daemon."""
        return []

    def signal(self, jid: str, signal: int) -> str:
        """Return a sentence that there is no such job."""
        return f"no job {jid} runs here"

    def moving(self) -> ContextManager[Callable[[], None]]:
        """Raise, because a copy of this process cannot use its connection.

        Raises:
            InvalidStateError: always; the message says what to do.
        """
        raise InvalidStateError(
            "chains of a transactional system run in jobs of the agent; start them on the master"
        )

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def _connect(self, end: float) -> None:
        while not self._welcome:
            if time.monotonic() > end:
                raise UnreachableError(
                    f"master {self._start.settings.master}: {self._state}; "
                    "to run without a master: catena call --local"
                )
            self._turn(end)

    def _ask(self, socket: str, message: Any, kind: Type[Any], seconds: float = _SECONDS) -> Any:
        msg_id, end, sent = wire.new_id(), time.monotonic() + seconds, False
        while time.monotonic() < end:
            # False while the bulk socket connects and after a broken connection; send again then.
            sent = sent or self._link.send(socket, message, wire.ZERO, msg_id)
            self._turn(end if sent else min(end, time.monotonic() + 0.02))
            answer = self._answers.pop(msg_id, None)
            if isinstance(answer, Failure):
                raise error_of(answer)
            if answer is not None:
                if not isinstance(answer, kind):
                    raise UnreachableError(f"the master answers with {type(answer).__name__}")
                return answer
        raise TryLaterError("the master did not answer in time")

    def _turn(self, end: float) -> None:
        now = time.monotonic()
        wait = min(self._link.timeout(now), max(0, int((end - now) * 1000)) + 1)
        self._poller.poll(wait)
        for event in self._link.service(time.monotonic()):
            self._handle(event)

    def _handle(self, event: LinkEvent) -> None:
        if isinstance(event, Connected):
            self._link.send("control", self._hello())
        elif isinstance(event, EnrolState) and event.state != "accepted":
            self._state = f"this minion's key is {event.state}: {event.reason}"
            if event.state in ("denied", "untrusted", "rejected"):
                raise NotAllowedError(self._state)
        elif isinstance(event, Lost):
            self._welcome = self._welcome and event.socket == "bulk"
            raise UnreachableError(f"the connection to the master broke: {event.reason}")
        elif isinstance(event, Received):
            message = event.envelope.message
            if isinstance(message, Welcome):
                self._welcome = True
            elif isinstance(message, Refused):
                raise NotAllowedError(f"the master refuses this minion: {message.reason}")
            else:
                self._answers[event.envelope.reply_to] = message

    def _hello(self) -> Hello:
        return Hello(
            id=self._start.id,
            machine_id=self._start.machine_id,
            boot_id=self._boot_id,
            session=os.urandom(16).hex(),
            version=catena.__version__,
            role="caller",
            first=False,
            grains={},
            open_jobs=(),
        )
