"""What a user sees of hosts while a command works on them: a board, or a line for each."""

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
    """Shows the progress of hosts; may be told of it by several threads.

    It is a line per host on stderr without `shown`, without rich and where stdout is no terminal.

    Args:
        title: what runs on the hosts.
        hosts: their labels.
        width: hosts that are worked on at a time.
    """

    def __init__(self, title: str, hosts: Sequence[str], width: int) -> None:
        self._board = HostBoard(title, hosts, width, time.time())
        self._lines = LiveLines(total=len(hosts))
        self._screen: Optional[Screen] = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the board while the block runs."""
        # Threads of an interrupted command may still report: the ended board takes it.
        with live(self._board.board) as self._screen:
            yield

    @contextmanager
    def still(self) -> Iterator[None]:
        """Draw nothing, and leave stdout and stderr as they were, while the block runs.

        A process that is forked then inherits neither a lock of the drawing thread nor streams
        that redraw the board.
        """
        if self._screen is None:
            yield
            return
        with self._screen.still():
            yield

    def say(self, host: str, text: str) -> None:
        """Show *text* as what *host* is doing."""
        screen = self._screen
        if screen is None:
            self._lines.say(host, text)
            return
        with screen.lock:
            self._board.say(host, text, time.time())

    def end(self, host: str, failure: str) -> None:
        """Show that *host* is done; *failure* says what failed there, "" that nothing did."""
        screen = self._screen
        if screen is None:
            self._lines.end(host)
            self._lines.hide()
            return
        with screen.lock:
            self._board.end(host, failure)
