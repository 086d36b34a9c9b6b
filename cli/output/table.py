"""Plain tables for lists."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any, List, Mapping, Sequence

from catena.cli.output.text import printable


def clock(seconds: float, with_date: bool = False) -> str:
    """Return a time in local time; "-" for 0."""
    if not seconds:
        return "-"
    form = "%Y-%m-%d %H:%M:%S" if with_date else "%H:%M:%S"
    return datetime.fromtimestamp(seconds).astimezone().strftime(form)


def age(seconds: float) -> str:
    """Return the time since a moment in its largest unit; "-" for 0."""
    if not seconds:
        return "-"
    past = max(0, int(time.time() - seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if past >= size:
            return f"{past // size}{unit}"
    return f"{past}s"


def cell(value: Any) -> str:
    """Return one value as the text of a cell."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={item}" for key, item in value.items()) or "-"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value) or "-"
    return printable(str(value)).replace("\n", " ")


def table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], widest: int = 60) -> str:
    """Return *rows* under *columns*, each as wide as its content (at most *widest*).

    The last column is never truncated, because it contains reasons.
    """
    texts: List[List[str]] = [[cell(row.get(name)) for name in columns] for row in rows]
    widths = [
        min(widest, max([len(name), *(len(line[index]) for line in texts)]))
        for index, name in enumerate(columns[:-1])
    ] + [0]
    lines = ["  ".join(f"{name.upper():{width}}" for name, width in zip(columns, widths))]
    for line in texts:
        cut = [
            text if not width or len(text) <= width else text[: width - 1] + "…"
            for text, width in zip(line, widths)
        ]
        lines.append("  ".join(f"{text:{width}}" for text, width in zip(cut, widths)))
    return "\n".join(line.rstrip() for line in lines)
