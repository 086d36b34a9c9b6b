"""Salt's nested output: indented keys and values."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from catena.cli.output.text import paint, printable

_STEP = 4


def nested(minion: str, value: Any, colour: bool) -> str:
    """Return *value* of *minion* as an indented tree."""
    lines = [paint(f"{minion}:", "green", colour), *tree(value, _STEP, colour)]
    return "\n".join(lines)


def tree(value: Any, indent: int, colour: bool) -> Iterator[str]:
    """Yield the lines of *value*, indented by *indent* spaces."""
    pad = " " * indent
    if isinstance(value, Mapping):
        yield from _mapping(value, indent, colour)
    elif isinstance(value, (list, tuple)):
        yield from _sequence(value, indent, colour)
    elif isinstance(value, str):
        for line in printable(value).splitlines() or [""]:
            yield paint(f"{pad}{line}", "green", colour)
    elif isinstance(value, bytes):
        yield paint(f"{pad}{printable(value.decode('utf-8', 'replace'))}", "green", colour)
    else:
        yield paint(f"{pad}{value}", "yellow", colour)


def _mapping(value: Mapping[Any, Any], indent: int, colour: bool) -> Iterator[str]:
    pad = " " * indent
    if not value:
        yield pad + "----------"
        return
    yield paint(f"{pad}----------", "cyan", colour)
    for key, item in value.items():
        # Keep the key on one line: text at the left margin would look like another minion.
        name = printable(str(key)).replace("\n", "\\n")
        yield paint(f"{pad}{name}:", "cyan", colour)
        yield from tree(item, indent + _STEP, colour)


def _sequence(value: Sequence[Any], indent: int, colour: bool) -> Iterator[str]:
    pad = " " * indent
    for item in value:
        if isinstance(item, (Mapping, list, tuple)):
            yield paint(f"{pad}|_", "green", colour)
            yield from tree(item, indent + 2, colour)
        else:
            text = printable(item) if isinstance(item, str) else str(item)
            first, *rest = text.splitlines() or [""]
            yield paint(f"{pad}- {first}", "green", colour)
            yield from (paint(f"{pad}  {line}", "green", colour) for line in rest)
