"""The two kinds of host for a function: under an agent, or in `catena call --local`.

Both implement `core.context.Host`. `RemoteHost` uses the agent that started the job
(`AgentService`, in the daemon: a unix socket); `LocalHost` has no agent. Both record what a chain
requests for the time after the job's return is safe (`After`).
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ContextManager,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Tuple,
)

import catena
from catena.core import frozen
from catena.core.clock import Clock, SystemClock, read_boot_id
from catena.core.config.minion import MinionSettings
from catena.core.context import FileClient, OutputTap, RebootRequest
from catena.core.errors import InvalidStateError, PillarError, UnreachableError
from catena.core.frozen import dataclass, field
from catena.core.job import JobProgress, JobSpec
from catena.core.peer import PeerCall
from catena.runtime.custom_files import sync_files
from catena.runtime.grains.collect import GrainSources, collect
from catena.runtime.output_tap import CommandTap, Meter, Send

if TYPE_CHECKING:
    from catena.transport.messages import FilePush

#: Commands that reboot a host if none is configured, in order of preference.
REBOOT_COMMANDS: Tuple[Tuple[str, ...], ...] = (
    ("systemctl", "reboot"),
    ("shutdown", "-r", "now"),
    ("reboot",),
)


@dataclass(frozen=True)
class AgentHome:
    """An agent's folders and identity on its host."""

    settings: MinionSettings
    id: str
    machine_id: str
    #: Folder of the configuration file; contains minion.d and the static grains file.
    conf_dir: Path
    #: Private folder for everything that is kept between runs (root_dir already applied).
    cache_dir: Path
    #: Folder of the keys, including the key of the resume file.
    pki_dir: Path
    #: Grains as last collected by the agent; None: collected when a session opens.
    grains: Optional[Mapping[str, Any]] = None
    #: Random id of the agent process; "" outside a daemon.
    session: str = ""
    #: Options of modules (dotted keys) and free keys of the configuration.
    module_options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def extmods(self) -> Path:
        """Return the folder of this host's custom files, which has a folder per kind."""
        return self.cache_dir / "extmods"

    @cached_property
    def named_settings(self) -> Mapping[str, Any]:
        """Return the settings that `options` gives to each job of a process."""
        return _named_settings(self)


def options(place: AgentHome) -> Dict[str, Any]:
    """Return the settings of *place* under the names used by Salt's code (`__opts__`)."""
    return dict(place.named_settings)


def _named_settings(place: AgentHome) -> Dict[str, Any]:
    opts = {f.name: getattr(place.settings, f.name) for f in frozen.fields(place.settings)}
    opts.update(place.module_options)
    cache, conf = str(place.cache_dir), str(place.conf_dir)
    opts.update(
        {
            "id": place.id,
            "machine_id": place.machine_id,
            "cache_dir": cache,
            "cachedir": cache,
            "pki_dir": str(place.pki_dir),
            "conf_dir": conf,
            "config_dir": conf,
            "conf_file": str(place.conf_dir / "minion"),
            "extension_modules": str(place.extmods),
            "saltenv": place.settings.saltenv or "base",
            "environment": place.settings.saltenv or None,
            "pillarenv": place.settings.pillarenv or None,
            "saltversion": catena.__version__,
            "__role": "minion",
            # Many formulas check which of Salt's programs runs them before they merge a tree.
            "__cli": "salt-minion" if place.session else "salt-call",
            "hash_type": "sha256",
        }
    )
    return opts


def grain_sources(place: AgentHome) -> GrainSources:
    """Return the sources of the grains of *place*."""
    return GrainSources(
        id=place.id,
        machine_id=place.machine_id,
        static_file=place.conf_dir / "grains",
        configured=place.settings.grains,
        custom=place.extmods / "grains",
        options=options(place),
    )


class AfterKind(str, Enum):
    """What an agent does once a job's return is safe."""

    reboot = "reboot"
    restart_agent = "restart_agent"
    #: Withdraws the earlier request of this chain.
    call_off = "call_off"


