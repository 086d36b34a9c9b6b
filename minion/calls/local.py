"""`catena call`: run one function in this process, on this host.

With a master, files and pillar come through the running daemon, or over a separate connection if
none runs. With --local (or `file_client: local`, or no master) they come from local roots. A state
run is queued in the daemon, so that it never runs at the same time as another one.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

from catena.core import frozen
from catena.core.clock import SystemClock, read_boot_id
from catena.core.errors import CatenaError, NotAllowedError, UnreachableError
from catena.core.files import private_folder
from catena.core.frozen import dataclass
from catena.core.ids import JidFactory
from catena.core.job import FunctionCall, JobProgress, JobSpec
from catena.core.marks import QUEUED
from catena.fileserver.roots import RootsClient
from catena.minion.start import configure
from catena.minion.start.blob import SOCKET, StartData
from catena.minion.start.place import collect_grains, place_of
from catena.pillar.compile import compile_pillar, settings_of
from catena.runtime.executor import FinishedJob, execute
from catena.runtime.garbage import collect_rarely
from catena.runtime.host import After, AfterKind
from catena.runtime.results import NO_LIMIT
from catena.runtime.session import JobSession, local_session, remote_session

if TYPE_CHECKING:
    from catena.transport.local import LocalClient

#: Salt's default roots, if the configuration names none.
FILE_ROOTS = {"base": ["/srv/salt"]}
PILLAR_ROOTS = {"base": ["/srv/pillar"]}
#: Seconds between the return and a reboot, so that the answer can be printed.
_PRINT_SECONDS = 2.0

_NOTHING: Mapping[str, Any] = {}

Watch = Callable[[str, Dict[str, Any]], None]


@dataclass(frozen=True)
class _Call:
    """A call with the data found about it."""

    start: StartData
    spec: JobSpec
    #: Connection to the running daemon; None if none runs or none is wanted.
    daemon: Optional[LocalClient]


def call(
    config_dir: Path,
    fun: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    local: bool = False,
    file_root: Optional[str] = None,
    pillar_root: Optional[str] = None,
    watch: Optional[Watch] = None,
) -> FinishedJob:
    """Run *fun* on this host and return its outcome; with `raised`, its value is an error text.

    Args:
        config_dir: folder of the minion's configuration; a missing file counts as empty.
        fun: name of the function.
        args: positional arguments, typed.
        kwargs: keyword arguments, typed.
        local: run without a master.
        file_root: states for `local`, instead of the configured ones.
        pillar_root: pillar for `local`, instead of the configured one.
        watch: called with each step (kind, data), for a live view.

    Raises:
        ConfigError: the configuration cannot be used.
        UnreachableError: the master could not be reached.
    """
    collect_rarely()
    configured = configure.read(config_dir)
    start = configure.start_of(configured, config_dir)
    start = frozen.replace(start, grains=collect_grains(start))
    spec = _spec(fun, args, kwargs)
    alone = local or start.settings.file_client == "local" or not start.settings.master
    daemon = _daemon(start)
    with _turn(_Call(start, spec, daemon)):
        if alone:
            roots = _roots(file_root, start.settings.file_roots, FILE_ROOTS)
            pillars = _roots(pillar_root, start.settings.pillar_roots, PILLAR_ROOTS)
            outcome = execute(local_session_of(start, spec, roots, pillars, watch), spec)
        else:
            outcome = _remote(start, spec, daemon is not None, watch)
    _afterwards(outcome, daemon)
    return outcome


def local_session_of(
    start: StartData,
    spec: JobSpec,
    file_roots: Mapping[str, List[str]],
    pillar_roots: Mapping[str, List[str]],
    watch: Optional[Watch] = None,
) -> JobSession:
    """Return a session with files and pillar from folders of this host."""
    settings = start.settings

    def pillar(
        override: Mapping[str, Any], pillarenv: str = "", visible: Mapping[str, Any] = _NOTHING
    ) -> Any:
        env = pillarenv or settings.effective_pillarenv()
        chosen = settings_of(settings, env, settings.state_top)
        context = session.context.with_(files=RootsClient(_paths(pillar_roots)), pillar={})
        result = compile_pillar(context, chosen, override, visible)
        # The calling user may read the files, so the error's excerpts may be shown.
        return result.pillar, result.details or result.errors

    files = RootsClient(_paths(file_roots))
    place = place_of(start)
    roots = frozen.replace(settings, file_roots=dict(file_roots), pillar_roots=dict(pillar_roots))
    place = frozen.replace(place, settings=roots)
    session = local_session(place, files, pillar, spec, watch)
    return session


def _spec(fun: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JobSpec:
    clock = SystemClock()
    jid = JidFactory(clock.now)()
    issued = clock.now().timestamp()
    call = FunctionCall(fun, tuple(args), dict(kwargs))
    # The answer is not sent but printed here, so it has no limit.
    return JobSpec.asked_here(jid, call, _user(), issued, output_limit=NO_LIMIT)


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _roots(
    given: Optional[str], configured: Mapping[str, List[str]], default: Mapping[str, List[str]]
) -> Mapping[str, List[str]]:
    return {"base": [given]} if given else configured or default


def _paths(roots: Mapping[str, List[str]]) -> Dict[str, List[Path]]:
    return {env: [Path(folder) for folder in folders] for env, folders in roots.items()}


def _daemon(start: StartData) -> Optional[LocalClient]:
    """Return a client of the running daemon, or None."""
    if not (start.run_dir / SOCKET).exists():
        return None
    # Imported here, as below: it is not needed where no daemon runs.
    from catena.transport.local import LocalClient
    from catena.transport.messages import ClientRequest

    client = LocalClient(start.run_dir / SOCKET)
    try:
        client.request(ClientRequest("status", {}), 5.0)
    except (UnreachableError, NotAllowedError):
        client.close()
        return None
    return client


class _Watched:
    """An `AgentService` that also passes the job's steps to a function.

    Args:
        service: does everything else.
        watch: called with each step (kind, data).
    """

    def __init__(self, service: Any, watch: Watch) -> None:
        self._service = service
        self._watch = watch

    def progress(self, progress: JobProgress) -> None:
        """Pass on one step."""
        self._watch(progress.kind, progress.data)
        self._service.progress(progress)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)


def _remote(
    start: StartData, spec: JobSpec, through_daemon: bool, watch: Optional[Watch] = None
) -> FinishedJob:
    """Run *spec* with the master's files and pillar."""
    from catena.fileserver.remote import CachingClient

    service: Any
    if through_daemon:
        from catena.minion.worker.service import SocketService

        service = SocketService(start.run_dir, patience=10.0)
    else:
        # Imported here: zmq is not needed where a daemon runs.
        from catena.minion.calls.caller import CallerService

        service = CallerService(start, read_boot_id(start.settings.boot_id_file))
    if watch is not None:
        service = _Watched(service, watch)
    try:
        files = CachingClient(service, start.files_dir)
        return execute(remote_session(place_of(start), spec, service, files), spec)
    finally:
        service.close()


