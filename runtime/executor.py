"""Runs one job in this process: binds its arguments, calls it, judges and bounds what it gives."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping as AbstractMapping
from typing import Any, Callable, Optional, Tuple

from catena.core.context import Context
from catena.core.custom_faults import told
from catena.core.errors import (
    CatenaError,
    NotFoundError,
    PillarError,
    TryLaterError,
    UnreachableError,
)
from catena.core.files import no_room
from catena.core.frozen import dataclass
from catena.core.job import JobReturn, JobSpec
from catena.core.logs import logger
from catena.core.marks import is_resumable
from catena.core.plugins import FunctionMark, Plugin
from catena.core.redact import hide_arguments
from catena.runtime.arguments import bind
from catena.runtime.host import After, BaseHost, RemoteHost
from catena.runtime.results import is_plain, plain, shorten
from catena.runtime.session import Session

log = logger(__name__)

#: Salt's codes of a job: a state failed; anything else went wrong.
STATES_FAILED = 2
WENT_WRONG = 1


@dataclass(frozen=True)
class Outcome:
    """What a job came to, and what the agent has to do once that is safe in its outbox."""

    ret: JobReturn
    after: Optional[After] = None
    #: The value is not the function's but the text of why it gave none; for who prints it.
    raised: bool = False


def execute(
    session: Session, spec: JobSpec, instead: Optional[Callable[[Context], Any]] = None
) -> Outcome:
    """Run *spec* to its end; return what it came to. A failing job is no exception.

    Only what stops a process (KeyboardInterrupt, SystemExit) passes through, and what a chain
    waits out: a full disk, a master that is away. The deadline of the spec is kept by who started
    this process, who can kill the whole tree.

    Args:
        session: of this job; its host tells the progress.
        spec: the job.
        instead: called in place of the function, whose marks still count (states compiled
            elsewhere).
    """
    clock = session.host.clock
    started, begun = clock.now().timestamp(), clock.monotonic()
    context = _context_of(session, spec)
    context.scratch.pop("retcode", None)
    mark, raised = FunctionMark(), False
    try:
        plugin = context.functions[spec.fun]
        mark = plugin.mark
        value, retcode = _call(plugin, session.host, context, spec, instead)
    except Exception as error:  # the edge of the job: every fault becomes its return
        if _waits(session, spec, error):
            raise
        value, retcode = _fault(spec, error)
        raised = True
    value, truncated = _bounded(value, spec.output_limit)
    ret = JobReturn(
        jid=spec.jid,
        fun=spec.fun,
        fun_args=_fun_args(spec),
        success=retcode == 0,
        retcode=retcode,
        value=value,
        started=started,
        duration_seconds=max(0.0, clock.monotonic() - begun),
        out=mark.out,
        truncated=truncated,
        boot_id=_boot_id(session),
        epochs=dict(session.host.epochs),
    )
    return Outcome(ret, session.host.after, raised)


def _context_of(session: Session, spec: JobSpec) -> Context:
    context = session.context
    return context if context.job is spec else context.with_(job=spec)


def _bounded(value: Any, limit: int) -> Tuple[Any, bool]:
    """Return *value* as plain data within a limit, and whether it was shortened."""
    return shorten(value if is_plain(value) else plain(value), limit)


def passes(error: BaseException) -> bool:
    """Return whether what failed may work later: the disk is full, the master is away."""
    return no_room(error) or isinstance(error, (UnreachableError, TryLaterError))


def _waits(session: Session, spec: JobSpec, error: Exception) -> bool:
    """Return whether the agent does this once more, from where the chain's journal says."""
    chain = is_resumable(spec.fun) and isinstance(session.host, RemoteHost)
    return chain and passes(error)


def _boot_id(session: Session) -> str:
    try:
        return session.host.boot_id()
    except OSError:
        return ""


def _call(
    plugin: Plugin,
    host: BaseHost,
    context: Context,
    spec: JobSpec,
    instead: Optional[Callable[[Context], Any]],
) -> Tuple[Any, int]:
    if instead is not None:
        value = instead(context)
    else:
        args, kwargs = bind(plugin, spec.args, spec.kwargs)
        # What states come to is noted state by state: there each event is kept before it goes on.
        host.hasty = plugin.mark.fails != "states" and not is_resumable(spec.fun)
        if spec.fun.startswith("cmd."):
            host.show_output()
        try:
            value = plugin.call(context, *args, **kwargs)
        except Exception:
            with contextlib.suppress(CatenaError):  # the function's own fault is told
                host.settle()
            raise
        host.settle()
    return value, judge(plugin.mark, value, context.scratch.get("retcode"))


def judge(mark: FunctionMark, value: Any, said: Any = None) -> int:
    """Return the code of a job by Salt's rules.

    Args:
        mark: of the function.
        value: what it returned.
        said: what it left in `__context__["retcode"]`.
    """
    if mark.fails == "states":
        if isinstance(value, (list, tuple)):
            return WENT_WRONG
        if isinstance(value, AbstractMapping) and any(map(_is_failed, value.values())):
            return STATES_FAILED
    elif mark.fails == "bool" and value is False:
        return WENT_WRONG
    return said if isinstance(said, int) and not isinstance(said, bool) else 0


def _is_failed(row: Any) -> bool:
    return isinstance(row, AbstractMapping) and row.get("result") is False


def _fault(spec: JobSpec, error: Exception) -> Tuple[Any, int]:
    """Return the value and code of a job that raised."""
    if isinstance(error, PillarError) and error.errors:
        return ["Pillar failed to render with the following messages:", *error.errors], WENT_WRONG
    if isinstance(error, NotFoundError) and spec.fun in str(error):
        return str(error), WENT_WRONG
    if isinstance(error, (CatenaError, OSError)):
        return f"ERROR: {told(error)}", WENT_WRONG
    log.debug("%s of job %s failed", spec.fun, spec.jid, exc_info=error)
    return f"The function {spec.fun} raised an exception: {told(error)}", WENT_WRONG


def _fun_args(spec: JobSpec) -> Tuple[Any, ...]:
    """Return the arguments as Salt's events carry them: keywords as one dict at the end.

    They travel with the return into events and lists, so secrets are hidden here.
    """
    kwargs = plain({key: value for key, value in spec.kwargs.items() if not key.startswith("__")})
    return tuple(hide_arguments([*plain(list(spec.args)), *([kwargs] if kwargs else ())]))
