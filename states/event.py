"""event.send: send an event to the master."""

from __future__ import annotations

from typing import Any

from catena.core.context import Context
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.states.answers import done, failed, would


@state()
def send(
    context: Context,
    /,
    name: str,
    data: Any = None,
    preload: Any = None,
    with_env: Any = False,
    with_grains: Any = False,
    with_pillar: Any = False,
    show_changed: bool = True,
    **kwargs: Any,
) -> StateResult:
    """Send an event to the master; each one counts as a change.

    Args:
        context: of the run.
        name: the event's tag.
        data: its data.
        preload: accepted without effect; the master knows the sender.
        with_env: True, or the names of environment variables to send too.
        with_grains: True, or names of grains.
        with_pillar: True, or names of pillar keys.
        show_changed: show tag and data as the change.
        kwargs: more data.
    """
    shown = {"tag": name, "data": data}
    changes = shown if show_changed else {}
    if context.test:
        return would("Event would have been fired", changes)
    sent = context.call(
        "event.send",
        name,
        data,
        with_env=with_env,
        with_grains=with_grains,
        with_pillar=with_pillar,
        **kwargs,
    )
    return done("Event fired", changes) if sent else failed("Event could not be sent", changes)


@state(name="fire_master")
def fire_master(context: Context, /, name: str, data: Any = None, **kwargs: Any) -> StateResult:
    """Send an event; an alias of `send`."""
    return send(context, name, data, **kwargs)


@state()
def wait(context: Context, /, name: str, **kwargs: Any) -> StateResult:
    """Do nothing until something watched changes; then do as `send`."""
    return done("")


@state()
def mod_watch(context: Context, /, name: str, sfun: str = "", **kwargs: Any) -> StateResult:
    """Fire the event because something watched has changed."""
    given = {key: value for key, value in kwargs.items() if not key.startswith("__")}
    return send(context, name, **given)
