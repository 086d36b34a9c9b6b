"""sysctl.present: a setting of the kernel, now and at every boot."""

from __future__ import annotations

from typing import Any, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules import sysctl
from catena.states.answers import done, failed, would


@state()
def present(context: Context, name: str, value: Any, config: Optional[str] = None) -> StateResult:
    """Make sure that a setting of the kernel has a value, now and at every boot.

    Args:
        context: the call's context.
        name: as in net.ipv4.ip_forward.
        value: a number, or a text with numbers.
        config: file of settings; default: /etc/sysctl.d/99-salt.conf with systemd, otherwise
            /etc/sysctl.conf.
    """
    try:
        text = sysctl.text_of(value)
        if context.test:
            return _would(context, name, text, config or sysctl.default_config(context))
        result = context.call("sysctl.persist", name, value, config)
    except (UsageError, CommandExecutionError) as problem:
        return failed(f"Failed to set {name} to {value}: {problem}")
    if result == "Updated":
        return done(f"Updated sysctl value {name} = {value}", {name: value})
    return done(f"Sysctl value {name} = {value} is already set")


def _would(context: Context, name: str, value: str, config: str) -> StateResult:
    """Return the result of test mode."""
    running = context.call("sysctl.get", name)
    configured = context.call("sysctl.show", config_file=config)
    if configured is None:
        return would(
            f"Sysctl option {name} might be changed, we failed to check config file at {config}. "
            "The file is either unreadable, or missing."
        )
    runs = sysctl.same(running, value)
    if name not in configured:
        if runs:
            return would(
                "Sysctl value is currently set on the running system but not in a config file. "
                f"Sysctl option {name} set to be changed to {value} in config file."
            )
        return would(f"Sysctl option {name} set to be changed to {value}")
    if runs and sysctl.same(configured[name], value):
        return done(f"Sysctl value {name} = {value} is already set")
    return would(f"Sysctl option {name} would be changed to {value}")
