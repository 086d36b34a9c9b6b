"""logrotate.set: a setting of logrotate."""

from __future__ import annotations

from typing import Any

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules import logrotate
from catena.states.answers import done, failed, would


def _plain(value: Any) -> Any:
    """Return a value as logrotate.get does: numbers of digits as numbers."""
    return value if isinstance(value, bool) else logrotate.value_of(str(value).split())


@state(name="set")
def set_(
    context: Context,
    name: str,
    key: str,
    value: Any,
    setting: Any = None,
    conf_file: str = "/etc/logrotate.conf",
) -> StateResult:
    """Make sure that a command of logrotate has a value.

    Args:
        context: of the run.
        name: a label.
        key: the command, or the log of a block.
        value: the value (True: the command alone, False: remove it), or the command in the block.
        setting: the value of the command in the block.
        conf_file: path of the configuration; included files are searched too.
    """
    try:
        if setting is None:
            what, wanted = f"command '{key}'", _plain(value)
            current = context.call("logrotate.get", key, conf_file=conf_file)
        else:
            what, wanted = f"block '{key}' command '{value}'", _plain(setting)
            current = context.call("logrotate.get", key, value, conf_file=conf_file)
        label = what[:1].upper() + what[1:]
        if current == wanted and type(current) is type(wanted):
            return done(f"{label} already has value: {wanted}")
        changes = {"old": current, "new": wanted}
        if context.test:
            return would(f"{label} will be set to value: {wanted}", changes)
        more = {"setting": wanted} if setting is not None else {}
        target = wanted if setting is None else value
        context.call("logrotate.set", key, target, conf_file=conf_file, **more)
    except (UsageError, CommandExecutionError) as problem:
        return failed(f"Unable to set {key}: {problem}")
    return done(f"Set {what} value: {wanted}", changes)
