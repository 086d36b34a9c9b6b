"""apache_module.*: a module of Debian's Apache, enabled or disabled."""

from __future__ import annotations

from catena.core.context import Context
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.states.apache_switch import switched


@state()
def enabled(context: Context, name: str) -> StateResult:
    """Enable a module."""
    return switched(context, name, "module", "mod", True)


@state()
def disabled(context: Context, name: str) -> StateResult:
    """Disable a module."""
    return switched(context, name, "module", "mod", False)
