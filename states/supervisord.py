"""supervisord.*: processes that Supervisor keeps running."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.supervisord import checked_process
from catena.states.answers import done, failed, would

_REFUSALS = (CommandExecutionError, UsageError)
_STOPPED = ("STOPPED", "STOPPING", "EXITED", "FATAL", "BACKOFF")
#: Errors of Supervisor for what is already as it should be.
_HARMLESS = ("already started", "not running", "process group already active")


@dataclass(frozen=True)
class _Found:
    """What Supervisor says about a process or a group."""

    #: "group", "service", or "" if Supervisor does not know it.
    kind: str
    #: Names of the processes that do not run.
    stopped: List[str]
    count: int


def _found(context: Context, name: str, place: Mapping[str, Any]) -> _Found:
    rows: Dict[str, Dict[str, str]] = context.call("supervisord.status", **place)
    if name.endswith(":"):
        members = {one: row for one, row in rows.items() if one.startswith(name)}
        kind = "group" if members else ""
    else:
        members = {name: rows[name]} if name in rows else {}
        kind = "service" if members else ""
    stopped = [one for one, row in members.items() if row["state"] in _STOPPED]
    return _Found(kind, stopped, len(members))


def _failure(text: str) -> str:
    """Return what Supervisor says, if it is an error; or ""."""
    lines = [line for line in text.splitlines() if "ERROR" in line]
    return text if any(not any(one in line for one in _HARMLESS) for line in lines) else ""


@state()
def running(
    context: Context,
    /,
    name: str,
    restart: bool = False,
    update: bool = False,
    user: Optional[str] = None,
    conf_file: Optional[str] = None,
    bin_env: Optional[str] = None,
    **kwargs: Any,
) -> StateResult:
    """Make sure that Supervisor runs a process or the processes of a group.

    Args:
        context: the call's context.
        name: of the process, or of a group with a colon ("app:").
        restart: restart what runs.
        update: first let Supervisor apply changes of its configuration.
        user: who asks Supervisor.
        conf_file: configuration of supervisorctl.
        bin_env: path of supervisorctl, or a virtual environment that has it.
        kwargs: accepted and ignored.
    """
    place = {"user": user, "conf_file": conf_file, "bin_env": bin_env}
    try:
        process = checked_process(name)
        found = _found(context, process, place)
        if context.test:
            return _would_run(context, process, found, restart, update, place)
        return _run(context, process, found, restart, update, place)
    except _REFUSALS as problem:
        return failed(str(problem))


def _would_run(
    context: Context,
    name: str,
    found: _Found,
    restart: bool,
    update: bool,
    place: Mapping[str, Any],
) -> StateResult:
    group = name.endswith(":")
    subject = f"Group '{name}'" if group else f"Service {name}"
    if not found.kind:
        return would(f"{subject} will be added and started")
    changed = _reported(context.call("supervisord.reread", **place)) if update else []
    if changed:
        return would(f"Supervisor will be updated: {', '.join(changed)}")
    if found.stopped:
        if not group:
            return would(f"Service {name} will be started")
        if len(found.stopped) == found.count:
            return would(f"All services in group '{name}' will be started")
        return would(f"The following services will be started: {' '.join(found.stopped)}")
    if restart:
        return would(f"{subject} is running and will be restarted")
    if group:
        return done(f"All services in group '{name}' are already running")
    return done(f"Service {name} is already running")


def _reported(text: str) -> List[str]:
    """Return the lines in which Supervisor names a changed program: "web: changed"."""
    return [line for line in text.splitlines() if ": " in line and "ERROR" not in line]


def _run(
    context: Context,
    name: str,
    found: _Found,
    restart: bool,
    update: bool,
    place: Mapping[str, Any],
) -> StateResult:
    """Update or add, then restart or start; return what was done."""
    steps: List[str] = []
    updated = False
    if update:
        text = context.call("supervisord.update", **place)
        if _failure(text):
            return failed(text)
        steps += _reported(text)
        updated = any(line.startswith(f"{name.rstrip(':')}: ") for line in steps)
        found = _found(context, name, place)
    if not found.kind:
        steps.append(f"Adding service: {name}")
        context.call("supervisord.reread", **place)
        text = context.call("supervisord.add", name, **place)
        if _failure(text):
            return failed(text)
        found = _found(context, name, place)
        if found.kind and not found.stopped:
            return done(f"Starting {found.kind}: {name}", {name: " ".join(steps)})
    words = f"{found.kind}: {name}" if found.kind else name
    if found.kind and not found.stopped and (updated or not restart):
        what = "updated" if updated else "already running"
        comment = f"Not starting {what} {words}"
        return done(comment, {name: " ".join(steps)} if steps else {})
    verb, fun = ("Starting", "start") if found.stopped or not found.kind else (
        "Restarting", "restart"
    )  # fmt: skip
    text = context.call(f"supervisord.{fun}", name, **place)
    steps.append(f"{verb}: {name}")
    if _failure(text):
        return failed(text, {name: " ".join(steps[:-1])} if steps[:-1] else {})
    return done(f"{verb} {words}", {name: " ".join(steps)})


@state()
def dead(
    context: Context,
    /,
    name: str,
    user: Optional[str] = None,
    conf_file: Optional[str] = None,
    bin_env: Optional[str] = None,
    **kwargs: Any,
) -> StateResult:
    """Make sure that a process, or every process of a group, does not run.

    Args:
        context: the call's context.
        name: of the process, or of a group with a colon ("app:").
        user: who asks Supervisor.
        conf_file: configuration of supervisorctl.
        bin_env: path of supervisorctl, or a virtual environment that has it.
        kwargs: accepted and ignored.
    """
    place = {"user": user, "conf_file": conf_file, "bin_env": bin_env}
    try:
        process = checked_process(name)
        found = _found(context, process, place)
        if not found.kind:
            return done(f"Service {process} doesn't exist")
        if len(found.stopped) == found.count:
            return done(f"Service {process} is not running")
        if context.test:
            return would(f"Service {process} is set to be stopped")
        text = context.call("supervisord.stop", process, **place)
    except _REFUSALS as problem:
        return failed(str(problem))
    if _failure(text):
        return failed(text)
    comment = f"Stopping service: {process}"
    return done(comment, {process: comment})


@state()
def mod_watch(
    context: Context,
    /,
    name: str,
    restart: bool = True,
    update: bool = False,
    user: Optional[str] = None,
    conf_file: Optional[str] = None,
    bin_env: Optional[str] = None,
    **kwargs: Any,
) -> StateResult:
    """Restart a process after something that it watches has changed; arguments as of running."""
    found: StateResult = running(context, name, restart, update, user, conf_file, bin_env)
    return found
