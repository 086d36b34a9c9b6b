"""The minion daemon's log: one line per message, to a file or stderr.

The standard library's `logging` would cost an idle agent 0.7 MB.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Callable

from catena.core.clock import Clock
from catena.core.files import SpecialFileError, open_log, write_all

LEVELS = ("error", "warning", "info", "debug")


class Log:
    """Writes messages of the configured level and above.

    Args:
        handle: descriptor to write to.
        level: one of LEVELS.
        clock: the time.
        path: file of *handle*, reopened after rotation; "" if there is none.
    """

    def __init__(self, handle: int, level: str, clock: Clock, path: str = "") -> None:
        self._handle = handle
        self._level = LEVELS.index(level)
        self._clock = clock
        self._path = path

    @classmethod
    def open(cls, path: str, level: str, clock: Clock) -> Log:
        """Return a log that appends to *path*; to stderr if it is "-" or cannot be opened."""
        if path == "-":
            return cls(2, level, clock)
        try:
            Path(path).parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            return cls(open_log(path), level, clock, path)
        except OSError as error:
            sys.stderr.write(f"{path}: {error.strerror}; logging to stderr\n")
        except SpecialFileError as error:
            sys.stderr.write(f"log_file: {error}; logging to stderr\n")
        return cls(2, level, clock)

    @property
    def is_file(self) -> bool:
        """Return whether the log is a file, which another program may rotate."""
        return bool(self._path)

    def reopen(self) -> None:
        """Open the file at the log's path; keep the old one if that fails."""
        if not self._path:
            return
        try:
            fresh = open_log(self._path)
        except (OSError, SpecialFileError):
            # The old file remains open, and the next write tries again.
            return
        os.close(self._handle)
        self._handle = fresh

    def error(self, text: str) -> None:
        """Log an error that somebody has to look at."""
        self._write(0, text)

    def warning(self, text: str) -> None:
        """Log an abnormal condition from which the agent recovers by itself."""
        self._write(1, text)

    def info(self, text: str) -> None:
        """Log normal events: connections, jobs."""
        self._write(2, text)

    def debug(self, text: str) -> None:
        """Log details for debugging the agent."""
        self._write(3, text)

    def _write(self, level: int, text: str) -> None:
        if level > self._level:
            return
        # The text may contain a peer's: write one line without control characters.
        clean = text if text.isprintable() else _escaped(text)
        stamp = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        if self._path and self._was_rotated():
            self.reopen()
        try:
            write_all(self._handle, f"{stamp}Z {LEVELS[level]} {clean}\n".encode())
        except OSError:
            # A full disk must not stop the agent.
            return

    def _was_rotated(self) -> bool:
        """Return whether the log's path no longer leads to the open file."""
        try:
            return not os.path.samestat(Path(self._path).stat(), os.fstat(self._handle))
        except OSError:
            return True


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


#: Type of a method of Log, for parts of the daemon that use only one.
Say = Callable[[str], None]
