"""rabbitmq_vhost.*: virtual hosts of RabbitMQ."""

from __future__ import annotations

from catena.core.context import Context
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.rabbitmq import remembering
from catena.states.answers import done, would
from catena.states.rabbitmq.node import attempt


@state(ahead=remembering)
def present(context: Context, name: str) -> StateResult:
    """Make sure that a virtual host exists.

    Args:
        context: the call's context.
        name: of the virtual host.
    """
    expected = f"Virtual Host '{name}' will be created."

    def work() -> StateResult:
        if context.call("rabbitmq.vhost_exists", name):
            return done(f"Virtual Host '{name}' already exists.")
        changes = {"old": "", "new": name}
        if context.test:
            return would(expected, changes)
        return done(context.call("rabbitmq.add_vhost", name)["Added"], changes)

    return attempt(context, work, expected)


@state(ahead=remembering)
def absent(context: Context, name: str) -> StateResult:
    """Make sure that a virtual host does not exist.

    Args:
        context: the call's context.
        name: of the virtual host.
    """
    expected = f"Virtual Host '{name}' will be removed."

    def work() -> StateResult:
        if not context.call("rabbitmq.vhost_exists", name):
            return done(f"Virtual Host '{name}' is not present.")
        changes = {"new": "", "old": name}
        if context.test:
            return would(expected, changes)
        return done(context.call("rabbitmq.delete_vhost", name)["Deleted"], changes)

    return attempt(context, work, expected)
