"""Output table: lists as tables with borders, in Salt's layout."""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from catena.cli.output.nested import tree
from catena.cli.output.text import paint, printable

_STEP = 4
_RULE = "----------"


class _Cells(NamedTuple):
    """The text of a table."""

    #: Titles of the columns; empty for a list of plain values.
    titles: Sequence[str]
    rows: Sequence[Sequence[str]]


def table(minion: str, value: Any, colour: bool) -> str:
    """Return each list of mappings or of plain values in *value* as a table.

    Salt loses what is neither; here the nested output shows it.
    """
    return "\n".join([paint(f"{minion}:", "green", colour), *_shown(value, 0, colour)])


def _shown(value: Any, indent: int, colour: bool) -> Iterator[str]:
    """Yield the lines of what stands below a name at *indent*."""
    pad = " " * indent
    cells = _cells(value)
    if cells is not None:
        yield paint(pad + _RULE, "cyan", colour)
        for line in _drawn(cells):
            yield f"{pad}{' ' * _STEP}{line}"
    elif isinstance(value, Mapping) and value:
        yield paint(pad + _RULE, "cyan", colour)
        inner = " " * (indent + _STEP)
        for key in sorted(value, key=str):
            name = printable(str(key)).replace("\n", "\\n")
            yield paint(f"{inner}{name}:", "cyan", colour)
            yield from _shown(value[key], indent + _STEP, colour)
    else:
        yield from tree(value, indent + _STEP, colour)


def _cells(value: Any) -> Optional[_Cells]:
    """Return the cells of a list of mappings or of plain values, or None."""
    if not isinstance(value, (list, tuple)) or not value:
        return None
    if all(isinstance(row, Mapping) and row for row in value):
        names = sorted({name for row in value for name in row}, key=str)
        titles = [_text(name).capitalize() for name in names]
        return _Cells(titles, [[_text(row.get(name, "")) for name in names] for row in value])
    if any(isinstance(row, (Mapping, list, tuple)) for row in value):
        return None
    return _Cells((), [[_text(row)] for row in value])


def _text(value: Any) -> str:
    return printable(value if isinstance(value, str) else str(value)).replace("\t", " ")


def _drawn(cells: _Cells) -> Iterator[str]:
    """Yield the lines of a table: centred cells, and a rule around each row."""
    rows = [*([cells.titles] if cells.titles else []), *cells.rows]
    split = [[text.splitlines() or [""] for text in row] for row in rows]
    widths = [max(len(line) for cell in column for line in cell) for column in zip(*split)]
    rule = "-" * (sum(widths) + 3 * len(widths) + 1)
    yield rule
    for row in split:
        for number in range(max(len(cell) for cell in row)):
            parts: List[str] = [
                f"{cell[number] if number < len(cell) else '':^{width}}"
                for cell, width in zip(row, widths)
            ]
            yield f"| {' | '.join(parts)} |"
        yield rule
