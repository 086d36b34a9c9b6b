"""The session of one job: its registries, files, grains, pillar and host.

A job process of the agent uses `remote_session`; `catena call --local` and `once` use
`local_session`. Pillar is compiled on first use, so a job that does not use pillar costs the
master nothing.
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
    AgentHome,
    AgentService,
    BaseHost,
    LocalHost,
    PillarCompiler,
    RemoteHost,
    options,
)
from catena.runtime.loader import CustomRegistry, Loader
from catena.states import functions as state_functions

__all__ = [
    "After",
    "AfterKind",
    "AgentHome",
    "AgentService",
    "BaseHost",
    "JobSession",
    "LocalHost",
    "RemoteHost",
    "execution_index",
    "execution_registry",
    "local_session",
    "options",
    "remote_session",
    "session_on",
    "state_registry",
]


class LazyMapping(Mapping[str, Any]):
    """A mapping that is loaded on its first use."""

    def __init__(self, load: Callable[[], Mapping[str, Any]]) -> None:
        self._load = load
        self._data: Optional[Mapping[str, Any]] = None

    def _get(self) -> Mapping[str, Any]:
        if self._data is None:
            # Templates of a local pillar may call any function, even during a state in test mode.
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
class JobSession:
    """The context of one job and the host that it runs on."""

    context: Context
    host: BaseHost
    #: Loader of this host's custom files; None if the job is compiled for another host.
    loader: Optional[Loader] = None

    @property
    def own_code_only(self) -> bool:
        """Whether no custom file is loaded and no custom grains exist, which may load any time."""
        loader = self.loader
        return loader is not None and loader.untouched and not loader.files("grains")


def remote_session(
    place: AgentHome,
    spec: JobSpec,
    service: AgentService,
    files: FileClient,
    clock: Optional[Clock] = None,
) -> JobSession:
    """Return the session of *spec* in a job process of an agent.

    Args:
        place: the agent's folders, settings and grains.
        spec: the job.
        service: client of the agent's socket.
        files: the master's files (`fileserver.remote.CachingClient`).
        clock: source of the time; the system clock by default.
    """
    return session_on(RemoteHost(place, files, service, spec, clock), spec)


def local_session(
    place: AgentHome,
    files: FileClient,
    pillar: PillarCompiler,
    spec: Optional[JobSpec] = None,
    watch: Optional[Callable[[str, Dict[str, Any]], None]] = None,
) -> JobSession:
    """Return a session that needs no agent and no master.

    Args:
        place: configuration and folders.
        files: the local roots (`fileserver.roots.RootsClient`).
        pillar: compiles pillar; called on its first use.
        spec: the job; None outside a job.
        watch: called with the kind and data of each progress step.
    """
    alone = frozen.replace(place, settings=frozen.replace(place.settings, file_client="local"))
    return session_on(LocalHost(alone, files, pillar, watch), spec)


def execution_index() -> Dict[str, str]:
    """Return the Python module of each built-in execution module, by name before the dot."""
    return {**modules.INDEX, **state_functions.INDEX, **runtime_functions.INDEX}


def execution_registry() -> Registry:
    """Return the built-in execution functions, without any host's custom files; for docs."""
    return Registry("function", execution_index(), FunctionMark)


def state_registry() -> Registry:
    """Return the built-in state functions, without any host's custom files; for docs."""
    return Registry("state", states.INDEX, StateMark)


def session_on(
    host: Any, spec: Optional[JobSpec], rendering: Optional[Rendering] = None
) -> JobSession:
    """Return the session of *spec* on a host of any kind.

    Args:
        host: a `core.context.Host` with `place`, `files` and `job_pillar`.
        spec: the job; None outside a job.
        rendering: renders templates for the host; None: the host renders them itself.
    """
    place: AgentHome = host.place
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
    return JobSession(context, host, loader)
