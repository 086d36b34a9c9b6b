"""Each package of the master has its SQL in its row modules: `rows.py` and `*_rows.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

MASTER = Path(__file__).parents[3] / "master"
#: Packages whose modules hold no queries, except row modules and the exceptions below.
PACKAGES = (
    "chains",
    "events",
    "executions",
    "gate",
    "jobs",
    "keys",
    "minions",
    "process",
    "push",
    "requests",
)
#: Modules with queries that are not row modules, each with the reason.
EXCEPTIONS = {
    "executions/approvals.py": "all queries of the tables of approvals, beside their rules",
    "executions/leases.py": "all queries of the table of leases, beside the typed lease",
    "executions/ledger.py": "the only writer of states builds its statements from life cycles",
    "executions/pauses.py": "all queries of the table of pauses",
}
STATEMENTS = {"sa.select", "sa.insert", "sa.update", "sa.delete", "sa.text"}


def queries(tree: ast.AST) -> Iterator[int]:
    """Yield the line of each call that builds a SQL statement."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "where" or ast.unparse(node.func) in STATEMENTS:
            yield node.lineno


def is_row_module(path: Path) -> bool:
    return path.stem == "rows" or path.stem.endswith("_rows")


def modules_with_queries() -> dict[str, list[int]]:
    """Return the lines of queries outside the row modules of `PACKAGES`, by module."""
    found = {
        str(path.relative_to(MASTER)): sorted(set(queries(ast.parse(path.read_text()))))
        for package in PACKAGES
        for path in sorted((MASTER / package).rglob("*.py"))
        if not is_row_module(path)
    }
    return {name: lines for name, lines in found.items() if lines}


def test_queries_stand_in_row_modules() -> None:
    found = modules_with_queries()
    assert {name: lines for name, lines in found.items() if name not in EXCEPTIONS} == {}


def test_each_exception_has_queries() -> None:
    assert set(EXCEPTIONS) - set(modules_with_queries()) == set()


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("sa.select(RUNS)", True),
        ("sa.insert(RUNS)", True),
        ("sa.update(RUNS)", True),
        ("sa.delete(RUNS)", True),
        ("sa.text('select 1')", True),
        ("rows.RUN_ROWS.where(RUNS.c.id == 1)", True),
        ("RUNS.c.due <= sa.bindparam('b_now')", False),
        ("rows.run(conn, 1)", False),
    ],
)
def test_queries_are_found(code: str, found: bool) -> None:
    assert bool(list(queries(ast.parse(code)))) is found
