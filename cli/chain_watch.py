"""`catena chain watch`: follow a chain to its end, as lines or in a live view."""

from __future__ import annotations

import sys
import time
from typing import Iterator, List, Optional

import click

from catena.cli.output.board import ChainBoard
from catena.cli.output.chains import chain_text, event_lines
from catena.cli.output.printed import PrintedLines
from catena.cli.output.text import printable, wants_colour
from catena.cli.output.views import live
from catena.client.connection import MasterClient
from catena.client.replies.chains import ChainEventItem, ChainItem, ChainOutputItem, ChainView
from catena.client.requests import chains
from catena.client.requests.chains import ChainRef
from catena.core.errors import PeerError, UnreachableError, UsageError

#: Minimum seconds between two requests for the whole chain, and the pause as a multiple of the
#: last request's duration: a chain of thousands of actions must not keep the master busy.
_LOOK_SECONDS = 2.0
_LOOK_SHARE = 20.0


class _Looks:
    """Requests the whole chain now and then, since events contain neither comments nor waits."""

    def __init__(self, client: MasterClient) -> None:
        self._client = client
        self._next = 0.0

    def look(self, number: int) -> Optional[ChainView]:
        """Return the whole chain, or None if the next request is not due."""
        begun = time.monotonic()
        if begun < self._next:
            return None
        found = self._client.ask(chains.SHOW, ChainRef(str(number)))
        now = time.monotonic()
        self._next = now + max(_LOOK_SECONDS, (now - begun) * _LOOK_SHARE)
        return found


def follow_chain(client: MasterClient, label: str, wait: bool = True) -> int:
    """Print a chain's stream until it has ended; return the exit code.

    Args:
        client: of the master.
        label: of the chain, or its number.
        wait: whether to watch a draft until it is scheduled and has ended.

    Raises:
        UsageError: it is a draft, and *wait* is false.
        UnreachableError: the connection to the master broke; the message says how to continue.
    """
    watch = _Watch(client, label)
    try:
        view = watch.follow(wait)
    except KeyboardInterrupt:
        number = watch.view.id if watch.view else label
        click.echo(f"detached; the chain continues: catena chain watch {number}", err=True)
        return 130
    except UnreachableError as error:
        if watch.view is None:
            raise
        text = f"{error}; the chain continues: catena chain watch {watch.view.id}"
        raise UnreachableError(text) from None
    print(f"\n{chain_text(view, wants_colour())}")
    return 0 if view.state == "done" else 1


class _Watch:
    """Shows a chain while it runs.

    Args:
        client: of the master.
        label: of the chain, or its number.
    """

    def __init__(self, client: MasterClient, label: str) -> None:
        #: The chain as the master described it last; None before the first item.
        self.view: Optional[ChainView] = None
        self._client = client
        self._label = label

    def follow(self, wait: bool) -> ChainView:
        """Show the chain until it has ended, and return its final view."""
        board, looks, colour = ChainBoard(), _Looks(self._client), wants_colour()
        items = self._client.follow(chains.WATCH, ChainRef(self._label))
        view = self.view = _first(items)
        _check_scheduled(view, wait)
        board.feed(view)
        print(f"chain {view.id} {printable(view.label)}: {view.state}", flush=True)
        printed = PrintedLines()
        with live(board.board) as screen:
            for item in items:
                if screen is None:
                    _print(view, item, printed, colour)
                if isinstance(item, ChainView):
                    view = self.view = item
                if screen is not None:
                    later = looks.look(view.id) if isinstance(item, ChainEventItem) else None
                    with screen.lock:
                        board.feed(item)
                        if later is not None:
                            board.feed(later)
        return view


def _first(items: Iterator[ChainItem]) -> ChainView:
    """Return the first item of a stream, which describes the whole chain."""
    first = next(items)
    if not isinstance(first, ChainView):
        raise PeerError("the first item of a watched chain does not describe the chain")
    return first


def _print(view: ChainView, item: ChainItem, printed: PrintedLines, colour: bool) -> None:
    """Print an event of a chain, and what its commands print: that on stderr."""
    rest: List[str] = []
    if isinstance(item, ChainEventItem):
        for line in event_lines(view, item, colour):
            print(line, flush=True)
        # An action begins or ends: what its command left of a line is complete.
        rest = printed.end(str(item.data.get("minion", "")))
    elif isinstance(item, ChainOutputItem):
        rest = printed.feed(vars(item))
    for line in rest:
        print(line, file=sys.stderr, flush=True)


def _check_scheduled(view: ChainView, wait: bool) -> None:
    """Raise UsageError for a draft, unless *wait* is set."""
    if view.state == "draft" and not wait:
        raise UsageError(
            f"chain {view.id} {printable(view.label)} is a draft: nothing runs before catena "
            f"chain schedule {view.id}; use --wait to wait for that"
        )
