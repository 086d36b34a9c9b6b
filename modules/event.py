"""event.*: events from this minion to the master."""

from __future__ import annotations

import time
from typing import Any, Dict, Mapping, Optional

from catena.core.context import Context
from catena.core.dry_run import announce
from catena.core.errors import UsageError
from catena.core.events import is_tag
from catena.core.plugins import function


def _fire(context: Context, data: Any, tag: str) -> bool:
    if not is_tag(str(tag)):
        raise UsageError(f"{str(tag)[:80]!r} cannot be an event's tag")
    announce(f"send the event {tag}")
    body: Mapping[str, Any] = data if isinstance(data, Mapping) else {"data": data}
    return context.host.fire(str(tag), body)


@function(reads=True)
def send(
    context: Context, /, tag: str, data: Any = None, with_env: Any = False,
    with_grains: Any = False, with_pillar: Any = False, **kwargs: Any,
) -> bool:  # fmt: skip
    """Send an event to the master; return True if it was accepted.

    The agent stores the event until the master has stored it. The event is durable before the
    job's return, before the job calls another function that may change something, and in states
    before the next step.

    The master stores it in Salt's shape of a minion's event: {id, cmd, pretag, data, tag, ts}.
    Reactor files therefore find the sent data in `data['data']`.

    Args:
        context: the call's context.
        tag: its tag; the master stores it with this minion's name as the source.
        data: the data; keyword arguments are added.
        with_env: True or names: environment variables to add.
        with_grains: True or names: grains to add.
        with_pillar: True or names: pillar values to add.
        kwargs: more data.
    """
    import os

    body: Dict[str, Any] = {}
    trees = (
        ("environ", os.environ, with_env),
        ("grains", context.grains, with_grains),
        ("pillar", context.pillar, with_pillar),
    )
    for name, tree, wanted in trees:
        if isinstance(wanted, (list, tuple)):
            body[name] = {key: tree[key] for key in wanted if key in tree}
        elif wanted:
            body[name] = dict(tree)
    body.update({key: value for key, value in kwargs.items() if not key.startswith("__")})
    if data is not None:
        body.update(data if isinstance(data, Mapping) else {"data": data})
    whole = {"cmd": "_minion_event", "pretag": None, "data": body, "tag": tag, "ts": time.time()}
    return _fire(context, whole, tag)


@function(reads=True)
def fire_master(
    context: Context, data: Any, tag: str, preload: Optional[Mapping[str, Any]] = None
) -> bool:
    """Send an event to the master; return True if it was accepted."""
    return _fire(context, data, tag)


@function(reads=True)
def fire(context: Context, data: Any, tag: str, timeout: Optional[int] = None) -> bool:
    """Send an event; it goes to the master, since a minion has no bus of its own."""
    return _fire(context, data, tag)
