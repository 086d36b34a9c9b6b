"""The fault matrix (`tests/cases/faults/matrix.yaml`): read, checked, and as a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

FILE = Path(__file__).parents[1] / "cases/faults/matrix.yaml"
TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Cell:
    """What a fault does to a step, and what shows it."""

    step: str
    fault: str
    code: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Matrix:
    """Everything that the file says."""

    codes: dict[str, str]
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
    codes = {str(name): str(text) for name, text in data["codes"].items()}
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
        "This table has a row for each step of a chain and a column for each injected fault. The",
        "sign in a cell says what happens then. The sections below name the test that shows it,",
        f"or the reason why the fault can't matter. Of {len(matrix.cells)} combinations",
        f"{real} can happen; tests cover {done}. The last steps are those of a host over SSH;",
        "they replace sending, receiving, rebooting and returning.",
        "[Durability](../explanation/durability.md) explains the promises.",
        "",
        "| sign | meaning |",
        "|---|---|",
        *(f"| {code} | {text} |" for code, text in matrix.codes.items()),
        "",
        "| step | " + " | ".join(matrix.faults) + " |",
        "|---" * (len(matrix.faults) + 1) + "|",
    ]
    steps = list(dict.fromkeys(cell.step for cell in matrix.cells))
    for step in steps:
        codes = [cell.code for cell in matrix.cells if cell.step == step]
        lines.append(f"| {step} | " + " | ".join(codes) + " |")
    lines += ["", "| fault | |", "|---|---|"]
    lines += [f"| {name} | {text} |" for name, text in matrix.faults.items()]
    for step in steps:
        lines += ["", f"## {step.capitalize()}", "", "| fault | | shown by |", "|---|---|---|"]
        lines += [_line(matrix, cell) for cell in matrix.cells if cell.step == step]
    return "\n".join(lines) + "\n"


def _line(matrix: Matrix, cell: Cell) -> str:
    if cell.code == "-":
        text = "; ".join(matrix.reasons[word] for word in cell.evidence)
    else:
        text = ", ".join(f"`{matrix.tests[word]}`" for word in cell.evidence)
    return f"| {cell.fault} | {cell.code} | {text} |"
