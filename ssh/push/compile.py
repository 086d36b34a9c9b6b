"""The context for a target on the master: grains, pillar, files, and functions over the channel.

One job on one target is compiled in this context. Templates, top files and state functions are the
same code as on a minion, with other registries: `ssh.push.functions` decides where a function
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from catena import states
from catena.core import errors as core_errors
from catena.core.config.master import MasterSettings
from catena.core.config.minion import SALT_KEYS, MinionSettings
from catena.core.config.schema import load
from catena.core.context import Context, FileClient, Running
from catena.core.errors import CatenaError, CommandExecutionError
from catena.core.files import private_folder
from catena.core.frozen import dataclass, field
from catena.core.job import JobSpec
from catena.core.plugins import FunctionMark, StateMark
from catena.fileserver.index import RootOptions
from catena.fileserver.overlay import OverlaidClient
from catena.fileserver.roots import RootsClient
from catena.pillar.compile import compile_pillar, settings_of
from catena.runtime.custom_files import sync_files
from catena.runtime.host import AgentHome, LocalHost, options
from catena.runtime.loader import CustomRegistry, Loader
from catena.runtime.master_session import master_session
from catena.runtime.push.protocol import Fault, HostIdentity, HostWelcome
from catena.runtime.session import JobSession, LazyMapping, execution_index
from catena.ssh.connect.cache import cache_of
from catena.ssh.connect.target import SshTarget
from catena.ssh.push.custom_names import CustomNames
from catena.ssh.push.functions import RemoteFunctions, TargetRegistry
from catena.ssh.push.roots import FileShipment, custom_files

Told = Callable[[str, dict[str, Any]], None]

#: The master's options that templates can read, with Salt's names. Public formulas use them to
#: detect a host over SSH. Other options must stay hidden from hosts.
MASTER_FACTS: Mapping[str, str] = {"__cli": "salt-ssh"}


@dataclass(frozen=True)
class Seat:
    """A target together with the master's files and settings for it."""

    target: SshTarget
    settings: MasterSettings
    identity: HostIdentity
    #: The master's file client.
    files: FileClient
    #: Custom files of the relevant environments, which are on the target.
    custom: FileShipment
    #: Files that are sent with every run, even if no state names them.
    ahead: FileShipment = field(default_factory=FileShipment)


def seat_of(
    target: SshTarget,
    settings: MasterSettings,
    saltenv: str = "",
    own_files: Mapping[str, Path] | None = None,
    extra_roots: Sequence[str] = (),
) -> Seat:
    """Return the seat of a target before the first contact.

    Args:
        target: of the roster.
        settings: roots and renderers.
        saltenv: environment of the job, "" for the target's own.
        own_files: by path below the roots: local file that only this target sees in the
            environment base. They are sent before anything runs.
        extra_roots: folders after the roots of every environment.
    """
    own = dict(target.minion_opts)
    roots = RootsClient(
        settings.file_roots,
        RootOptions.of(
            settings.fileserver_followsymlinks,
            settings.file_ignore_glob,
            settings.file_ignore_regex,
        ),
        extra_roots,
    )
    files: FileClient = OverlaidClient(roots, own_files) if own_files else roots
    ahead = FileShipment()
    for path in own_files or ():
        ahead.add_file(files, path, "base")
    environments = dict.fromkeys((saltenv or str(own.get("saltenv") or "base"), "base"))
    wanted = [env for env in environments if env in (*files.environments(), "base")]
    identity = HostIdentity(target.id, {**own, "id": target.id, "file_client": "local"})
    return Seat(target, settings, identity, files, custom_files(files, wanted), ahead)


class TargetHost(LocalHost):
    """The `Host` of a session on the master, with facts from the target.

    Args:
        place: folders and settings on the target.
        files: the master's file client.
        pillar: compiles the target's pillar.
        watch: receives each step.
        welcome: the greeting of the target's program.
        cache: private folder on the master for compiled templates.
        grains: collects the target's grains again.
    """

    def __init__(
        self,
        place: AgentHome,
        files: FileClient,
        pillar: Any,
        watch: Told,
        welcome: HostWelcome,
        cache: Path,
        grains: Callable[[], dict[str, Any]],
    ) -> None:
        super().__init__(place, files, pillar, watch)
        self._welcome = welcome
        self._cache = cache
        self._collect = grains

    @property
    def cache_dir(self) -> Path:
        """Private folder on the master: a compilation writes nothing on the target."""
        return self._cache

    def boot_id(self) -> str:
        """Return the boot id of the target at its greeting."""
        return self._welcome.boot_id

    def collect_grains(self) -> dict[str, Any]:
        """Collect the target's grains and return them."""
        return self._collect()

    def sync(
        self, kind: str, saltenv: str = "base", only: Any = None, never: Any = ()
    ) -> list[str]:
        """Return no changes: a target's custom files always equal the file roots."""
        return []


