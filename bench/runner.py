"""Measure rows: the tools alternate, fixtures start on demand, errors do not end the run."""

from __future__ import annotations

import fnmatch
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from bench import table
from bench.errors import BenchError, NotHereError
from bench.lab import Lab
from bench.row import TOOLS, Cell, Outcome, Row, Sample
from bench.tools import Tools

#: Seconds after which a tool is not measured again in a row, in a full and a quick run.
ENOUGH_SECONDS, QUICK_ENOUGH_SECONDS = 45.0, 6.0


def chosen(rows: Sequence[Row], patterns: Sequence[str]) -> list[Row]:
    """Return the rows whose name fits one of *patterns*; all rows without patterns."""
    if not patterns:
        return list(rows)
    return [row for row in rows if any(fnmatch.fnmatchcase(row.name, p) for p in patterns)]


def run(selected: Mapping[str, Sequence[Row]], tools: Tools, quick: bool) -> Iterator[Outcome]:
    """Measure rows by area; the fixtures of an area end with it."""
    for area, rows in selected.items():
        if not rows:
            continue
        with Lab(tools, quick) as lab:
            for row in rows:
                begun = time.monotonic()
                outcome = measure(row, lab)
                spent = time.monotonic() - begun
                print(f"{spent:6.1f} s  {area}: {_said(outcome)}", file=sys.stderr, flush=True)
                yield outcome


def measure(row: Row, lab: Lab) -> Outcome:
    """Measure a row; the tools alternate, so that a change of the load affects all of them."""
    turns = {tool: row.rounds(tool, lab.quick) for tool in TOOLS if tool in row.tools}
    samples: dict[str, list[Sample]] = {tool: [] for tool, count in turns.items() if count}
    spent = dict.fromkeys(samples, 0.0)
    faults: dict[str, Cell] = {}
    enough = QUICK_ENOUGH_SECONDS if lab.quick else ENOUGH_SECONDS
    for turn in range(max(turns.values(), default=0)):
        for tool in samples:
            if tool in faults or turn >= turns[tool] or (turn and spent[tool] > enough):
                continue
            begun = time.monotonic()
            try:
                samples[tool].append(_one(row, tool, lab))
            except Exception as error:  # noqa: BLE001 - the edge: it stands in the table
                faults[tool] = _fault(error)
            spent[tool] += time.monotonic() - begun
    return Outcome(row, {tool: faults.get(tool, Cell(tuple(samples[tool]))) for tool in samples})


def _one(row: Row, tool: str, lab: Lab) -> Sample:
    if not lab.tools.has(tool):
        raise NotHereError(f"{tool} is not installed")
    return row.tools[tool](lab)


def _fault(error: Exception) -> Cell:
    why = str(error) if isinstance(error, BenchError) else repr(error)
    return Cell((), why, failed=not isinstance(error, NotHereError))


def _said(outcome: Outcome) -> str:
    parts = []
    for tool, cell in outcome.cells.items():
        value = cell.value
        found = cell.why if value is None else table.with_unit(value, outcome.row.unit)
        parts.append(f"{tool} {' '.join(found.split())[:120]}")
    return f"{outcome.row.name}: {'; '.join(parts) or 'left out of this run'}"
