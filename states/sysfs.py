"""sysfs.present: an attribute of the kernel, until the next boot."""

from __future__ import annotations

import re
from typing import Any

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.states.answers import done, failed, would

_CHOSEN = re.compile(r"\[([^\]]*)\]")


def _current(value: Any) -> str:
    """Return a value as text; of a list of choices the one in brackets."""
    found = _CHOSEN.search(value) if isinstance(value, str) else None
    return found.group(1) if found else str(value)


@state()
def present(context: Context, name: str, value: Any, config: Any = None) -> StateResult:
    """Make sure that an attribute below /sys has a value, until the next boot.

    Args:
        context: of the run.
        name: path below /sys.
        value: a number or text.
        config: ignored, as in Salt.
    """
    wanted = str(int(value) if isinstance(value, bool) else value)
    try:
        current = context.call("sysfs.read", name)
        if current is False:
            return failed(f"SysFS attribute {name} doesn't exist.")
        if isinstance(current, dict):
            return failed(f"{name} is not a SysFS attribute.")
        if _current(current) == wanted:
            return done(f"SysFS attribute {name} is already set.")
        if context.test:
            return would(f"SysFS attribute {name} set to be changed.")
        context.call("sysfs.write", name, wanted)
    except (UsageError, CommandExecutionError) as problem:
        return failed(f"Failed to set {name} to {value}: {problem}")
    return done(f"Updated SysFS attribute {name} to {value}", {name: value})
