"""`catena test`: test state trees, formulas and custom modules without a change of this host."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import List, Optional

import click

from catena.cli.output.text import wants_colour


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--match", "-k", default="", help="Run only tests whose name contains this text.")
@click.option(
    "--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write a JUnit report here."
)
@click.option("--quiet", "-q", is_flag=True, help="Show only tests that fail, and the summary.")
def test(folder: Path, match: str, junit: Optional[Path], quiet: bool) -> int:
    """Run the tests in the files *_test.yaml below FOLDER, or in one file.

    Nothing on this host is changed. Exit codes: 0 all tests passed, 1 some failed, 2 a test file
    is malformed or there are no tests.
    """
    # Imported here: completion and help need only the options.
    from catena.cli.testing import parse, report
    from catena.cli.testing.model import KitOutcome
    from catena.cli.testing.session import perform
    from catena.core.errors import UsageError

    colour = wants_colour()
    files = [parse.read(path) for path in parse.files_below(folder)]
    outcomes: List[KitOutcome] = []
    for file in files:
        shown = False
        with tempfile.TemporaryDirectory(prefix="catena-test-") as own:
            for outcome in perform(file, Path(own), match):
                outcomes.append(outcome)
                if quiet and not outcome.failures:
                    continue
                if not shown:
                    print(file.path)
                    shown = True
                for line in report.lines_of(outcome, colour):
                    print(line)
                sys.stdout.flush()
    if not outcomes:
        raise UsageError(f"no test's name contains {match!r}" if match else "there are no tests")
    if junit is not None:
        junit.write_text(report.junit(outcomes), encoding="utf-8")
    print(report.summary(outcomes, colour))
    return 1 if any(outcome.failures for outcome in outcomes) else 0
