"""A target seen from here: its grains, its pillar, our files, its functions over the channel.

`TargetSession` is the context in which everything of one job on one target is compiled. Templates,
top files and state functions are the same code as on a minion; they only meet other registries:
what a function needs decides where it runs (`ssh.push.functions`).
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
from catena.runtime.host import LocalHost, Place, options
from catena.runtime.loader import CustomRegistry, Loader
from catena.runtime.master_session import master_session
from catena.runtime.push.protocol import Fault, Identity, Welcome
from catena.runtime.session import LazyMapping, Session, execution_index
from catena.ssh.connect.cache import cache_of
from catena.ssh.connect.target import Target
from catena.ssh.push.custom_names import CustomNames
from catena.ssh.push.functions import Remote, TargetRegistry
from catena.ssh.push.roots import Shipment, custom_files

Told = Callable[[str, dict[str, Any]], None]

#: What templates see of this master's options, under Salt's name: public formulas tell by it that
#: they are rendered for a host that SSH reaches. Nothing else of them is a host's to know.
MASTER_FACTS: Mapping[str, str] = {"__cli": "salt-ssh"}


@dataclass(frozen=True)
class Seat:
    """Who a target is, and what of this master serves it."""

    target: Target
    settings: MasterSettings
    identity: Identity
    #: This master's files.
    files: FileClient
    #: Custom files of the environments that count, which the target has.
    custom: Shipment
    #: Files that go with every run, whether it names them or not.
    ahead: Shipment = field(default_factory=Shipment)


def seat_of(
    target: Target,
    settings: MasterSettings,
    saltenv: str = "",
    own_files: Mapping[str, Path] | None = None,
    extra_roots: Sequence[str] = (),
) -> Seat:
    """Return what is known of a target before it is asked anything.

    Args:
        target: of the roster.
        settings: roots and renderers.
        saltenv: environment of the job, "" for the target's own.
        own_files: path below the roots -> file of this host, which this target alone sees in the
            environment base. They are there before anything runs.
        extra_roots: folders that every environment has after its own.
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
    ahead = Shipment()
    for path in own_files or ():
        ahead.add_file(files, path, "base")
    environments = dict.fromkeys((saltenv or str(own.get("saltenv") or "base"), "base"))
    wanted = [env for env in environments if env in (*files.environments(), "base")]
    identity = Identity(target.id, {**own, "id": target.id, "file_client": "local"})
    return Seat(target, settings, identity, files, custom_files(files, wanted), ahead)


class TargetHost(LocalHost):
    """The host of a session here: what it says of itself was asked of the target.

    Args:
        place: folders and settings, as they are on the target.
        files: this master's.
        pillar: compiles the target's.
        watch: told of each step.
        welcome: what the target said.
        cache: private folder here, for compiled templates.
        grains: collects the target's grains anew.
    """

    def __init__(
        self,
        place: Place,
        files: FileClient,
        pillar: Any,
        watch: Told,
        welcome: Welcome,
        cache: Path,
        grains: Callable[[], dict[str, Any]],
    ) -> None:
        super().__init__(place, files, pillar, watch)
        self._welcome = welcome
        self._cache = cache
        self._collect = grains

    @property
    def cache_dir(self) -> Path:
        """Private folder here: nothing of a compilation is written on the target."""
        return self._cache

    def boot_id(self) -> str:
        """Return the boot in which the target greeted."""
        return self._welcome.boot_id

    def collect_grains(self) -> dict[str, Any]:
        """Return the target's grains, collected now."""
        return self._collect()

    def sync(
        self, kind: str, saltenv: str = "base", only: Any = None, never: Any = ()
    ) -> list[str]:
        """Return nothing changed: a target's custom files are what the roots say, always."""
        return []


def session_for(
    seat: Seat,
    welcome: Welcome,
    grains: dict[str, Any],
    remote: Remote,
    running: Running,
    *,
    spec: JobSpec,
    watch: Told,
    collect: Callable[[], dict[str, Any]],
) -> Session:
    """Return the session in which *spec* is compiled, or answered, for a target.

    Args:
        seat: the target.
        welcome: what its program said.
        grains: of the target.
        remote: calls its functions.
        running: runs compiled states there.
        spec: the job.
        watch: told of each step.
        collect: collects grains anew.

    Raises:
        ConfigError: the roster's minion_opts can't be used.
    """
    place = _place(seat, welcome, grains)
    cache = cache_of(seat.settings)
    pillar = _pillar_of(seat, grains)
    host = TargetHost(place, seat.files, pillar, watch, welcome, cache, collect)
    context = _context(seat, host, remote, spec).with_(running=running)
    return Session(context, host)


def _context(seat: Seat, host: TargetHost, remote: Remote, spec: JobSpec) -> Context:
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


def _place(seat: Seat, welcome: Welcome, grains: dict[str, Any]) -> Place:
    """Return where the target lives, in its own folders (`runtime.push.host_folder`)."""
    settings, loaded = load(MinionSettings, seat.identity.settings, SALT_KEYS)
    own = Path(welcome.room) / "hosts" / seat.target.id
    return Place(
        settings=settings,
        id=seat.target.id,
        machine_id=settings.machine_id or welcome.machine_id,
        conf_dir=own / "conf",
        cache_dir=own / "cache",
        pki_dir=own / "pki",
        grains=grains,
        module_options=loaded.module_options,
    )


def _registry(seat: Seat, remote: Remote, kind: str, cache: Path) -> TargetRegistry:
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
    """Return the loader of `_renderers`: the one kind of custom file that runs here."""
    folder = private_folder(private_folder(cache) / "extmods")
    for saltenv in seat.custom.entries:
        if any(path.startswith("_renderers/") for path in seat.custom.entries[saltenv]):
            sync_files(seat.files, folder, "renderers", saltenv)
    return Loader(folder)


def _pillar_of(seat: Seat, grains: Mapping[str, Any]) -> Any:
    """Return what compiles the pillar of a target: by its id, from this master's roots."""
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
    """A function of the target raised an error that is none of catena's own."""


_PYTHONS = {
    one.__name__: one for one in (KeyError, ValueError, TypeError, AttributeError, OSError)
}


def raised(fault: Fault) -> Exception:
    """Return the error that a fault of the target was there."""
    found = getattr(core_errors, fault.kind, None)
    if isinstance(found, type) and issubclass(found, CatenaError):
        try:
            return found(fault.text)
        except TypeError:
            return CommandExecutionError(fault.text)
    if fault.kind in _PYTHONS:
        return _PYTHONS[fault.kind](fault.text)
    return RemoteFaultError(fault.told or fault.text)
