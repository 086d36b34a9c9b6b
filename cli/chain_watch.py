"""`catena chain watch`: a chain followed to its end, by lines or on a live view."""

from __future__ import annotations

import time
from typing import Any, Dict, Optional

import click

from catena.cli.output.board import ChainBoard
from catena.cli.output.chains import chain_text, event_lines, named
from catena.cli.output.text import wants_colour
from catena.cli.output.views import live
from catena.client.connection import MasterClient
from catena.client.requests import chains
from catena.client.requests.chains import ChainRef
from catena.core.errors import UnreachableError, UsageError

#: Least pause between two looks at the whole chain, seconds, and how much longer a pause is than
#: the look before it took: a chain of thousands of actions must not keep the master busy.
_LOOK_SECONDS = 2.0
_LOOK_SHARE = 20.0


class _Looks:
    """Asks for the whole chain once in a while: events have neither comments nor waits."""

    def __init__(self, client: MasterClient) -> None:
        self._client = client
        self._next = 0.0

    def look(self, number: int) -> Optional[Dict[str, Any]]:
        """Return the chain as an item of its stream, or None before its time."""
        begun = time.monotonic()
        if begun < self._next:
            return None
        found: Dict[str, Any] = self._client.request(chains.SHOW, ChainRef(str(number)))
        now = time.monotonic()
        self._next = now + max(_LOOK_SECONDS, (now - begun) * _LOOK_SHARE)
        return {"type": "chain", **found}


def follow_chain(client: MasterClient, label: str, wait: bool = True) -> int:
    """Print a chain's stream until it has ended; return the exit code.

    Args:
        client: of the master.
        label: of the chain, or its number.
        wait: whether a draft is watched until it is scheduled and has ended.

    Raises:
        UsageError: it is a draft, and nobody wants to wait.
        UnreachableError: the master went away; the message says how to go on.
    """
    view: Dict[str, Any] = {}
    try:
        view = _followed(client, label, wait, view)
    except KeyboardInterrupt:
        number = view.get("id", label)
        click.echo(f"detached; the chain goes on: catena chain watch {number}", err=True)
        return 130
    except UnreachableError as error:
        if not view:
            raise
        text = f"{error}; the chain goes on: catena chain watch {view['id']}"
        raise UnreachableError(text) from None
    print(f"\n{chain_text(view, wants_colour())}")
    return 0 if view["state"] == "done" else 1


def _followed(
    client: MasterClient, label: str, wait: bool, view: Dict[str, Any]
) -> Dict[str, Any]:
    """Show a chain while it goes on, and return it as it ended; *view* is what is known of it."""
    board, looks, colour = ChainBoard(), _Looks(client), wants_colour()
    items = client.stream(chains.WATCH, ChainRef(label))
    first = next(items)
    view.update(first)
    _check_scheduled(first, wait)
    board.feed(first)
    print(f"{named(first, label)}: {first['state']}", flush=True)
    with live(board.board) as screen:
        for item in items:
            if screen is None and item["type"] != "chain":
                for line in event_lines(view, item, colour):
                    print(line, flush=True)
            if item["type"] == "chain":
                view.clear()
                view.update(item)
            if screen is not None:
                later = None if item["type"] == "chain" else looks.look(view["id"])
                with screen.lock:
                    board.feed(item)
                    if later is not None:
                        board.feed(later)
    return view


def _check_scheduled(view: Any, wait: bool) -> None:
    """Raise UsageError for a draft, unless its schedule is waited for."""
    if view["state"] == "draft" and not wait:
        number = view["id"]
        raise UsageError(
            f"{named(view, str(number))} is a draft: nothing runs before catena chain schedule "
            f"{number}; --wait waits for that"
        )