@dataclass(frozen=True)
class After:
    """A request of a successful chunk to the agent, carried out once its return is in the outbox.

    `call_off` of the same chain withdraws it when the chain is given up.
    """

    kind: AfterKind
    chain_id: int
    #: Seconds to wait after that (Salt's at_time).
    delay_seconds: int = 0
    #: Command for a reboot.
    command: Tuple[str, ...] = ()
    #: Boot in which a reboot, and below agent process in which a restart, is to be done. In
    #: another boot or process it has already happened.
    boot_id: str = ""
    session: str = ""


def _never() -> bool:
    return False


class AgentService(Protocol):
    """The agent's services for a job process; in the daemon, behind its unix socket."""

    def pillar(
        self, saltenv: str, pillarenv: str, override: Mapping[str, Any]
    ) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
        """Return (pillar, errors), compiled now; raise UnreachableError without a master."""

    def fire(self, tag: str, data: Mapping[str, Any]) -> bool:
        """Accept an event and keep it until the master stores it; return False without one."""

    def hand_over(self, tag: str, data: Mapping[str, Any]) -> None:
        """Accept an event for the master; it is stored when `settle` returns."""

    def settle(self) -> None:
        """Return when all events of `hand_over` are stored; raise if one cannot be."""

    def progress(self, progress: JobProgress) -> None:
        """Accept a step of the running job. Must neither block nor raise."""

    def output(self, jid: str, at: int, size: int, stream: str, text: str) -> bool:
        """Accept a chunk of a running job's output; return False if not now. Never raises.

        Args:
            jid: the job.
            at: bytes that the job printed before this chunk.
            size: bytes of this chunk.
            stream: "stdout" or "stderr".
            text: this chunk, decoded.
        """

    def peer(self, call: PeerCall) -> Any:
        """Return what a call through the master returns."""

    def push(self, part: FilePush) -> object:
        """Send one piece of a file to the master, and return when it is stored."""

    def grains(self, grains: Mapping[str, Any]) -> bool:
        """Accept newly collected grains, for later jobs and the master."""

    def running(self) -> List[Dict[str, Any]]:
        """Return running and queued jobs in the form of saltutil.running."""

    def signal(self, jid: str, signal: int) -> str:
        """Signal a job's process tree (or drop it from the queue); return a sentence."""

    def moving(self) -> ContextManager[Callable[[], None]]:
        """Yield a function for a copy of this process to reach the agent from another root."""


