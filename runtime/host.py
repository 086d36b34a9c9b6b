"""The two hosts that a function may find itself on: under an agent, or in `catena call --local`.

A host is what `core.context.Host` promises. `RemoteHost` asks the agent that started the job
(`AgentService`, in the daemon: a unix socket); `LocalHost` has nobody to ask. Both keep the one
thing that a chain needs at its end: what has to happen to the host or the agent after the job's
return is safe (`After`).
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import (
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
from catena.core.errors import InvalidStateError, PillarError
from catena.core.frozen import dataclass, field
from catena.core.job import JobProgress, JobSpec
from catena.runtime.custom_files import sync_files
from catena.runtime.grains.collect import GrainSources, collect
from catena.runtime.output_tap import CommandTap, Meter

#: What reboots a host when the configuration names nothing, in the order of trust.
REBOOT_COMMANDS: Tuple[Tuple[str, ...], ...] = (
    ("systemctl", "reboot"),
    ("shutdown", "-r", "now"),
    ("reboot",),
)


@dataclass(frozen=True)
class Place:
    """Where an agent lives on its host, and who it is."""

    settings: MinionSettings
    id: str
    machine_id: str
    #: Folder of the configuration file; minion.d and the static grains file lie in it.
    conf_dir: Path
    #: Private folder for everything that is kept between runs (root_dir already applied).
    cache_dir: Path
    #: Keys; the key of the resume file lies here too.
    pki_dir: Path
    #: Grains as the agent last collected them; None: collected when a session opens.
    grains: Optional[Mapping[str, Any]] = None
    #: Random id of the agent process; "" outside a daemon.
    session: str = ""
    #: Options of modules (dotted keys) and free keys, as the configuration gave them.
    module_options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def extmods(self) -> Path:
        """Folder of this host's custom files, with a folder for each kind."""
        return self.cache_dir / "extmods"

    @cached_property
    def named_settings(self) -> Mapping[str, Any]:
        """What `options` gives to each job of a process."""
        return _named_settings(self)


def options(place: Place) -> Dict[str, Any]:
    """Return the settings of *place* under the names that Salt's code reads (`__opts__`)."""
    return dict(place.named_settings)


def _named_settings(place: Place) -> Dict[str, Any]:
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
            # Many formulas ask which of Salt's programs runs them before they merge a tree.
            "__cli": "salt-minion" if place.session else "salt-call",
            "hash_type": "sha256",
        }
    )
    return opts


def grain_sources(place: Place) -> GrainSources:
    """Return where the grains of *place* come from."""
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
    #: What this chain asked for before is not to be done any more.
    call_off = "call_off"


@dataclass(frozen=True)
class After:
    """Asked of the agent by a chunk that ended well; done once its return is in the outbox.

    Taken back by `call_off`, of the same chain, when the chain is given up.
    """

    kind: AfterKind
    chain_id: int
    #: How long to wait from then on (Salt's at_time), seconds.
    delay_seconds: int = 0
    #: What to run for a reboot.
    command: Tuple[str, ...] = ()
    #: A reboot is only to be done in this boot, an agent restart only in this agent process:
    #: when the agent finds itself in another, it is done already.
    boot_id: str = ""
    session: str = ""


def _never() -> bool:
    return False


class AgentService(Protocol):
    """What the agent does for a job process; in the daemon, behind its unix socket."""

    def pillar(
        self, saltenv: str, pillarenv: str, override: Mapping[str, Any]
    ) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
        """Return (pillar, errors) fresh from the master; raise UnreachableError without one."""

    def fire(self, tag: str, data: Mapping[str, Any]) -> bool:
        """Take an event for the master (kept until stored); False where there is no master."""

    def hand_over(self, tag: str, data: Mapping[str, Any]) -> None:
        """Take an event for the master; it is kept when `settle` returns."""

    def settle(self) -> None:
        """Return when all that was handed over is kept; raise why it can't be."""

    def progress(self, progress: JobProgress) -> None:
        """Take one step of the running job. Must not block and must not raise."""

    def output(self, jid: str, at: int, size: int, stream: str, text: str) -> bool:
        """Take a part of what the running job prints; False: not now. Must not raise.

        Args:
            jid: the job.
            at: bytes that the job printed before this part.
            size: bytes of this part.
            stream: "stdout" or "stderr".
            text: this part, decoded.
        """

    def grains(self, grains: Mapping[str, Any]) -> bool:
        """Take grains collected anew: keep them for the next jobs, tell the master."""

    def running(self) -> List[Dict[str, Any]]:
        """Return running and queued jobs as saltutil.running prints them."""

    def signal(self, jid: str, signal: int) -> str:
        """Signal a job's process tree (or drop it from the queue); return a sentence."""

    def moving(self) -> ContextManager[Callable[[], None]]:
        """Yield what a copy of this process calls to reach the agent from another root."""


