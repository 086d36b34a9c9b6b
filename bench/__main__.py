"""`python -m bench`: catena, Salt, Ansible, pyinfra and the bare machine on the same work.

python -m bench                      # every row; `make bench` also writes docs/benchmarks.md
python -m bench --quick              # at most five minutes
python -m bench --rows 'ping*' --salt /opt/salt/bin
"""

from __future__ import annotations

import argparse
import fnmatch
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench import machine, table
from bench.areas import AREAS, rows_of
from bench.lab import Lab
from bench.row import TOOLS, BenchError, Cell, NotHereError, Outcome, Row, Sample
from bench.tools import COMMANDS, VARIABLES, Tools, find


def chosen(rows: Sequence[Row], patterns: Sequence[str]) -> list[Row]:
    """Return the rows whose name fits one of *patterns*; all rows without patterns."""
    if not patterns:
        return list(rows)
    return [row for row in rows if any(fnmatch.fnmatchcase(row.name, p) for p in patterns)]


def measure(row: Row, lab: Lab) -> Outcome:
    """Measure a row: the tools take turns, so that a drift of the machine's load meets all."""
    tools = [tool for tool in TOOLS if tool in row.tools and row.rounds(tool, lab.quick)]
    samples: dict[str, list[Sample]] = {tool: [] for tool in tools}
    faults: dict[str, Cell] = {}
    for turn in range(max((row.rounds(tool, lab.quick) for tool in tools), default=0)):
        for tool in tools:
            if tool in faults or turn >= row.rounds(tool, lab.quick):
                continue
            try:
                samples[tool].append(_one(row, tool, lab))
            except Exception as error:  # noqa: BLE001 - the edge: it stands in the table
                absent = isinstance(error, NotHereError)
                why = str(error) if isinstance(error, BenchError) else repr(error)
                faults[tool] = Cell((), why, not absent)
    return Outcome(row, {tool: faults.get(tool, Cell(tuple(samples[tool]))) for tool in tools})


def _one(row: Row, tool: str, lab: Lab) -> Sample:
    if not lab.tools.has(tool):
        raise NotHereError(f"{tool} is not installed")
    return row.tools[tool](lab)


def run_area(name: str, rows: Sequence[Row], tools: Tools, quick: bool) -> list[Outcome]:
    """Measure the rows of one area; their fixtures end with it."""
    outcomes = []
    with Lab(tools, quick) as lab:
        for row in rows:
            begun = time.monotonic()
            outcomes.append(measure(row, lab))
            spent = time.monotonic() - begun
            print(f"{spent:6.1f} s  {name}: {_said(outcomes[-1])}", file=sys.stderr, flush=True)
    return outcomes


def _said(outcome: Outcome) -> str:
    parts = []
    for tool, cell in outcome.cells.items():
        value = cell.value
        found = cell.why if value is None else table.with_unit(value, outcome.row.unit)
        parts.append(f"{tool} {' '.join(found.split())[:120]}")
    return f"{outcome.row.name}: {'; '.join(parts) or 'left out of this run'}"


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="at most five minutes in total")
    parser.add_argument(
        "--rows", action="append", default=[], metavar="GLOB", help="only rows of such names"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    for tool in COMMANDS:
        parser.add_argument(
            f"--{tool}", metavar="PATH",
            help=f"folder of {tool}'s commands or none (${VARIABLES[tool]}; or found on PATH)",
        )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, default=Path("build/bench"), metavar="DIR",
        help="where bench.md and bench.json are written (default: build/bench)",
    )  # fmt: skip
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="page whose table is replaced as well, by a full run of all rows",
    )
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run; return 0, 1 when a measurement failed, 2 for wrong usage."""
    parser = arguments()
    given = parser.parse_args(words)
    selected = {area: chosen(rows_of(area), given.rows) for area in AREAS}
    if not any(selected.values()):
        parser.error(f"no row has such a name: {', '.join(given.rows)}")
    if given.list:
        print("\n".join(f"{r.name:28} {r.title}" for rows in selected.values() for r in rows))
        return 0
    try:
        tools = find({tool: getattr(given, tool) for tool in COMMANDS})
    except NotHereError as error:
        parser.error(str(error))
    # Ended from outside, it ends its fixtures all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    about = machine.describe(tools, given.quick)
    outcomes = [
        outcome
        for area, rows in selected.items()
        if rows
        for outcome in run_area(area, rows, tools, given.quick)
    ]
    finished = machine.finish(about)
    text = f"{machine.sentence(finished)}\n\n{table.markdown(outcomes)}"
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "bench.md").write_text(text, encoding="utf-8")
    (given.out / "bench.json").write_text(table.document(outcomes, finished), encoding="utf-8")
    if given.page and not given.rows and not given.quick:
        table.put_into(given.page, text)
    print(text)
    return 1 if any(cell.failed for o in outcomes for cell in o.cells.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
