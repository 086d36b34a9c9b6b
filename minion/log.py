"""The daemon's log: one line each, into a file or stderr.

The standard library's `logging` costs an idle agent 0.7 MB.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Callable

from catena.core.clock import Clock
from catena.core.files import write_all

LEVELS = ("error", "warning", "info", "debug")


class Log:
    """Writes lines of at most the set level.

    Args:
        handle: descriptor to write to.
        level: one of LEVELS.
        clock: the time.
    """

    def __init__(self, handle: int, level: str, clock: Clock) -> None:
        self._handle = handle
        self._level = LEVELS.index(level)
        self._clock = clock

    @classmethod
    def open(cls, path: str, level: str, clock: Clock) -> Log:
        """Return a log that appends to *path*; to stderr when it is "-" or can't be opened."""
        if path == "-":
            return cls(2, level, clock)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            Path(path).parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            return cls(os.open(path, flags, 0o640), level, clock)
        except OSError as error:
            sys.stderr.write(f"{path}: {error.strerror}; logging to stderr\n")
            return cls(2, level, clock)

    def error(self, text: str) -> None:
        """Log what somebody has to look at."""
        self._write(0, text)

    def warning(self, text: str) -> None:
        """Log what is not as it should be and mends itself."""
        self._write(1, text)

    def info(self, text: str) -> None:
        """Log what happens: connections, jobs."""
        self._write(2, text)

    def debug(self, text: str) -> None:
        """Log details for who looks for a fault of ours."""
        self._write(3, text)

    def _write(self, level: int, text: str) -> None:
        if level > self._level:
            return
        # What a peer sent may be in the text: one line, no control characters.
        clean = text if text.isprintable() else _escaped(text)
        stamp = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        try:
            write_all(self._handle, f"{stamp}Z {LEVELS[level]} {clean}\n".encode())
        except OSError:
            # A full disk must not stop the agent.
            return


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


#: What parts of the daemon need of it.
Say = Callable[[str], None]
