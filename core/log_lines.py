"""Log lines: one per record, without control characters."""

from __future__ import annotations

import logging


class LineFormatter(logging.Formatter):
    """Escapes control characters, because names and texts of minions appear in the lines."""

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
