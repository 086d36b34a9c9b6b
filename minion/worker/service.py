"""Requests of a job process to its daemon, over the daemon's unix socket.

Requests to the master are retried while the daemon restarts or the master is briefly unreachable.
Progress never waits and may be lost, because the return repeats it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

from catena.core.errors import CatenaError, TryLaterError, UnreachableError
from catena.core.job import JobProgress
from catena.core.peer import PeerCall
from catena.minion.start.blob import SOCKET
from catena.minion.worker.event_sender import EventSender
from catena.transport import wire
from catena.transport.framing import frame
from catena.transport.local import LocalClient
from catena.transport.messages import (
    ChunkReply,
    ChunkRequest,
    ClientReply,
    ClientRequest,
    EventFired,
    FilePush,
    FilesReply,
    FilesRequest,
    FileStored,
    GrainsUpdate,
    JobOutput,
    JobProgressed,
    ManifestReply,
    ManifestRequest,
    PeerReply,
    PeerRequest,
    PillarReply,
    PillarRequest,
)

T = TypeVar("T")

#: Seconds for which a job waits for an unreachable daemon or master.
PATIENCE = 60.0
_PAUSE = 0.5
#: Seconds for an answer; compiling a pillar may take the master long, pieces of files do not.
_PILLAR_SECONDS = 120.0
_SECONDS = 60.0
#: For a call through the master, which waits for other minions.
_PEER_SECONDS = 100.0


class SocketService:
    """An `AgentService` (runtime) and a `ChunkSource` (fileserver) over one unix socket.

    Args:
        run_dir: folder of the socket.
        patience: see PATIENCE.
        attempts: returns how many processes of the job ended before this one.
    """

    def __init__(
        self,
        run_dir: Path,
        patience: float = PATIENCE,
        attempts: Callable[[], int] = lambda: 0,
    ) -> None:
        self._run_dir, self._patience = run_dir, patience
        self._attempts = attempts
        self._attempt: Optional[int] = None
        self._reach(f"{run_dir}/{SOCKET}")  # text, since a Path costs time in every job

    def _reach(self, path: str) -> None:
        self._client = LocalClient(path, "job")
        self._progress = ProgressPipe(path)
        self._events = EventSender(self._client, self._keep)

    @contextlib.contextmanager
    def moving(self) -> Iterator[Callable[[], None]]:
        """Yield a function with which a copy of this process reaches the daemon from another root.

        The socket's folder is held open, because in the other root its path is another folder or
        none.
        """
        folder = os.open(self._run_dir, os.O_PATH | os.O_DIRECTORY)
        try:
            yield lambda: self._reach(f"/proc/self/fd/{folder}/{SOCKET}")
        finally:
            os.close(folder)

    def pillar(
        self, saltenv: str, pillarenv: str, override: Mapping[str, Any]
    ) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
        """Return (pillar, errors), compiled by the master now.

        Raises:
            UnreachableError: there is no daemon, or it has no master.
        """
        message = PillarRequest(saltenv, pillarenv, dict(override))
        reply: PillarReply = self._patient(message, _PILLAR_SECONDS)
        return dict(reply.pillar), reply.errors

    def manifest(self, saltenv: str) -> ManifestReply:
        """Return the master's file list for this minion in *saltenv*."""
        reply: ManifestReply = self._patient(ManifestRequest(saltenv), _SECONDS)
        return reply

    def chunk(self, request: ChunkRequest) -> ChunkReply:
        """Return a piece of a file."""
        reply: ChunkReply = self._patient(request, _SECONDS)
        return reply

    def files(self, request: FilesRequest) -> FilesReply:
        """Return several small files."""
        reply: FilesReply = self._patient(request, _SECONDS)
        return reply

    def pipelined(self, requests: Sequence[Any], window: int) -> Iterable[Any]:
        """Yield the answers in the order of *requests*, with up to *window* requests in progress.

        After a broken connection, the remaining requests are repeated.
        """
        self._events.drain()
        left = list(requests)
        while left:
            # Send only one request until it works again, to spare the unreachable side.
            yield self._patient(left.pop(0), _SECONDS)
            with contextlib.suppress(UnreachableError, TryLaterError):
                for reply in self._client.pipelined(tuple(left), window, _SECONDS):
                    del left[0]
                    yield reply

    def fire(self, tag: str, data: Mapping[str, Any]) -> bool:
        """Send an event to the daemon, which keeps it until the master has stored it."""
        self._keep(_event(tag, data))
        return True

    def hand_over(self, tag: str, data: Mapping[str, Any]) -> None:
        """Send an event like `fire`, but wait only in `settle` until it is stored."""
        self._events.send(_event(tag, data))

    def settle(self) -> None:
        """Return when all events of `hand_over` are stored, or raise the reason why not."""
        self._events.settle()

    def progress(self, progress: JobProgress) -> None:
        """Send one step without waiting; errors are ignored."""
        self._progress.send(JobProgressed(progress))

    def output(self, jid: str, at: int, size: int, stream: str, text: str) -> bool:
        """Send a chunk of output; return False if the agent is unreachable. Never raises."""
        if self._attempt is None:
            self._attempt = self._attempts()
        return self._progress.send(JobOutput(jid, self._attempt, at, size, stream, text))

    def peer(self, call: PeerCall) -> Any:
        """Return what a call through the master returns. It is never repeated."""
        reply: PeerReply = self._ask(PeerRequest(call), _PEER_SECONDS)
        return reply.value

    def push(self, part: FilePush) -> FileStored:
        """Send one piece of a file to the master, and return when it is stored."""
        reply: FileStored = self._patient(part, _SECONDS)
        return reply

    def grains(self, grains: Mapping[str, Any]) -> bool:
        """Send newly collected grains to the daemon; return False if there is none."""
        try:
            return isinstance(self._ask(GrainsUpdate(dict(grains))), ClientReply)
        except UnreachableError:
            return False

    def running(self) -> List[Dict[str, Any]]:
        """Return running and queued jobs."""
        reply = self._ask(ClientRequest("running", {}))
        return list(reply.value)

    def signal(self, jid: str, signal: int) -> str:
        """Signal a job's process tree, or remove it from the queue; return a sentence."""
        reply = self._ask(ClientRequest("signal", {"jid": jid, "signal": signal}))
        return str(reply.value)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
        self._progress.close()

    def _keep(self, event: EventFired) -> None:
        self._patient(event, _SECONDS)

    def _ask(self, message: Any, seconds: float = _SECONDS) -> Any:
        self._events.drain()
        return self._client.request(message, seconds)

    def _patient(self, message: Any, timeout: float) -> Any:
        self._events.drain()
        return patiently(lambda: self._client.request(message, timeout), self._patience)


