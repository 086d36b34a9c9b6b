"""Runs one job in this process: bind arguments, call the function, judge and limit its value."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping as AbstractMapping
from typing import Any, Callable, Optional, Tuple

from catena.core.context import Context
from catena.core.custom_faults import error_line
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
from catena.runtime.session import JobSession

log = logger(__name__)

#: Salt's codes of a job: a state failed; anything else went wrong.
STATES_FAILED = 2
WENT_WRONG = 1


@dataclass(frozen=True)
class FinishedJob:
    """The outcome of a job, and the agent's task once that is safe in its outbox."""

    ret: JobReturn
    after: Optional[After] = None
    #: Whether the value is an error text instead of the function's value.
    raised: bool = False


def execute(
    session: JobSession, spec: JobSpec, instead: Optional[Callable[[Context], Any]] = None
) -> FinishedJob:
    """Run *spec* to its end; return the outcome. A failing job raises nothing.

    Exceptions that stop a process (KeyboardInterrupt, SystemExit) pass through. So do obstacles
    for which a chain waits: a full disk, an unreachable master. The deadline is enforced by the
    process that started this one, because it can kill the whole tree.

    Args:
        session: of this job; its host reports the progress.
        spec: the job.
        instead: called in place of the function, whose marks still apply (for states compiled
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
    return FinishedJob(ret, session.host.after, raised)


def _context_of(session: JobSession, spec: JobSpec) -> Context:
    context = session.context
    return context if context.job is spec else context.with_(job=spec)


def _bounded(value: Any, limit: int) -> Tuple[Any, bool]:
    """Return *value* as plain data within a limit, and whether it was truncated."""
    return shorten(value if is_plain(value) else plain(value), limit)


def passes(error: BaseException) -> bool:
    """Return whether an operation may succeed later: the disk is full, the master unreachable."""
    return no_room(error) or isinstance(error, (UnreachableError, TryLaterError))


def _waits(session: JobSession, spec: JobSpec, error: Exception) -> bool:
    """Return whether the agent will repeat the job, continuing from the chain's journal."""
    chain = is_resumable(spec.fun) and isinstance(session.host, RemoteHost)
    return chain and passes(error)


def _boot_id(session: JobSession) -> str:
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
        # State runs store each event before they continue, because they are recorded by state.
        host.hasty = plugin.mark.fails != "states" and not is_resumable(spec.fun)
        if spec.fun.startswith("cmd."):
            host.show_output()
        try:
            value = plugin.call(context, *args, **kwargs)
        except Exception:
            with contextlib.suppress(CatenaError):  # the function's own error is reported
                host.settle()
            raise
        host.settle()
    return value, judge(plugin.mark, value, context.scratch.get("retcode"))


def judge(mark: FunctionMark, value: Any, said: Any = None) -> int:
    """Return the exit code of a job by Salt's rules.

    Args:
        mark: of the function.
        value: its return value.
        said: the value of `__context__["retcode"]` after it.
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
    """Return the value and exit code of a job whose function raised *error*."""
    if isinstance(error, PillarError) and error.errors:
        return ["Pillar failed to render with the following messages:", *error.errors], WENT_WRONG
    if isinstance(error, NotFoundError) and spec.fun in str(error):
        return str(error), WENT_WRONG
    if isinstance(error, (CatenaError, OSError)):
        return f"ERROR: {error_line(error)}", WENT_WRONG
    log.debug("%s of job %s failed", spec.fun, spec.jid, exc_info=error)
    return f"The function {spec.fun} raised an exception: {error_line(error)}", WENT_WRONG


def _fun_args(spec: JobSpec) -> Tuple[Any, ...]:
    """Return the arguments as in Salt's events: keyword arguments as one dict at the end.

    Secrets are hidden, because the arguments appear in events and lists.
    """
    kwargs = plain({key: value for key, value in spec.kwargs.items() if not key.startswith("__")})
    return tuple(hide_arguments([*plain(list(spec.args)), *([kwargs] if kwargs else ())]))
