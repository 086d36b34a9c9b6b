"""alias.*: addresses to which mail of local users goes (/etc/aliases)."""

from __future__ import annotations

from typing import Any

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.states.answers import done, failed, would


@state()
def present(context: Context, name: str, target: Any) -> StateResult:
    """Make sure that mail of a local user goes to an address, or to a list of addresses."""
    try:
        if context.call("aliases.has_target", name, target):
            return done(f"Alias {name} already present")
        if context.test:
            return would(f"Alias {name} -> {target} is set to be added")
        context.call("aliases.set_target", name, target)
    except (UsageError, CommandExecutionError) as problem:
        return failed(f"Failed to set alias {name} -> {target}: {problem}")
    return done(f"Set email alias {name} -> {target}", {"alias": name})


@state()
def absent(context: Context, name: str) -> StateResult:
    """Make sure that there is no alias of this name."""
    try:
        if name not in context.call("aliases.list_aliases"):
            return done(f"Alias {name} already absent")
        if context.test:
            return would(f"Alias {name} is set to be removed")
        context.call("aliases.rm_alias", name)
    except (UsageError, CommandExecutionError) as problem:
        return failed(f"Failed to remove alias {name}: {problem}")
    return done(f"Removed alias {name}", {"alias": name})
