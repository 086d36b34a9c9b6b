"""timezone.system: the time zone of the host and the time that its hardware clock keeps."""

from __future__ import annotations

from typing import Any

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would


@state()
def system(context: Context, name: str, utc: Any = True) -> StateResult:
    """Make sure that the host is in a time zone.

    Args:
        context: the call's context.
        name: as in America/Denver.
        utc: also let the hardware clock keep UTC; False leaves it unchanged.
    """
    try:
        same_zone = context.call("timezone.zone_compare", name)
        clock = context.call("timezone.get_hwclock")
    except (UsageError, CommandExecutionError, OSError) as problem:
        return failed(f"Unable to compare desired timezone '{name}' to system timezone: {problem}")
    same_clock = clock == "UTC" or not truth(utc)
    if same_zone and same_clock:
        kept = [f"UTC already set to {name}"] if truth(utc) else []
        return done(", ".join([f"Timezone {name} already set", *kept]))
    if context.test:
        told = [] if same_zone else [f"Timezone {name} needs to be set"]
        told += [] if same_clock else [f"UTC needs to be set to {utc}"]
        return would(", ".join(told))
    changes, told = {}, []
    try:
        if not same_zone:
            context.call("timezone.set_zone", name)
            changes["timezone"] = name
            told.append(f"Set timezone {name}")
        if not same_clock:
            context.call("timezone.set_hwclock", "UTC")
            changes["utc"] = utc
            told.append(f"Set UTC to {utc}")
    except (UsageError, CommandExecutionError) as problem:
        what = "timezone" if not same_zone and "timezone" not in changes else f"UTC to {utc}"
        return failed(", ".join([*told, f"Failed to set {what}: {problem}"]), changes)
    return done(", ".join(told), changes)