class BaseHost:
    """What both hosts share: folders, boot, armed reboot, custom files.

    Args:
        place: where the agent lives.
        files: file server, for custom files.
        clock: the time.
    """

    def __init__(self, place: Place, files: FileClient, clock: Optional[Clock] = None) -> None:
        self.place = place
        self.files = files
        self.clock = clock or SystemClock()
        #: Set by the executor: events need not be kept one by one, since `settle` is called before
        #: the job's outcome is.
        self.hasty = False
        #: Set by the runtime while a chunk runs; arm_reboot is refused otherwise.
        self.chunk_open = False
        self.armed: Optional[RebootRequest] = None
        #: Whether somebody called the job off; set by who runs the job process. A host that is
        #: shutting down is no reason: the chain goes on after the boot.
        self.cancelled: Callable[[], bool] = _never
        #: What the executor hands to the agent beside the return.
        self.after: Optional[After] = None
        #: Epoch of each chain that the job has worked on, by its id.
        self.epochs: Dict[str, int] = {}
        self._muted = False
        #: Whether the next command's output may be seen while it runs.
        self._shows = False

    def settle(self) -> None:
        """Wait until each event that was sent is kept; there is none on its way here."""

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
        """Keep *request* for the end of the running chunk; False where no chunk runs."""
        if not self.chunk_open:
            return False
        self.armed = request
        return True

    def reboot_command(self) -> List[str]:
        """Return the configured argv, or the first tool of this host that reboots.

        Raises:
            InvalidStateError: nothing is configured and none of the tools is there.
        """
        if self.place.settings.reboot_command:
            return list(self.place.settings.reboot_command)
        for command in REBOOT_COMMANDS:
            import shutil

            found = shutil.which(command[0], path=f"{os.defpath}:/sbin:/usr/sbin")
            if found:
                return [found, *command[1:]]
        raise InvalidStateError("nothing on this host reboots it; set reboot_command")

    @contextmanager
    def moving(self) -> Iterator[Callable[[], None]]:
        """Yield what a copy of the job's process calls once it has entered another root.

        The copy reports no progress: it can't number it.
        """

        def moved() -> None:
            self._muted = True

        yield moved

    def progress(self, kind: str, data: Dict[str, Any]) -> None:
        """Tell nobody of a step; both kinds of host know better."""

    def show_output(self) -> None:
        """Let the next command's output be seen while it runs: it is in the job's return."""
        self._shows = True

    def listen(self) -> Optional[OutputTap]:
        """Return None: there is no master that takes output."""
        return None

    def collect_grains(self) -> Dict[str, Any]:
        """Return grains collected now."""
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
    """A host under an agent: what only the daemon or the master can do is asked of *service*.

    Args:
        place: where the agent lives.
        files: the master's files.
        service: the agent.
        spec: the job that runs; its progress is numbered from 1.
        clock: the time.
    """

    def __init__(
        self,
        place: Place,
        files: FileClient,
        service: AgentService,
        spec: JobSpec,
        clock: Optional[Clock] = None,
    ) -> None:
        super().__init__(place, files, clock)
        self._service = service
        self._spec = spec
        self._seq = 0
        self._meter = Meter()
        #: Whether an event was sent that nobody has said is kept.
        self._unsettled = False

    def compile_pillar(
        self, override: Optional[Mapping[str, Any]] = None, pillarenv: str = ""
    ) -> Dict[str, Any]:
        """Return fresh pillar from the master.

        Raises:
            PillarError: a pillar file has errors.
            UnreachableError: there is no master to ask.
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
        """Return grains collected now, which the agent keeps and the master learns."""
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
        """Wait until each event that was sent is kept.

        Raises:
            CatenaError: one can't be kept.
        """
        if self._unsettled:
            self._unsettled = False
            self._service.settle()

    def progress(self, kind: str, data: Dict[str, Any]) -> None:
        """Tell whoever watches the running job of one step."""
        if self._muted:
            return
        self._seq += 1
        when = self.clock.now().timestamp()
        self._service.progress(JobProgress(self._spec.jid, self._seq, kind, data, when))

    def listen(self) -> Optional[OutputTap]:
        """Return what sends the next command's output to the master while it runs."""
        shows, self._shows = self._shows, False
        if self._muted or not shows:
            return None
        return CommandTap(self._meter, self._print)

    def _print(self, at: int, size: int, stream: str, text: str) -> bool:
        return self._service.output(self._spec.jid, at, size, stream, text)

    @contextmanager
    def moving(self) -> Iterator[Callable[[], None]]:
        """Yield what a copy of the job's process calls once it has entered another root."""
        with super().moving() as muted, self._service.moving() as reached:

            def moved() -> None:
                muted()
                reached()

            yield moved

    def running(self) -> List[Dict[str, Any]]:
        """Return the agent's running and queued jobs."""
        return self._service.running()

    def signal_job(self, jid: str, signal: int) -> str:
        """Send a signal to a job's process tree."""
        return self._service.signal(jid, signal)


#: (override, environment, what files that ask for pillar see) -> (pillar, errors).
PillarCompiler = Callable[..., Tuple[Dict[str, Any], Tuple[str, ...]]]


class LocalHost(BaseHost):
    """A host without an agent: local roots, no events, no other jobs.

    Args:
        place: where the configuration and the cache are.
        files: the local roots.
        pillar: compiles pillar from the local roots.
        watch: told of each step, for a live view; None: nobody watches.
        clock: the time.
    """

    def __init__(
        self,
        place: Place,
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
        # Files that ask for pillar see what was compiled first, as in Salt.
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
        """Show one step to the watcher."""
        if self._watch:
            self._watch(kind, data)

    def running(self) -> List[Dict[str, Any]]:
        """Return no jobs."""
        return []

    def signal_job(self, jid: str, signal: int) -> str:
        """Say that there is no such job."""
        return f"no job {jid} runs here"
