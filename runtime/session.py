"""Everything that one job needs, put together: registries, files, grains, pillar, host.

`remote_session` is for a job process of the agent, `local_session` for `catena call --local` and
`once`. Pillar is compiled on its first use, so that a job that looks at none costs the master
nothing.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Mapping, Optional

from catena import modules, states
from catena.core import frozen
from catena.core.clock import Clock
from catena.core.context import Context, FileClient, Rendering
from catena.core.dry_run import unguarded
from catena.core.frozen import dataclass
from catena.core.job import JobSpec
from catena.core.plugins import FunctionMark, Registry, StateMark
from catena.runtime import functions as runtime_functions
from catena.runtime.host import (
    After,
    AfterKind,
    AgentService,
    BaseHost,
    LocalHost,
    PillarCompiler,
    Place,
    RemoteHost,
    options,
)
from catena.runtime.loader import CustomRegistry, Loader
from catena.states import functions as state_functions

__all__ = [
    "After",
    "AfterKind",
    "AgentService",
    "BaseHost",
    "LocalHost",
    "Place",
    "RemoteHost",
    "Session",
    "execution_index",
    "execution_registry",
    "local_session",
    "options",
    "remote_session",
    "session_on",
    "state_registry",
]


class LazyMapping(Mapping[str, Any]):
    """A mapping that is loaded when it is first looked into."""

    def __init__(self, load: Callable[[], Mapping[str, Any]]) -> None:
        self._load = load
        self._data: Optional[Mapping[str, Any]] = None

    def _get(self) -> Mapping[str, Any]:
        if self._data is None:
            # Templates of a local pillar call what they like, also below a state in test mode.
            with unguarded():
                self._data = self._load()
        return self._data

    def __getitem__(self, key: str) -> Any:
        return self._get()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._get())

    def __len__(self) -> int:
        return len(self._get())

    def __repr__(self) -> str:
        return repr(dict(self._get()))


@dataclass(frozen=True)
class Session:
    """One job's context and the host that it runs on."""

    context: Context
    host: BaseHost
    #: Of this host's custom files; None where the job is compiled for another host.
    loader: Optional[Loader] = None

    @property
    def own_code_only(self) -> bool:
        """Whether this job has loaded no custom file; custom grains may be at any time."""
        loader = self.loader
        return loader is not None and loader.untouched and not loader.files("grains")


def remote_session(
    place: Place,
    spec: JobSpec,
    service: AgentService,
    files: FileClient,
    clock: Optional[Clock] = None,
) -> Session:
    """Return the session of *spec* in a job process of an agent.

    Args:
        place: where the agent lives; its grains are the agent's.
        spec: the job.
        service: the agent, behind its socket.
        files: the master's files (`fileserver.remote.CachingClient`).
        clock: the time; the system's by default.
    """
    return session_on(RemoteHost(place, files, service, spec, clock), spec)


def local_session(
    place: Place,
    files: FileClient,
    pillar: PillarCompiler,
    spec: Optional[JobSpec] = None,
    watch: Optional[Callable[[str, Dict[str, Any]], None]] = None,
) -> Session:
    """Return a session that needs no agent and no master.

    Args:
        place: configuration and folders.
        files: the local roots (`fileserver.roots.RootsClient`).
        pillar: compiles pillar; called on the first use.
        spec: the job, where there is one.
        watch: told of each step of progress.
    """
    alone = frozen.replace(place, settings=frozen.replace(place.settings, file_client="local"))
    return session_on(LocalHost(alone, files, pillar, watch), spec)


def execution_index() -> Dict[str, str]:
    """Return where the built-in execution modules are, by name."""
    return {**modules.INDEX, **state_functions.INDEX, **runtime_functions.INDEX}


def execution_registry() -> Registry:
    """Return the built-in execution functions, without any host's custom files; for docs."""
    return Registry("function", execution_index(), FunctionMark)


def state_registry() -> Registry:
    """Return the built-in state functions, without any host's custom files; for docs."""
    return Registry("state", states.INDEX, StateMark)


def session_on(
    host: Any, spec: Optional[JobSpec], rendering: Optional[Rendering] = None
) -> Session:
    """Return the session of *spec* on a host of any kind.

    Args:
        host: what `core.context.Host` promises, with `place`, `files` and `job_pillar`.
        spec: the job, where there is one.
        rendering: who renders for the host; None: it does so itself.
    """
    place: Place = host.place
    settings = place.settings
    loader = Loader(place.extmods)
    context = Context(
        opts=options(place),
        grains=dict(place.grains if place.grains is not None else host.collect_grains()),
        pillar=LazyMapping(host.job_pillar),
        functions=CustomRegistry("function", execution_index(), FunctionMark, loader, "modules"),
        states=CustomRegistry("state", states.INDEX, StateMark, loader, "states"),
        renderers=CustomRegistry("renderer", {}, FunctionMark, loader, "renderers"),
        files=host.files,
        host=host,
        job=spec,
        test=settings.test,
        saltenv=settings.saltenv or "base",
        rendering=rendering,
    )
    loader.bind(context)
    return Session(context, host, loader)
