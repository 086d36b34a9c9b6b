"""The real command on a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

PATIENCE_SECONDS = 60.0


class Terminal:
    """The command on a pseudo-terminal.

    Args:
        etc: folder of its configuration.
        columns: of the terminal.
        rows: of the terminal.
        words: its arguments.
        term: kind of terminal.
        more: variables of its environment.
    """

    def __init__(
        self, etc: Path, columns: int, rows: int, *words: str, term: str = "xterm", **more: str
    ) -> None:
        self.seen = b""
        self._end, inner = pty.openpty()
        self.resize(columns, rows)
        command = [sys.executable, "-m", "catena", "-c", str(etc), *words]
        environment = {**os.environ, "TERM": term, **more}
        environment.pop("COLUMNS", None)
        environment.pop("LINES", None)
        self.process = subprocess.Popen(
            command, stdin=inner, stdout=inner, stderr=inner, env=environment
        )
        os.close(inner)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, found: Callable[[str], object]) -> str:
        """Read until what was written since the last call has it; return that."""
        text, deadline = "", time.monotonic() + PATIENCE_SECONDS
        while not found(text):
            assert time.monotonic() < deadline, text[-3000:]
            if select.select([self._end], [], [], 0.2)[0]:
                try:
                    data = os.read(self._end, 65536)
                except OSError:  # the other side is closed
                    assert found(text), text[-3000:]
                    break
                self.seen += data
                text += data.decode("utf-8", "replace")
        return text

    def frame(self, *texts: str) -> str:
        """Read until one frame drawn since the last call shows all of *texts*; return that frame.

        A read may end within a frame: name every text that a test asserts.
        """
        return next(_showing(self.until(lambda text: any(_showing(text, texts))), texts))

    def rest(self) -> int:
        """Read to the end; return the exit code."""
        try:
            while data := os.read(self._end, 65536):
                self.seen += data
        except OSError:  # the other side is closed
            pass
        return self.process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._end)


def frames(text: str) -> Iterator[str]:
    """Yield what was written between two redraws; the last one may be incomplete."""
    # rich begins a redraw with a carriage return and the erasure of a line.
    return map(plain, text.split("\r\x1b[2K"))


def _showing(text: str, texts: Sequence[str]) -> Iterator[str]:
    return (frame for frame in frames(text) if all(one in frame for one in texts))


def plain(text: str) -> str:
    """Return what a terminal would show of *text*, without the cursor's ways."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
