"""Plain tables for lists."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence

from catena.cli.output.text import printable


def cell(value: Any) -> str:
    """Return one value as a table shows it."""
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
    """Return *rows* under *columns*, each column as wide as its content (at most *widest*)."""
    texts: List[List[str]] = [[cell(row.get(name)) for name in columns] for row in rows]
    widths = [
        min(widest, max([len(name), *(len(line[index]) for line in texts)]))
        for index, name in enumerate(columns)
    ]
    lines = ["  ".join(f"{name.upper():{width}}" for name, width in zip(columns, widths))]
    for line in texts:
        cut = [
            text if len(text) <= width else text[: width - 1] + "…"
            for text, width in zip(line, widths)
        ]
        lines.append("  ".join(f"{text:{width}}" for text, width in zip(cut, widths)))
    return "\n".join(line.rstrip() for line in lines)
