"""Decides whether a command shows a live view, and shows it."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterator, Optional

if TYPE_CHECKING:
    from catena.cli.output.screen import Screen, Source


def is_live() -> bool:
    """Return whether stdout is a terminal that supports redrawing."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


@contextmanager
def live(source: Source) -> Iterator[Optional[Screen]]:
    """Show the boards of *source* while the block runs.

    Yields None and shows nothing if stdout is not a terminal or rich is not installed. rich comes
    with `catena[master]`, since there is something to watch only on a master's host.
    """
    if not is_live():
        yield None
        return
    try:
        from catena.cli.output.screen import Screen
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        yield None
        return
    with Screen(source) as screen:
        yield screen
