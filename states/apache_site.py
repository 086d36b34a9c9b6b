"""apache_site.*: a site of Debian's Apache, enabled or disabled."""

from __future__ import annotations

from catena.core.context import Context
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.states.apache_switch import switched


@state()
def enabled(context: Context, name: str) -> StateResult:
    """Enable a site."""
    return switched(context, name, "site", "site", True)


@state()
def disabled(context: Context, name: str) -> StateResult:
    """Disable a site."""
    return switched(context, name, "site", "site", False)