class BaseHost:
    """What all hosts share: folders, boot, armed reboot, custom files.

    Args:
        place: the agent's home.
        files: file server, for custom files.
        clock: the time.
    """

    def __init__(self, place: AgentHome, files: FileClient, clock: Optional[Clock] = None) -> None:
        self.place = place
        self.files = files
        self.clock = clock or SystemClock()
        #: Set by the executor if events need not be stored one by one, because it calls `settle`
        #: before the job's outcome is stored.
        self.hasty = False
        #: Set by the runtime while a chunk runs; otherwise arm_reboot is refused.
        self.chunk_open = False
        self.armed: Optional[RebootRequest] = None
        #: Whether the job was cancelled; set by the process that runs the job. A shutdown of the
        #: host is not a cancellation: the chain continues after the boot.
        self.cancelled: Callable[[], bool] = _never
        #: Request for the agent, sent with the return.
        self.after: Optional[After] = None
        #: Chain id -> epoch, for each chain that the job has worked on.
        self.epochs: Dict[str, int] = {}
        self._muted = False
        #: Whether the next command's output may be shown while it runs.
        self._shows = False
        self._meter = Meter()

    def settle(self) -> None:
        """Do nothing: events are stored one by one here."""

    @property
    def conf_dir(self) -> Path:
        """Folder of the configuration file."""
        return self.place.conf_dir

    @property
    def cache_dir(self) -> Path:
        """Private folder for everything that is kept between runs."""
        return self.place.cache_dir

    def boot_id(self) -> str:
        """Return the id of the running boot (config `boot_id_file`)."""
        return read_boot_id(self.place.settings.boot_id_file)

    def agent_session(self) -> str:
        """Return the id of the agent process that started this job, or ""."""
        return self.place.session

    def arm_reboot(self, request: RebootRequest) -> bool:
        """Record *request* for the end of the running chunk; return False if none is running."""
        if not self.chunk_open:
            return False
        self.armed = request
        return True

    def reboot_command(self) -> List[str]:
        """Return the configured argv, or that of the first available reboot tool.

        Raises:
            InvalidStateError: nothing is configured and no tool is available.
        """
        if self.place.settings.reboot_command:
            return list(self.place.settings.reboot_command)
        for command in REBOOT_COMMANDS:
            import shutil

            found = shutil.which(command[0], path=f"{os.defpath}:/sbin:/usr/sbin")
            if found:
                return [found, *command[1:]]
        raise InvalidStateError("found no command that reboots this host; set reboot_command")

    @contextmanager
    def moving(self) -> Iterator[Callable[[], None]]:
        """Yield a function that a copy of the job's process calls after entering another root.

        The copy reports no progress, because it cannot number it.
        """

        def moved() -> None:
            self._muted = True

        yield moved

    def progress(self, kind: str, data: Dict[str, Any]) -> None:
        """Drop a step; subclasses report it."""

    def show_output(self) -> None:
        """Let the next command's output be shown while it runs; the return contains it anyway."""
        self._shows = True

    def listen(self) -> Optional[OutputTap]:
        """Return None: no master receives output."""
        return None

    def _tap(self, send: Send) -> Optional[OutputTap]:
        """Return a tap that passes the next command's output to *send*, if it may be shown."""
        shows, self._shows = self._shows, False
        if self._muted or not shows:
            return None
        return CommandTap(self._meter, send, now=self.clock.monotonic)

    def ask_master(self, call: PeerCall) -> Any:
        """Refuse: this host has no connection to a master.

        Raises:
            UnreachableError: always.
        """
        raise UnreachableError(f"{call.kind.value} {call.fun} needs a connection to the master")

    def push(self, path: str, source: Path) -> None:
        """Refuse: this host has no connection to a master.

        Raises:
            UnreachableError: always.
        """
        raise UnreachableError(f"sending {source} needs a connection to the master")

    def collect_grains(self) -> Dict[str, Any]:
        """Collect grains now and return them."""
        return collect(grain_sources(self.place))

    def sync(
        self,
        kind: str,
        saltenv: str = "base",
        only: Optional[Sequence[str]] = None,
        never: Sequence[str] = (),
    ) -> List[str]:
        """Fetch custom files of *kind*; return the names of new and changed ones."""
        extmods = self.place.cache_dir / "extmods"
        return sync_files(self.files, extmods, kind, saltenv, only, never)


