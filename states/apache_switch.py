"""What apache_module, apache_site and apache_conf have in common: one thing, on or off."""

from __future__ import annotations

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.types import StateResult
from catena.states.answers import done, failed, would


def switched(context: Context, name: str, noun: str, short: str, on: bool) -> StateResult:
    """Enable or disable something of Apache.

    Args:
        context: the call's context.
        name: of the module, site or configuration file.
        noun: what it is, for the comment.
        short: what it is in the names of functions: mod, site or conf.
        on: enable it.
    """
    verb, past = ("enable", "enabled") if on else ("disable", "disabled")
    changes = {"old": None, "new": name} if on else {"old": name, "new": None}
    try:
        if context.call(f"apache.check_{short}_enabled", name) == on:
            return done(f"{name} already {past}.")
        if context.test:
            return would(f"Apache {noun} {name} is set to be {past}.", changes)
        status = context.call(f"apache.a2{'en' if on else 'dis'}{short}", name)["Status"]
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Failed to {verb} {name} Apache {noun} ({problem})")
    if not status.endswith(past):
        return failed(f"Failed to {verb} {name} Apache {noun} ({status})")
    return done(f"Apache {noun} {name} {past}.", changes)
