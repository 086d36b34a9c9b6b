"""What a run says: the Markdown table and the JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.row import TOOLS, Cell, Limit, Outcome

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
#: Units whose figures stand directly behind the number.
_CLOSE = ("%", "/s")


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the table: a line per row, then the notes of rows and cells."""
    shown = [tool for tool in TOOLS if any(tool in o.row.tools for o in outcomes)]
    lines = [
        f"| row | {' | '.join(shown)} | catena is better by | aim | |",
        "|---|" + "---|" * (len(shown) + 3),
        *(_line(outcome, shown) for outcome in outcomes),
    ]
    notes = [f"- `{o.row.name}`: {o.row.note}" for o in outcomes if o.row.note]
    notes += _reasons(outcomes)
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def _line(outcome: Outcome, shown: Sequence[str]) -> str:
    row = outcome.row
    cells = [_cell(outcome, tool) for tool in shown]
    ratios = [
        f"{number(ratio)}× {tool}"
        for tool in TOOLS[1:-1]
        if (ratio := outcome.ratio(tool)) is not None
    ]
    aim = row.aim
    wanted = "" if aim is None else str(aim)
    if isinstance(aim, Limit):
        wanted = f"{'≤' if row.less_is_better else '≥'} {with_unit(aim.figure, row.unit)}"
    title = f"{row.title} `{row.name}`"
    return f"| {' | '.join([title, *cells, ', '.join(ratios), wanted, outcome.verdict()])} |"


def _cell(outcome: Outcome, tool: str) -> str:
    row = outcome.row
    if tool not in row.tools:
        return ""
    cell = outcome.cells.get(tool)
    if cell is None:
        return "not in this run"
    value = cell.value
    if value is None:
        return "**failed**" if cell.failed else "not here"
    text = with_unit(value, row.unit)
    return text if cell.cpu is None else f"{text} ({number(cell.cpu)} s CPU)"


def _reasons(outcomes: Sequence[Outcome]) -> list[str]:
    """Return why cells have no figure, each reason once with its rows."""
    rows: dict[str, list[str]] = {}
    for outcome in outcomes:
        for tool, cell in outcome.cells.items():
            if cell.why:
                why = f"{tool}: {' '.join(cell.why.split())[:300]}"
                rows.setdefault(why, []).append(f"`{outcome.row.name}`")
    return [f"- {', '.join(names)}, {why}" for why, names in rows.items()]


def number(value: float) -> str:
    """Return a figure with three digits that say something."""
    if value == 0 or value in (float("inf"), float("-inf")):
        return f"{value:g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 0
    while abs(value) * 10**digits < 100 and digits < 6:
        digits += 1
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def with_unit(value: float, unit: str) -> str:
    """Return a figure and its unit."""
    return f"{number(value)}{'' if unit in _CLOSE else ' '}{unit}"


def document(outcomes: Sequence[Outcome], about: Mapping[str, object]) -> str:
    """Return the JSON text of a run: *about* says where and when it was."""
    rows = [
        {
            "name": o.row.name, "title": o.row.title, "unit": o.row.unit,
            "less_is_better": o.row.less_is_better,
            "aim": None if o.row.aim is None else str(o.row.aim), "verdict": o.verdict(),
            "ratios": {t: r for t in TOOLS[1:] if (r := o.ratio(t)) is not None},
            "tools": {tool: _plain(cell) for tool, cell in o.cells.items()},
        }
        for o in outcomes
    ]  # fmt: skip
    return json.dumps({"schema": 1, **about, "rows": rows}, indent=1, ensure_ascii=False) + "\n"


def _plain(cell: Cell) -> Mapping[str, object]:
    return {
        "median": cell.value,
        "cpu_seconds": cell.cpu,
        "values": [sample.value for sample in cell.samples],
        "why": cell.why,
        "failed": cell.failed,
    }


def put_into(page: Path, text: str) -> None:
    """Replace what stands between the markers of a page by *text*.

    Raises:
        ValueError: the page has no markers.
    """
    whole = page.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
