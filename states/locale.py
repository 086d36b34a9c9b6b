"""locale.*: the locales of the host."""

from __future__ import annotations

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules import locale
from catena.states.answers import done, failed, would

_REFUSALS = (UsageError, CommandExecutionError)


@state()
def system(context: Context, name: str) -> StateResult:
    """Make sure that *name* is the locale of the host (LANG)."""
    try:
        locale.checked(name)
        if context.call("locale.get_locale") in (name, str(name).lower()):
            return done(f"System locale {name} already set")
        if context.test:
            return would(f"System locale {name} needs to be set")
        context.call("locale.set_locale", name)
    except _REFUSALS as problem:
        return failed(f"Failed to set system locale: {problem}")
    return done(f"Set system locale {name}", {"locale": name})


@state()
def present(context: Context, name: str) -> StateResult:
    """Make sure that programs can use the locale *name*; generate it if necessary."""
    try:
        if context.call("locale.avail", name):
            return done(f"Locale {name} is already present")
        if context.test:
            return would(f"Locale {name} needs to be generated")
        made = context.call("locale.gen_locale", name)
    except _REFUSALS as problem:
        return failed(f"Failed to generate system locale: {problem}")
    if not made:
        return failed("Failed to generate system locale")
    return done(f"Generated locale {name}", {"locale": name})
