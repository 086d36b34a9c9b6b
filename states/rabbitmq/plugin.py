"""rabbitmq_plugin.*: plugins of RabbitMQ."""

from __future__ import annotations

from typing import Optional

from catena.core.context import Context
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.rabbitmq import remembering
from catena.states.answers import done, would
from catena.states.rabbitmq.node import attempt


@state(ahead=remembering)
def enabled(context: Context, name: str, runas: Optional[str] = None) -> StateResult:
    """Make sure that a plugin is enabled.

    Args:
        context: the call's context.
        name: of the plugin.
        runas: system user that calls rabbitmq-plugins; default for root: "rabbitmq".
    """
    expected = f"Plugin '{name}' is set to be enabled."

    def work() -> StateResult:
        if context.call("rabbitmq.plugin_is_enabled", name, runas=runas):
            return done(f"Plugin '{name}' is already enabled.")
        changes = {"old": "", "new": name}
        if context.test:
            return would(expected, changes)
        context.call("rabbitmq.enable_plugin", name, runas=runas)
        return done(f"Plugin '{name}' was enabled.", changes)

    return attempt(context, work, expected)


@state(ahead=remembering)
def disabled(context: Context, name: str, runas: Optional[str] = None) -> StateResult:
    """Make sure that a plugin is disabled.

    Args:
        context: the call's context.
        name: of the plugin.
        runas: as of enabled.
    """
    expected = f"Plugin '{name}' is set to be disabled."

    def work() -> StateResult:
        if name not in context.call("rabbitmq.list_enabled_plugins", runas=runas):
            return done(f"Plugin '{name}' is already disabled.")
        changes = {"old": name, "new": ""}
        if context.test:
            return would(expected, changes)
        context.call("rabbitmq.disable_plugin", name, runas=runas)
        return done(f"Plugin '{name}' was disabled.", changes)

    return attempt(context, work, expected)