def session_for(
    seat: Seat,
    welcome: HostWelcome,
    grains: dict[str, Any],
    remote: RemoteFunctions,
    running: Running,
    *,
    spec: JobSpec,
    watch: Told,
    collect: Callable[[], dict[str, Any]],
) -> JobSession:
    """Return the session in which *spec* is compiled or answered for a target.

    Args:
        seat: the target.
        welcome: the greeting of its program.
        grains: of the target.
        remote: calls its functions.
        running: runs compiled states on the target.
        spec: the job.
        watch: receives each step.
        collect: collects grains again.

    Raises:
        ConfigError: the roster's minion_opts can't be used.
    """
    place = _place(seat, welcome, grains)
    cache = cache_of(seat.settings)
    pillar = _pillar_of(seat, grains)
    host = TargetHost(place, seat.files, pillar, watch, welcome, cache, collect)
    context = _context(seat, host, remote, spec).with_(running=running)
    return JobSession(context, host)


def _context(seat: Seat, host: TargetHost, remote: RemoteFunctions, spec: JobSpec) -> Context:
    place, cache = host.place, host.cache_dir
    renderers = _custom_renderers(seat, cache)
    context = Context(
        opts={**options(place), "__master_opts__": dict(MASTER_FACTS)},
        grains=dict(place.grains or {}),
        pillar=LazyMapping(host.job_pillar),
        functions=_registry(seat, remote, "function", cache),
        states=_registry(seat, remote, "state", cache),
        renderers=CustomRegistry("renderer", {}, FunctionMark, renderers, "renderers"),
        files=seat.files,
        host=host,
        job=spec,
        test=place.settings.test,
        saltenv=place.settings.saltenv or "base",
    )
    renderers.bind(context)
    return context


def _place(seat: Seat, welcome: HostWelcome, grains: dict[str, Any]) -> AgentHome:
    """Return the target's folders and settings (`runtime.push.host_folder`)."""
    settings, loaded = load(MinionSettings, seat.identity.settings, SALT_KEYS)
    own = Path(welcome.room) / "hosts" / seat.target.id
    return AgentHome(
        settings=settings,
        id=seat.target.id,
        machine_id=settings.machine_id or welcome.machine_id,
        conf_dir=own / "conf",
        cache_dir=own / "cache",
        pki_dir=own / "pki",
        grains=grains,
        module_options=loaded.module_options,
    )


def _registry(seat: Seat, remote: RemoteFunctions, kind: str, cache: Path) -> TargetRegistry:
    index = execution_index() if kind == "function" else states.INDEX
    mark = FunctionMark if kind == "function" else StateMark
    below = f"_{kind}s/" if kind == "state" else "_modules/"
    found: dict[str, Path] = {}
    for saltenv, entries in seat.custom.entries.items():
        for path in entries:
            if path.startswith(below):
                local = seat.files.fetch(path, saltenv)
                if local is not None:
                    found[path[len(below) :]] = local
    return TargetRegistry(kind, index, mark, remote, CustomNames(found), cache / "none")


def _custom_renderers(seat: Seat, cache: Path) -> Loader:
    """Return the loader of `_renderers`, the only custom files that run on the master."""
    folder = private_folder(private_folder(cache) / "extmods")
    for saltenv in seat.custom.entries:
        if any(path.startswith("_renderers/") for path in seat.custom.entries[saltenv]):
            sync_files(seat.files, folder, "renderers", saltenv)
    return Loader(folder)


def _pillar_of(seat: Seat, grains: Mapping[str, Any]) -> Any:
    """Return the compiler of a target's pillar, by its id, from the master's roots."""
    settings = seat.settings
    minion, _ = load(MinionSettings, seat.identity.settings, SALT_KEYS)

    def pillar(
        override: Mapping[str, Any], pillarenv: str = "", visible: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        context = master_session(
            settings, seat.target.id, grains, dict(settings.pillar_roots)
        ).context
        env = pillarenv or minion.effective_pillarenv()
        chosen = settings_of(settings, env, minion.state_top)
        found = compile_pillar(context, chosen, override, visible)
        return found.pillar, found.errors

    return pillar


class RemoteFaultError(CatenaError):
    """A function of the target raised an error that is no CatenaError."""


_PYTHONS = {
    one.__name__: one for one in (KeyError, ValueError, TypeError, AttributeError, OSError)
}


def raised(fault: Fault) -> Exception:
    """Return the exception that a function raised on the target."""
    found = getattr(core_errors, fault.kind, None)
    if isinstance(found, type) and issubclass(found, CatenaError):
        try:
            return found(fault.text)
        except TypeError:
            return CommandExecutionError(fault.text)
    if fault.kind in _PYTHONS:
        return _PYTHONS[fault.kind](fault.text)
    return RemoteFaultError(fault.told or fault.text)
