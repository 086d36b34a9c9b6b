"""Function calls for the master while it compiles, in a process beside the serving one.

A function may hang, end its process, print, or crash the interpreter, which must not affect the
channel. The process keeps the functions' state (`__context__`, loaded modules) between calls. If a
call takes too long, the process is killed with its descendants, and the next call gets a new one.
"""

from __future__ import annotations

# What is below `socket`, which wraps the kernel's numbers in enumerations: 1.5 ms of each visit.
import _socket as socket
import contextlib
import ctypes
import json
import os
import select
import signal
import time
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from catena.core.context import Context, FileClient
from catena.core.custom_faults import error_line
from catena.core.errors import CatenaError
from catena.core.frozen import replace
from catena.runtime import processes
from catena.runtime.boot import boot_time
from catena.runtime.host import AgentHome, LocalHost
from catena.runtime.push import asking, protocol
from catena.runtime.push.files import ShippedFiles
from catena.runtime.push.host import sync_custom
from catena.runtime.push.host_folder import Room, trouble_of
from catena.runtime.push.outcome import boot_id
from catena.runtime.push.protocol import ProgramError, Trouble
from catena.runtime.results import plain
from catena.runtime.session import JobSession, session_on
from catena.transport.framing import FrameReader, frame

#: prctl(2): signal to receive when the serving process ends.
_PR_SET_PDEATHSIG = 1
#: Maximum bytes of one message between the two processes.
_LIMIT = 128 * 1024 * 1024
_OPEN_SECONDS = 120.0


class CallProcess:
    """The serving process's side.

    Args:
        room: the folder.
        watch: descriptor of the channel's input; when it has something to read, *hear* is called.
        hear: takes it; False: the channel has ended.
    """

    def __init__(self, room: Room, watch: int, hear: Callable[[], bool]) -> None:
        self._room = room
        self._watch, self._hear = watch, hear
        self._pid = 0
        self._socket: Optional[socket.socket] = None
        self._reader = FrameReader(_LIMIT)
        #: Message with which a new process must begin.
        self._opened: Optional[protocol.Open] = None
        self._pillar: Optional[protocol.Pillar] = None

    def answer(self, question: Any) -> Any:
        """Return the answer to an Open, Pillar, Call or Known.

        Raises:
            ProgramError: there is none.
            ChannelEndedError: the channel ended meanwhile; the call is dead.
        """
        if isinstance(question, protocol.Open):
            reply = self._ask(question, _OPEN_SECONDS)
            if not reply.missing:
                self._opened = question
            return reply
        if self._opened is None:
            raise ProgramError(Trouble.refused, "nobody said yet who this host is: open")
        if self._pid == 0:
            self._ask(replace(self._opened, grains=True), _OPEN_SECONDS)
            if self._pillar is not None and not isinstance(question, protocol.Pillar):
                self._ask(self._pillar, _OPEN_SECONDS)
        if isinstance(question, protocol.Pillar):
            self._pillar = question
        seconds = question.timeout_seconds if isinstance(question, protocol.Call) else 0.0
        return self._ask(question, seconds or _OPEN_SECONDS)

    def close(self) -> None:
        """Kill the process with its descendants."""
        if self._pid:
            found = processes.reference(self._pid, boot_id())
            if found is not None:
                processes.kill_tree(found, found.boot_id)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            self._pid = 0
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask(self, question: Any, seconds: float) -> Any:
        if self._pid == 0:
            self._fork()
        assert self._socket is not None
        try:
            data = json.dumps(protocol.ask(question)).encode("ascii")
            self._socket.sendall(frame(data, _LIMIT))
        except OSError:
            self.close()
            raise ProgramError(Trouble.died, "the process of calls had ended") from None
        message = self._await(seconds)
        return protocol.answered(question, message)

    def _await(self, seconds: float) -> Dict[str, Any]:
        """Return the answer of the process; watch the channel meanwhile."""
        assert self._socket is not None
        ends = time.monotonic() + seconds
        watched = [self._socket.fileno(), self._watch]
        while True:
            left = ends - time.monotonic()
            if left <= 0:
                self.close()
                raise ProgramError(
                    Trouble.deadline, f"killed: no answer after {seconds:g} seconds"
                )
            ready, _, _ = select.select(watched, (), (), left)
            if self._watch in ready and not self._hear():
                self.close()
                raise ChannelEndedError()
            if self._socket.fileno() in ready:
                data = self._socket.recv(1 << 20)
                if not data:
                    self.close()
                    raise ProgramError(
                        Trouble.died, "the process of the call ended without answer"
                    )
                for whole in self._reader.feed(data):
                    found: Dict[str, Any] = json.loads(whole)
                    return found

    def _fork(self) -> None:
        ours, theirs = socket.socketpair()
        self._reader = FrameReader(_LIMIT)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            ours.close()
            _become(self._room, theirs, parent)
        theirs.close()
        self._pid, self._socket = pid, ours


class ChannelEndedError(CatenaError):
    """The channel to the master has ended."""


