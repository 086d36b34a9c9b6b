"""Whether a command shows a live view, and the view; lines stay the rule everywhere else."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterator, Optional

if TYPE_CHECKING:
    from catena.cli.output.screen import Screen, Source


def is_live() -> bool:
    """Return whether stdout is a terminal that can redraw what stands on it."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


@contextmanager
def live(source: Source) -> Iterator[Optional[Screen]]:
    """Show the boards of *source* while the block runs.

    Yields None, and shows nothing, where stdout is no terminal, or where rich is not installed:
    it comes with `catena[master]`, and only a master's host has something to watch.
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
