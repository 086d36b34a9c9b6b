"""`python -m bench`: catena, Salt, Ansible, pyinfra and the bare machine on the same work.

python -m bench                      # every row; `make bench` also writes docs/benchmarks.md
python -m bench --quick              # at most five minutes
python -m bench --rows 'ping*' --salt /opt/salt/bin
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import machine, runner, table
from bench.areas import AREAS, rows_of
from bench.errors import NotHereError
from bench.row import Outcome
from bench.tools import COMMANDS, VARIABLES, find


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
    """Run the benchmark; return 0, 1 if a measurement failed, 2 for wrong usage."""
    parser = arguments()
    given = parser.parse_args(words)
    selected = {area: runner.chosen(rows_of(area), given.rows) for area in AREAS}
    if not any(selected.values()):
        parser.error(f"no row has such a name: {', '.join(given.rows)}")
    if given.list:
        print("\n".join(f"{r.name:28} {r.title}" for rows in selected.values() for r in rows))
        return 0
    try:
        tools = find({tool: getattr(given, tool) for tool in COMMANDS})
    except NotHereError as error:
        parser.error(str(error))
    # SIGTERM must end the fixtures too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    about = machine.describe(tools, given.quick)
    outcomes: list[Outcome] = []
    try:
        for outcome in runner.run(selected, tools, given.quick):
            outcomes.append(outcome)  # an interrupted run keeps its finished rows
    finally:
        text = report(outcomes, about, given.out)
    # A partial or interrupted run does not replace the table of all rows.
    if given.page and not given.rows and not given.quick:
        table.put_into(given.page, text)
    return 1 if any(cell.failed for o in outcomes for cell in o.cells.values()) else 0


def report(outcomes: Sequence[Outcome], about: Mapping[str, object], out: Path) -> str:
    """Write and print the results; return the table with its heading."""
    finished = machine.finish(about)
    text = f"{machine.sentence(finished)}\n\n{table.markdown(outcomes)}"
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench.md").write_text(text, encoding="utf-8")
    (out / "bench.json").write_text(table.document(outcomes, finished), encoding="utf-8")
    print(text)
    return text


if __name__ == "__main__":
    sys.exit(main())