class RemoteHost(BaseHost):
    """A host under an agent; *service* provides what only the daemon or the master can do.

    Args:
        place: the agent's home.
        files: the master's files.
        service: the agent.
        spec: the job that runs; its progress is numbered from 1.
        clock: the time.
    """

    def __init__(
        self,
        place: AgentHome,
        files: FileClient,
        service: AgentService,
        spec: JobSpec,
        clock: Optional[Clock] = None,
    ) -> None:
        super().__init__(place, files, clock)
        self._service = service
        self._spec = spec
        self._seq = 0
        #: Whether an event was sent that may not be stored yet.
        self._unsettled = False

    def compile_pillar(
        self, override: Optional[Mapping[str, Any]] = None, pillarenv: str = ""
    ) -> Dict[str, Any]:
        """Return newly compiled pillar from the master.

        Raises:
            PillarError: a pillar file has errors.
            UnreachableError: there is no connection to the master.
        """
        settings = self.place.settings
        pillar, errors = self._service.pillar(
            settings.saltenv, pillarenv or settings.effective_pillarenv(), dict(override or {})
        )
        if errors:
            raise PillarError(errors, pillar)
        return pillar

    def job_pillar(self) -> Dict[str, Any]:
        """Return the pillar that a job begins with; see compile_pillar."""
        return self.compile_pillar()

    def collect_grains(self) -> Dict[str, Any]:
        """Collect grains now and return them; the agent stores and sends them."""
        grains = super().collect_grains()
        self._service.grains(grains)
        return grains

    def fire(self, tag: str, data: Mapping[str, Any]) -> bool:
        """Send an event to the master."""
        if not self.hasty:
            return self._service.fire(tag, data)
        self._unsettled = True
        self._service.hand_over(tag, data)
        return True

    def settle(self) -> None:
        """Wait until all sent events are stored.

        Raises:
            CatenaError: an event cannot be stored.
        """
        if self._unsettled:
            self._unsettled = False
            self._service.settle()

    def progress(self, kind: str, data: Dict[str, Any]) -> None:
        """Report a step of the running job to its watchers."""
        if self._muted:
            return
        self._seq += 1
        when = self.clock.now().timestamp()
        self._service.progress(JobProgress(self._spec.jid, self._seq, kind, data, when))

    def listen(self) -> Optional[OutputTap]:
        """Return a tap that sends the next command's output to the master while it runs."""
        return self._tap(self._print)

    def _print(self, at: int, size: int, stream: str, text: str) -> bool:
        return self._service.output(self._spec.jid, at, size, stream, text)

    @contextmanager
    def moving(self) -> Iterator[Callable[[], None]]:
        """Yield a function that a copy of the job's process calls after entering another root."""
        with super().moving() as muted, self._service.moving() as reached:

            def moved() -> None:
                muted()
                reached()

            yield moved

    def ask_master(self, call: PeerCall) -> Any:
        """Return what a call through the master returns."""
        self.settle()
        return self._service.peer(call)

    def push(self, path: str, source: Path) -> None:
        """Send a file to this minion's folder on the master, piece by piece.

        Raises:
            NotAllowedError: the master accepts no files.
            LimitError: the file is too large.
        """
        from catena.runtime.pushed_file import pieces

        for part in pieces(path, source):
            self._service.push(part)

    def running(self) -> List[Dict[str, Any]]:
        """Return the agent's running and queued jobs."""
        return self._service.running()

    def signal_job(self, jid: str, signal: int) -> str:
        """Send a signal to a job's process tree."""
        return self._service.signal(jid, signal)


#: (override, environment, pillar seen by the pillar files) -> (pillar, errors).
PillarCompiler = Callable[..., Tuple[Dict[str, Any], Tuple[str, ...]]]


class LocalHost(BaseHost):
    """A host without an agent: local roots, no events, no other jobs.

    Args:
        place: has the configuration and the cache.
        files: the local roots.
        pillar: compiles pillar from the local roots.
        watch: called with each step, for a live view; None: no view.
        clock: the time.
    """

    def __init__(
        self,
        place: AgentHome,
        files: FileClient,
        pillar: PillarCompiler,
        watch: Optional[Callable[[str, Dict[str, Any]], None]] = None,
        clock: Optional[Clock] = None,
    ) -> None:
        super().__init__(place, files, clock)
        self._pillar = pillar
        self._watch = watch
        self._first: Optional[Tuple[Dict[str, Any], Tuple[str, ...]]] = None

    def compile_pillar(
        self, override: Optional[Mapping[str, Any]] = None, pillarenv: str = ""
    ) -> Dict[str, Any]:
        """Return pillar compiled from the local roots.

        Raises:
            PillarError: a pillar file has errors.
        """
        # Pillar files that read pillar see the result of a first compilation, as in Salt.
        seen = self._first or self._compiled_first()
        pillar, errors = self._pillar(dict(override or {}), pillarenv, seen[0])
        if errors:
            raise PillarError(errors, pillar)
        return pillar

    def job_pillar(self) -> Dict[str, Any]:
        """Return the pillar that a job begins with.

        Raises:
            PillarError: a pillar file has errors.
        """
        pillar, errors = self._first or self._compiled_first()
        if errors:
            raise PillarError(errors, pillar)
        return pillar

    def _compiled_first(self) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
        self._first = self._pillar({}, "", {})
        return self._first

    def fire(self, tag: str, data: Mapping[str, Any]) -> bool:
        """Return False: there is no master."""
        return False

    def progress(self, kind: str, data: Dict[str, Any]) -> None:
        """Show a step in the live view."""
        if self._watch:
            self._watch(kind, data)

    def running(self) -> List[Dict[str, Any]]:
        """Return an empty list: there are no other jobs."""
        return []

    def signal_job(self, jid: str, signal: int) -> str:
        """Return a sentence that there is no such job."""
        return f"no job {jid} runs here"
