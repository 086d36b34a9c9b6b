"""cron.*: jobs and variables in users' crontabs."""

from __future__ import annotations

from typing import Any, Dict

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules import cron
from catena.states.answers import done, failed, would

#: Salt's value for "the command is the identifier".
_BY_COMMAND = False


def _identifier(given: Any, cmd: str) -> Any:
    return cmd if given is _BY_COMMAND or given is None else given


@state()
def present(
    context: Context, /, name: str, user: str = "root", identifier: Any = _BY_COMMAND,
    special: Any = None, **options: Any,
) -> StateResult:  # fmt: skip
    """Make sure that a job is in a user's crontab.

    Args:
        context: the call's context.
        name: command line.
        user: owner of the crontab.
        identifier: text that identifies the job; default: the command.
        special: @reboot, @daily, … instead of times.
        options: minute, hour, daymonth, month, dayweek (each "*"), comment, commented.
    """
    times: Dict[str, Any] = {key: options.pop(key, "*") for key in cron.TIMES}
    for key in ("comment", "commented"):
        options.setdefault(key, None)
    try:
        job = cron.job_of(
            name,
            times,
            special,
            identifier=_identifier(identifier, name),
            comment=options["comment"],
            commented=options["commented"],
        )
        table = cron.load(context, user)
        new = cron.with_job(table, job)
        if new == table:
            return done(f"Cron {name} already present")
        verb = "added" if len(new.jobs) > len(table.jobs) else "updated"
        if context.test:
            return would(f"Cron {name} is set to be {verb}", {user: name})
        cron.save(context, user, new)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Cron {name} for user {user} failed to commit with error\n{problem}")
    told = f"Cron {name} added to {user}'s crontab" if verb == "added" else f"Cron {name} updated"
    return done(told, {user: name})


@state()
def absent(
    context: Context, /, name: str, user: str = "root", identifier: Any = _BY_COMMAND,
    **ignored: Any,
) -> StateResult:  # fmt: skip
    """Make sure that a job is not in a user's crontab."""
    try:
        table = cron.load(context, user)
        new = cron.without_job(table, name, _identifier(identifier, name))
        if new == table:
            return done(f"Cron {name} already absent")
        if context.test:
            return would(f"Cron {name} is set to be removed", {user: name})
        cron.save(context, user, new)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Cron {name} for user {user} failed to commit with error {problem}")
    return done(f"Cron {name} removed from {user}'s crontab", {user: name})


@state()
def env_present(context: Context, name: str, value: Any = "", user: str = "root") -> StateResult:
    """Make sure that a variable is set in a user's crontab."""
    return _env(context, name, str(value), user)


@state()
def env_absent(context: Context, name: str, user: str = "root") -> StateResult:
    """Make sure that a variable is not set in a user's crontab."""
    return _env(context, name, None, user)


def _env(context: Context, name: str, value: Any, user: str) -> StateResult:
    gone = value is None
    try:
        table = cron.load(context, user)
        new = cron.with_env(table, name, value)
        if new == table:
            return done(f"Cron env {name} already {'absent' if gone else 'present'}")
        if context.test:
            verb = "removed" if gone else "added" if len(new.env) > len(table.env) else "updated"
            return would(f"Cron env {name} is set to be {verb}", {user: name})
        cron.save(context, user, new)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Cron env {name} for user {user} failed to commit with error {problem}")
    if gone:
        return done(f"Cron env {name} removed from {user}'s crontab", {user: name})
    return done(f"Cron env {name} set in {user}'s crontab", {user: name})
