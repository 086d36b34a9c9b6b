"""Progress of SSH hosts for the user: a board, or a line for each."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterator, Optional, Sequence

from catena.cli.output.host_board import HostBoard
from catena.cli.output.live import LiveLines
from catena.cli.output.views import live

if TYPE_CHECKING:
    from catena.cli.output.screen import Screen


class HostView:
    """Shows the progress of hosts; several threads may report to it.

    Outside `shown`, without rich, or if stdout is not a terminal, it is a line per host on stderr.

    Args:
        title: what runs on the hosts.
        hosts: their labels.
        width: number of hosts in progress at a time.
    """

    def __init__(self, title: str, hosts: Sequence[str], width: int) -> None:
        self._board = HostBoard(title, hosts, width, time.time())
        self._lines = LiveLines(total=len(hosts))
        self._screen: Optional[Screen] = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the board while the block runs."""
        # Threads of an interrupted command may still report; the ended board ignores it.
        with live(self._board.board) as self._screen:
            yield

    @contextmanager
    def still(self) -> Iterator[None]:
        """Stop drawing, and leave stdout and stderr unchanged, while the block runs.

        A process forked meanwhile inherits neither a lock of the drawing thread nor streams that
        redraw the board.
        """
        if self._screen is None:
            yield
            return
        with self._screen.still():
            yield

    def say(self, host: str, text: str) -> None:
        """Show *text* as the current step of *host*."""
        screen = self._screen
        if screen is None:
            self._lines.say(host, text)
            return
        with screen.lock:
            self._board.say(host, text, time.time())

    def end(self, host: str, failure: str) -> None:
        """Show that *host* is done; *failure* describes what failed there, or is ""."""
        screen = self._screen
        if screen is None:
            self._lines.end(host)
            self._lines.hide()
            return
        with screen.lock:
            self._board.end(host, failure)
