"""Each package of the master has its SQL in its row modules: `rows.py` and `*_rows.py`.

Their functions return typed records, never rows of SQLAlchemy.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import pytest
import sqlalchemy as sa

MASTER = Path(__file__).parents[3] / "master"
#: Packages of the master that may have queries in any module, each with the reason.
UNCHECKED = {
    "store": "it provides the tables, the migrations and the connections",
}
#: Packages whose modules hold no queries, except row modules and the exceptions below.
PACKAGES = tuple(
    sorted(
        path.parent.name
        for path in MASTER.glob("*/__init__.py")
        if path.parent.name not in UNCHECKED
    )
)
#: Modules with queries that are not row modules, each with the reason.
EXCEPTIONS = {
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


def row_modules() -> Iterator[str]:
    """Yield the names of the row modules of `PACKAGES`."""
    for package in PACKAGES:
        for path in sorted((MASTER / package).rglob("*.py")):
            if is_row_module(path):
                parts = path.relative_to(MASTER).with_suffix("").parts
                yield ".".join(("catena", "master", *parts))


def public_functions(module: Any) -> Iterator[Any]:
    """Yield the public functions that a module defines, with those of its classes."""
    owners = [module, *filter(inspect.isclass, vars(module).values())]
    for name, member in ((name, each) for owner in owners for name, each in vars(owner).items()):
        function = getattr(member, "fget", member)
        if not name.startswith("_") and inspect.isfunction(function):
            if function.__module__ == module.__name__:
                yield function


def hands_out_rows(hint: Any) -> bool:
    """Return whether a value of a type is, or contains, a row or result of SQLAlchemy.

    Any as the whole type may be a row, too; within a record or a mapping it is a column.
    """
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if kind is Any:
        return True
    if inspect.isclass(kind):
        if issubclass(kind, (sa.Row, sa.RowMapping, sa.Result)):
            return True
        if issubclass(kind, (Mapping, tuple)):
            arguments = tuple(each for each in arguments if each is not Any)
    return any(map(hands_out_rows, arguments))


def mentions_of_rows(tree: ast.AST) -> list[int]:
    """Return the lines that name the type of SQLAlchemy's rows."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return [node.lineno for node in nodes if ast.unparse(node) in ("sa.Row", "sa.RowMapping")]


def test_functions_of_row_modules_return_records() -> None:
    found = [
        f"{function.__module__}.{function.__qualname__}"
        for name in row_modules()
        for function in public_functions(importlib.import_module(name))
        if hands_out_rows(get_type_hints(function).get("return", Any))
    ]
    assert found == []


def test_only_row_modules_name_the_type_of_rows() -> None:
    found = [
        f"{path.relative_to(MASTER)}:{line}"
        for package in PACKAGES
        for path in sorted((MASTER / package).rglob("*.py"))
        if not is_row_module(path)
        for line in mentions_of_rows(ast.parse(path.read_text()))
    ]
    assert found == []


def test_queries_stand_in_row_modules() -> None:
    found = modules_with_queries()
    assert {name: lines for name, lines in found.items() if name not in EXCEPTIONS} == {}


def test_each_unchecked_package_exists() -> None:
    assert [name for name in UNCHECKED if not (MASTER / name / "__init__.py").is_file()] == []


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


class Boat(NamedTuple):
    """A record with a column of any type."""

    cargo: Any


@pytest.mark.parametrize(
    ("hint", "found"),
    [
        (sa.Row[Any], True),
        (sa.Row[Any] | None, True),
        (sa.RowMapping, True),
        (Sequence[sa.Row[tuple[int]]], True),
        (dict[str, sa.Row[Any]], True),
        (sa.CursorResult[Any], True),
        (Any, True),
        (list[Any], True),
        (Boat | None, False),
        (list[Boat], False),
        (tuple[Boat, int], False),
        (Mapping[str, Any], False),
        (dict[str, dict[str, Any]], False),
        (None, False),
    ],
)
def test_rows_in_types_are_found(hint: Any, found: bool) -> None:
    assert hands_out_rows(hint) is found
