"""A line per host on stderr while many are in progress; nothing if stderr is not a terminal."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import Dict, Optional, TextIO

from catena.cli.output.text import printable

#: Maximum number of lines; of more hosts, the latest are shown.
_SHOWN = 20


class LiveLines:
    """The current step of each host, redrawn in place.

    Args:
        stream: stderr by default; nothing is written unless it is a terminal.
        total: number of hosts; above one, a first line shows how many are done and the time.
    """

    def __init__(self, stream: Optional[TextIO] = None, total: int = 0) -> None:
        self._stream = stream or sys.stderr
        self._on = self._stream.isatty()
        self._lines: Dict[str, str] = {}
        self._drawn = 0
        self._total, self._done, self._begun = total, 0, time.monotonic()
        self._lock = threading.Lock()

    def say(self, host: str, text: str) -> None:
        """Show *text* as the current step of *host*."""
        with self._lock:
            self._lines.pop(host, None)
            self._lines[host] = text
            self._draw()

    def end(self, host: str) -> None:
        """Remove the line of *host*."""
        with self._lock:
            self._lines.pop(host, None)
            self._done += 1
            self._draw()

    def hide(self) -> None:
        """Remove all lines from the terminal, so that something else can be printed."""
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
        more = f", {hidden} more in progress" if hidden else ""
        return f"{self._done} of {self._total} hosts done, {minutes}:{seconds:02}{more}"

    def _erase(self) -> None:
        if self._on and self._drawn:
            self._stream.write(f"\x1b[{self._drawn}F\x1b[J")
        self._drawn = 0