def _event(tag: str, data: Mapping[str, Any]) -> EventFired:
    return EventFired(os.urandom(16).hex(), tag, dict(data))


def patiently(ask: Callable[[], T], patience: float) -> T:
    """Return the result of *ask*, which is retried for *patience* seconds while unreachable.

    Raises:
        CatenaError: the last error of *ask*, or at once an error that waiting does not solve.
    """
    end = time.monotonic() + patience
    while True:
        try:
            return ask()
        except (UnreachableError, TryLaterError):
            if time.monotonic() >= end:
                raise
        time.sleep(_PAUSE)


class ProgressPipe:
    """Sends messages without an answer, if the daemon reads them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        #: Process that connected; a forked copy (a parallel state) opens a connection of its own.
        self._owner = 0
        self._again = 0.0

    def send(self, message: Any) -> bool:
        """Send *message*; return False if nobody reads or it is too large."""
        try:
            data = frame(wire.pack(message))
        except CatenaError:
            return False
        if self._owner != os.getpid():
            self.close()
            self._again = 0.0
        if self._socket is None and not self._connect():
            return False
        assert self._socket is not None
        try:
            self._socket.sendall(data)
        except OSError:
            # The daemon is gone, or has not read for a second. A frame may be incomplete, so the
            # connection cannot be used any more.
            self.close()
            return False
        return True

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> bool:
        now = time.monotonic()
        if now < self._again:
            return False
        self._again = now + 1.0
        self._owner = os.getpid()
        fresh = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        fresh.settimeout(1.0)
        try:
            fresh.connect(self._path)
        except OSError:
            fresh.close()
            return False
        self._socket = fresh
        return True
