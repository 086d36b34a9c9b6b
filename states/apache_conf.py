"""apache_conf.*: a configuration file of Debian's Apache, enabled or disabled."""

from __future__ import annotations

from catena.core.context import Context
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.states.apache_switch import switched


@state()
def enabled(context: Context, name: str) -> StateResult:
    """Enable a configuration file."""
    return switched(context, name, "conf", "conf", True)


@state()
def disabled(context: Context, name: str) -> StateResult:
    """Disable a configuration file."""
    return switched(context, name, "conf", "conf", False)
