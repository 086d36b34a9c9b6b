"""The fault matrix (`tests/cases/faults/matrix.yaml`): read, checked, and as a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import yaml

FILE = Path(__file__).parents[1] / "cases/faults/matrix.yaml"
TESTS = Path(__file__).parents[1]


class Effect(NamedTuple):
    """What a fault does to a chain."""

    happens: str
    #: What a user sees of it; "" for a fault that cannot matter.
    seen: str


@dataclass(frozen=True)
class Cell:
    """What a fault does to a step, and the names of tests or reasons that show it."""

    step: str
    fault: str
    code: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Matrix:
    """Everything that the file says."""

    codes: dict[str, Effect]
    faults: dict[str, str]
    tests: dict[str, str]
    reasons: dict[str, str]
    cells: tuple[Cell, ...]

    def mistakes(self) -> Iterator[str]:
        """Yield what does not fit together."""
        for cell in self.cells:
            place = f"{cell.step} / {cell.fault}"
            if cell.code not in self.codes:
                yield f"{place}: no code {cell.code!r}"
            known = self.reasons if cell.code == "-" else self.tests
            yield from (f"{place}: no {word!r}" for word in cell.evidence if word not in known)
            if not cell.evidence:
                yield f"{place}: says nothing"
        used = {word for cell in self.cells for word in cell.evidence}
        for word in (self.tests.keys() | self.reasons.keys()) - used:
            yield f"{word} is used nowhere"
        for word, test in self.tests.items():
            yield from _missing(word, test)

    def covered(self) -> tuple[int, int]:
        """Return how many cells a test covers, and how many can happen here."""
        real = [cell for cell in self.cells if cell.code != "-"]
        return sum(1 for cell in real if cell.evidence), len(real)


def _missing(word: str, test: str) -> Iterator[str]:
    file, _, name = test.partition("::")
    path = TESTS / file
    start = re.compile(rf"^(async )?def {name}\(", re.MULTILINE)
    if not path.is_file() or not start.search(path.read_text()):
        yield f"{word}: there is no test {test}"


def read() -> Matrix:
    """Return the matrix; a cell that is missing is one with no code."""
    data = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    cells = []
    for step, row in data["steps"].items():
        given = {str(fault): str(text) for fault, text in row.items()}
        for fault in map(str, data["faults"]):
            code, _, rest = given.get(fault, "").partition(" ")
            evidence = tuple(word.strip() for word in rest.split(",") if word.strip())
            cells.append(Cell(str(step), fault, code, evidence))
    faults = {str(name): str(text) for name, text in data["faults"].items()}
    codes = {str(name): Effect(**effect) for name, effect in data["codes"].items()}
    return Matrix(codes, faults, data["tests"], data["reasons"], tuple(cells))


def page() -> str:
    """Return docs/reference/faults.md."""
    matrix = read()
    done, real = matrix.covered()
    lines = [
        "# What a fault does to a chain",
        "",
        "<!-- Made by tests/support/fault_matrix.py (make docs); do not edit. -->",
        "",
        "Each step of a chain is tested with each fault. The overview has one letter per step and",
        "fault. Below it, each step has a table of its faults: what happens, what you see, and",
        "the test that shows it (a file below `tests/`).",
        "",
        f"There are {len(matrix.cells)} pairs of step and fault. Of them, {real} can occur, and",
        f"tests cover {done}. The last steps are those of a host over SSH. They replace sending,",
        "receiving, rebooting and returning. [Durability](../explanation/durability.md) explains",
        "what catena promises.",
        "",
        "| letter | what happens | what you see |",
        "|---|---|---|",
        *(f"| {code} | {each.happens} | {each.seen} |" for code, each in matrix.codes.items()),
        "",
        "| short | fault |",
        "|---|---|",
        *(f"| {name} | {text} |" for name, text in matrix.faults.items()),
        "",
        "| step | " + " | ".join(matrix.faults) + " |",
        "|---" * (len(matrix.faults) + 1) + "|",
    ]
    steps = list(dict.fromkeys(cell.step for cell in matrix.cells))
    for step in steps:
        codes = [cell.code for cell in matrix.cells if cell.step == step]
        lines.append(f"| {step} | " + " | ".join(codes) + " |")
    for step in steps:
        lines += _section(matrix, step)
    return "\n".join(lines) + "\n"


def _section(matrix: Matrix, step: str) -> list[str]:
    """Return the lines about one step: its faults, and those that cannot matter."""
    cells = [cell for cell in matrix.cells if cell.step == step]
    lines = ["", f"## {step[0].upper()}{step[1:]}", ""]
    lines += ["| fault | what happens | what you see | test |", "|---|---|---|---|"]
    for cell in cells:
        if cell.code == "-":
            continue
        fault, (happens, seen) = _sentence(matrix.faults[cell.fault]), matrix.codes[cell.code]
        tests = "<br>".join(f"`{matrix.tests[name]}`" for name in cell.evidence)
        lines.append(f"| {fault} | {happens} | {seen} | {tests} |")
    without = [cell for cell in cells if cell.code == "-"]
    if without:
        lines += ["", "These faults cannot matter in this step:", ""]
    for cell in without:
        reason = "; ".join(matrix.reasons[name] for name in cell.evidence)
        lines.append(f"- {_sentence(matrix.faults[cell.fault])}: {reason}.")
    return lines


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