def _become(room: Room, link: socket.socket, parent: int) -> None:
    """Run as the process of calls."""
    code = 1
    try:
        os.setsid()
        processes.become_subreaper()
        _die_with(parent)
        os.chdir("/")
        os.umask(0o022)
        nothing = os.open(os.devnull, os.O_RDWR)
        for target in (0, 1, 2):
            os.dup2(nothing, target)
        for number in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208
            if number > 2 and number != link.fileno():
                with contextlib.suppress(OSError):
                    os.close(number)
        _serve(CallServer(room), link)
        code = 0
    finally:
        os._exit(code)


def _die_with(parent: int) -> None:
    """End this process and its descendants when the serving process ends."""

    def end(number: int, stack: Any) -> None:
        for pid in processes.descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _serve(callee: CallServer, link: socket.socket) -> None:
    reader = FrameReader(_LIMIT)
    while True:
        data = link.recv(1 << 20)
        if not data:
            return
        for whole in reader.feed(data):
            try:
                reply = protocol.answer(callee.answer(protocol.asked(json.loads(whole))))
            except (CatenaError, OSError) as error:
                reply = protocol.failure(trouble_of(error))
            link.sendall(frame(json.dumps(reply).encode("ascii"), _LIMIT))


class CallHost(LocalHost):
    """The host of a call on the channel."""

    def __init__(
        self, place: AgentHome, files: FileClient, pillar: Optional[Mapping[str, Any]]
    ) -> None:
        def given(*_: Any) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
            if pillar is None:
                raise asking.NeedsMasterError()
            return dict(pillar), ()

        super().__init__(place, files, given)

    def compile_pillar(
        self, override: Optional[Mapping[str, Any]] = None, pillarenv: str = ""
    ) -> Dict[str, Any]:
        """Refuse: fresh pillar is the master's to give.

        Raises:
            NeedsMasterError: always.
        """
        raise asking.NeedsMasterError()


def _session(host: CallHost) -> JobSession:
    """Return the session of calls, which raises an error if a call needs the master."""

    def began() -> Context:
        return made.context

    made = session_on(host, None, asking.AskedRendering(asking.refused, began, lambda key: None))
    return made


class CallServer:
    """The calling process's side: one host, one session, many calls."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._host: Optional[CallHost] = None
        self._session: Optional[JobSession] = None

    def answer(self, question: Any) -> Any:
        """Return the answer to a question.

        Raises:
            CatenaError, OSError: there is none.
        """
        if isinstance(question, protocol.Open):
            return self._open(question)
        if self._host is None or self._session is None:
            raise ProgramError(Trouble.refused, "nobody said yet who this host is: open")
        if isinstance(question, protocol.Pillar):
            self._host = CallHost(self._host.place, self._host.files, question.pillar)
            self._session = _session(self._host)
            return protocol.Nothing()
        if isinstance(question, protocol.Known):
            return self._known(question, self._session.context)
        return self._call(question, self._session.context)

    def _open(self, question: protocol.Open) -> protocol.Opened:
        files = ShippedFiles(question.custom, self._room.parts)
        missing = files.missing()
        if missing:
            return protocol.Opened(tuple(missing))
        place = self._room.place(question.identity)
        place = replace(place, settings=replace(place.settings, file_client="local"))
        sync_custom(CallHost(place, files, {}), files.environments())
        known = self._host.place.grains if self._host is not None else None
        host = CallHost(place, files, {})
        grains = host.collect_grains() if question.grains or not known else dict(known)
        able = asking.AskedFiles(files, asking.refused, self._room.parts)
        self._host = CallHost(replace(place, grains=grains), able, None)
        self._session = _session(self._host)
        sent = grains if question.grains else {}
        return protocol.Opened((), sent, place.machine_id, _boot_of(host), boot_time())

    def _known(self, question: protocol.Known, context: Context) -> protocol.KnownNames:
        registry = context.states if question.kind == "state" else context.functions
        return protocol.KnownNames(tuple(name for name in question.names if name in registry))

    def _call(self, question: protocol.Call, context: Context) -> protocol.Called:
        # A template calls while its run is compiled; what it runs stays in that run's test mode.
        changes: Dict[str, Any] = {"test": True, "in_run": True} if question.test else {}
        if question.saltenv:
            changes["saltenv"] = question.saltenv
        inside = context.with_(**changes) if changes else context
        inside.scratch.pop("retcode", None)
        try:
            if question.fun not in inside.functions:
                inside.functions[question.fun]  # raises, and names the nearest
            value = inside.call(question.fun, *question.args, **question.kwargs)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # what it raised is the answer
            unavailable = question.fun not in inside.functions
            fault = protocol.Fault(
                type(error).__name__, str(error), error_line(error), unavailable
            )
            return protocol.Called(fault=fault)
        return protocol.Called(_data(value), None, _code(inside.scratch.get("retcode")))


def _boot_of(host: CallHost) -> str:
    try:
        return host.boot_id()
    except OSError:
        return ""


def _data(value: Any) -> Any:
    """Return *value* as plain data that can be sent to another process."""
    if isinstance(value, (list, tuple, dict, str, bytes, int, float, type(None))):
        return value
    return plain(value)


def _code(said: Any) -> int:
    return said if isinstance(said, int) and not isinstance(said, bool) else 0
