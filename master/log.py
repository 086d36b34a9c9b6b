"""Where the master's log goes: one line per record, nothing in it that a terminal obeys."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

_LEVELS = {
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
}


class LineFormatter(logging.Formatter):
    """Escapes control characters: names and texts of minions are in the lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return *record* as one printable line; a traceback keeps its lines, indented."""
        text = super().format(record)
        first, _, rest = text.partition("\n")
        lines = [first, *(f"    {line}" for line in rest.splitlines())]
        return "\n".join(_printable(line) for line in lines)


def _printable(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def set_up(log_file: str, level: str) -> None:
    """Send the log to *log_file* ("-": stderr); the file is made with mode 0640."""
    handler: logging.Handler
    if log_file == "-":
        handler = logging.StreamHandler(sys.stderr)
    else:
        path = Path(log_file)
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640))
        handler = logging.FileHandler(path)
    form = LineFormatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    # UTC, as the minions' logs and the events: hosts of a fleet live in several zones.
    form.converter = time.gmtime
    handler.setFormatter(form)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(_LEVELS[level])
    # Alembic tells every start what it looks at.
    logging.getLogger("alembic").setLevel(max(_LEVELS[level], logging.WARNING))