@contextmanager
def _turn(call: _Call) -> Iterator[None]:
    """Hold this minion's slot for state runs if *call* needs it; other functions need none."""
    if call.spec.fun not in QUEUED or call.spec.kwargs.get("concurrent") is True:
        yield
    elif call.daemon is None:
        with _locked(private_folder(call.start.cache_dir) / "call.lock"):
            yield
    else:
        from catena.transport.messages import ClientRequest

        # The daemon reserves the slot until this connection ends.
        for item in call.daemon.stream(ClientRequest("line", {})):
            sys.stderr.write(f"queued behind {item['position']} other state runs\n")
        yield


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _afterwards(outcome: FinishedJob, daemon: Optional[LocalClient]) -> None:
    """Carry out (or withdraw) what a chunk requested for its end, now that its return is safe."""
    after = outcome.after
    if after is not None and after.kind is AfterKind.reboot:
        _reboot_soon(after)
    elif after is not None and daemon is not None:
        from catena.transport.messages import ClientRequest

        verb = "restart" if after.kind is AfterKind.restart_agent else after.kind.value
        try:
            daemon.request(ClientRequest(verb, {"chain_id": after.chain_id}), 5.0)
        except CatenaError as error:
            sys.stderr.write(f"cannot notify the agent ({verb}): {error}\n")
    if daemon is not None:
        daemon.close()


def _reboot_soon(after: After) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork():
        return
    os.setsid()
    time.sleep(_PRINT_SECONDS + after.delay_seconds)
    try:
        os.execvp(after.command[0], list(after.command))
    finally:
        os._exit(1)
