"""What a run of the benchmark says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import table
from bench.lab import Lab
from bench.row import Cell, Limit, Outcome, Row, Sample, Times


def never(_lab: Lab) -> Sample:
    raise AssertionError


def row(aim: Times | Limit | None = None, less: bool = True) -> Row:
    tools = dict.fromkeys(("catena", "salt", "pyinfra"), never)
    return Row("r", "a row", "s", tools, aim, less_is_better=less)


def cell(*values: float) -> Cell:
    return Cell(tuple(Sample(value) for value in values))


def outcome(aim: Times | Limit | None, less: bool = True, **cells: Cell) -> Outcome:
    return Outcome(row(aim, less), cells)


def test_cell_shows_the_median_of_values_and_of_cpu() -> None:
    found = Cell((Sample(3.0, 0.3), Sample(1.0), Sample(2.0, 0.1)))
    assert (found.value, found.cpu) == (2.0, 0.2)
    assert (Cell().value, Cell().cpu) == (None, None)


@pytest.mark.parametrize(
    ("aim", "less", "cells", "verdict"),
    [
        (Times(5), True, {"catena": cell(1), "salt": cell(5)}, "met"),
        (Times(5), True, {"catena": cell(1), "salt": cell(4)}, "missed"),
        (Times(30), False, {"catena": cell(450), "salt": cell(15)}, "met"),
        (Times(30), False, {"catena": cell(440), "salt": cell(15)}, "missed"),
        (Limit(3), True, {"catena": cell(3)}, "met"),
        (Limit(3), True, {"catena": cell(3.1)}, "missed"),
        (Limit(5000), False, {"catena": cell(5001)}, "met"),
        (Limit(5000), False, {"catena": cell(4999)}, "missed"),
        (None, True, {"catena": cell(1), "salt": cell(2)}, ""),
        (None, True, {"catena": cell(2), "salt": cell(1)}, "behind salt"),
        (Times(5), True, {"catena": cell(2), "salt": cell(10), "pyinfra": cell(1)},
         "met, behind pyinfra"),
        (Times(5), True, {"catena": cell(1), "salt": Cell((), "not here")}, "not measured"),
        (Times(5), True, {"catena": Cell((), "fell", True), "salt": cell(1)}, "not measured"),
        (Times(5), True, {}, "not measured"),
    ],
)  # fmt: skip
def test_verdict_follows_from_the_aim(
    aim: Times | Limit | None, less: bool, cells: dict[str, Cell], verdict: str
) -> None:
    assert outcome(aim, less, **cells).verdict() == verdict


def test_unmeasured_cells_are_shown() -> None:
    text = table.markdown([
        outcome(Times(5), catena=cell(1), salt=Cell((), "it\nfell", True)),
        outcome(None, catena=cell(1), pyinfra=Cell((), "pyinfra is not installed")),
        outcome(None),
    ])  # fmt: skip
    lines = text.splitlines()
    assert lines[0] == "| row | catena | salt | pyinfra | catena is better by | aim | |"
    assert "**failed**" in lines[2] and "not measured" in lines[2]
    assert "not here" in lines[3]
    assert lines[4].count("not in this run") == 3
    assert "- `r`, salt: it fell" in lines
    assert "- `r`, pyinfra: pyinfra is not installed" in lines


def test_line_shows_figures_ratios_aim_and_verdict() -> None:
    found = Cell((Sample(0.05, 0.04),))
    line = table.markdown([outcome(Times(5), catena=found, salt=cell(0.5), pyinfra=cell(0.04))])
    assert line.splitlines()[2] == (
        "| a row `r` | 0.05 s (0.04 s CPU) | 0.5 s | 0.04 s "
        "| 10× salt, 0.8× pyinfra | 5× Salt | met, behind pyinfra |"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0012345, "0.00123"), (0.5, "0.5"), (12.34, "12.3"), (123.4, "123"),
     (12345.6, "12,346"), (10, "10"), (float("inf"), "inf")],
)  # fmt: skip
def test_figure_has_three_digits(value: float, text: str) -> None:
    assert table.number(value) == text


def test_document_keeps_every_value() -> None:
    text = table.document([outcome(Times(5), catena=cell(1, 3), salt=cell(10))], {"quick": True})
    found = json.loads(text)
    assert found["quick"] is True
    (only,) = found["rows"]
    assert only["tools"]["catena"] == {
        "median": 2.0, "cpu_seconds": None, "values": [1, 3], "why": "", "failed": False,
    }  # fmt: skip
    assert only["ratios"] == {"salt": 5.0} and only["verdict"] == "met"


def test_table_goes_between_the_markers_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    table.put_into(page, "new")
    table.put_into(page, "newer")
    assert page.read_text() == f"before\n{table.BEGIN}\nnewer\n{table.END}\nafter\n"
    page.write_text("nothing")
    with pytest.raises(ValueError, match="has no lines"):
        table.put_into(page, "new")
