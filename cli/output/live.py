"""A line per host on stderr while many are worked on; nothing where stderr is no terminal."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import Dict, Optional, TextIO

from catena.cli.output.text import printable

#: Lines that are shown; of more hosts, those that came last.
_SHOWN = 20


class LiveLines:
    """What each host is doing, redrawn in place.

    Args:
        stream: where to, stderr by default; anything but a terminal gets nothing.
        total: of hosts; of more than one a first line says how many are done and for how long.
    """

    def __init__(self, stream: Optional[TextIO] = None, total: int = 0) -> None:
        self._stream = stream or sys.stderr
        self._on = self._stream.isatty()
        self._lines: Dict[str, str] = {}
        self._drawn = 0
        self._total, self._done, self._begun = total, 0, time.monotonic()
        self._lock = threading.Lock()

    def say(self, host: str, text: str) -> None:
        """Show *text* as what *host* is doing."""
        with self._lock:
            self._lines.pop(host, None)
            self._lines[host] = text
            self._draw()

    def end(self, host: str) -> None:
        """Take the line of *host* away."""
        with self._lock:
            self._lines.pop(host, None)
            self._done += 1
            self._draw()

    def hide(self) -> None:
        """Take all lines off the terminal, so that something else can be printed."""
        with self._lock:
            self._erase()
            self._stream.flush()

    def _draw(self) -> None:
        if not self._on:
            return
        self._erase()
        width = shutil.get_terminal_size().columns
        shown = list(self._lines.items())[-_SHOWN:]
        lines = [f"{host}: {text}" for host, text in shown]
        if self._total > 1:
            lines.insert(0, self._head(len(self._lines) - len(shown)))
        for line in lines:
            self._stream.write(printable(line)[: width - 1] + "\n")
        self._drawn = len(lines)
        self._stream.flush()

    def _head(self, hidden: int) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._begun), 60)
        more = f", {hidden} more at work than shown" if hidden else ""
        return f"{self._done} of {self._total} hosts done, {minutes}:{seconds:02}{more}"

    def _erase(self) -> None:
        if self._on and self._drawn:
            self._stream.write(f"\x1b[{self._drawn}F\x1b[J")
        self._drawn = 0
