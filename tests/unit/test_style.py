"""Rules of style that no linter checks: sizes of files and functions, names, imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from catena.core.chain_calls import MODULE

ROOT = Path(__file__).parents[2]
FUNCTION_LINES, FILE_LINES, SHORT_LINES = 45, 600, 30

#: Files and functions that may be longer, with the reason.
LONG = {
    # This script runs under the version that wrote the recorded stores, so it no longer changes.
    "tests/cases/upgrade/make_store.py",
    "tests/cases/upgrade/make_store.py site_at",
}
#: Kinds of file that may be short: patterns of `PurePath.match`, with the reason.
SHORT_KINDS = {
    "__init__.py": "Python asks for a file of this name",
    "findings.py": "each package has its findings in a file of this name",
    "migrations/env.py": "Alembic asks for a file of this name",
    "migrations/versions/*.py": "each migration is a file",
    "retention.py": "each package has its retention in a file of this name",
    "cli/*.py": "each group of commands is imported alone",
    "client/replies/*.py": "each topic of verbs is imported alone",
    "client/requests/*.py": "each topic of verbs is imported alone",
    "master/store/*_tables.py": "each package or engine has its tables in a module of their own",
}
#: Other files that may be short, and why they are files of their own.
SHORT = {
    "catena/__main__.py": "Python asks for a file of this name",
    "cli/output/tags.py": "the views of chains and of jobs share it",
    "core/log_lines.py": "the master and the CLI share it; importing logging is slow",
    "core/patterns.py": "the rest of core imports it, and it imports only re",
    "master/engines.py": "the list to which an engine is added",
    "master/gate/rows.py": "each package has its SQL in a file of this name",
    "master/process/limits.py": "the daemon sets it once, at its start",
    "master/runners/dependencies.py": "every runner imports it, and it imports no runner",
    "master/runners/event_runner.py": "each group of runners is a file",
    "master/store/lists.py": "the queries of every package share it",
    "minion/jobs/processes.py": "the name under which the agent's packages know runtime.processes",
    "modules/shared/locations.py": "several modules share it and do not import each other",
    "modules/temp.py": "each execution module is a file",
    "runtime/boot.py": "chains, pushed calls and their functions share it",
    "runtime/garbage.py": "every kind of process calls it at its start",
    "ssh/connect/cache.py": "all of ssh shares it",
    "states/apache_conf.py": "each state module is a file",
    "states/apache_module.py": "each state module is a file",
    "states/apache_site.py": "each state module is a file",
    "states/compiler/selection.py": "one option of state runs, which few runs import",
    "states/stateconf.py": "each state module is a file",
    "transport/messages/events.py": "each topic of messages is imported alone",
    "transport/messages/peer.py": "each topic of messages is imported alone",
    "transport/messages/pillar.py": "each topic of messages is imported alone",
    "transport/zeromq.py": "master and minion import zmq only through it",
}


def packaged() -> Iterator[Path]:
    for folder in (entry for entry in (ROOT / "catena").iterdir() if entry.is_symlink()):
        yield from sorted(folder.resolve().rglob("*.py"))


def sources() -> Iterator[Path]:
    yield from packaged()
    yield from sorted((ROOT / "bench").rglob("*.py"))


def sources_and_tests() -> Iterator[Path]:
    yield from sources()
    yield from sorted((ROOT / "tests").rglob("*.py"))


def lines(path: Path) -> int:
    return path.read_text().count("\n")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("limit", [FILE_LINES])
def test_files_are_at_most_600_lines_long(limit: int) -> None:
    assert [name(p) for p in sources_and_tests() if lines(p) > limit and name(p) not in LONG] == []


def test_short_file_has_a_reason_to_be_one() -> None:
    short = {
        name(path)
        for path in [*packaged(), ROOT / "catena" / "__main__.py"]
        if lines(path) < SHORT_LINES and not any(path.match(pattern) for pattern in SHORT_KINDS)
    }
    assert short == SHORT.keys()


@dataclass(frozen=True)
class Facts:
    """Properties of one file that the tests check."""

    long_functions: tuple[str, ...]
    public_classes: tuple[str, ...]
    #: Modules that are imported when the file is.
    imports: tuple[str, ...]
    #: Lines with a slice of, or a negative index into, the parents of a path.
    odd_parents: tuple[int, ...]
    #: Lines that write out a name of the functions by which chains run.
    chain_names: tuple[int, ...]


@cache
def facts(path: Path) -> Facts:
    """Return the facts of a file; a thousand files are parsed once for all tests."""
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree))
    return Facts(
        tuple(
            node.name
            for node in nodes
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES
        ),
        tuple(
            node.name
            for node in tree.body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        ),
        tuple(_imports(tree.body)),
        tuple(_odd_parents(nodes)),
        tuple(line for line, text in _values(nodes) if MODULE in text),
    )


def _imports(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _odd_parents(nodes: list[ast.AST]) -> Iterator[int]:
    for node in nodes:
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "parents"
            and isinstance(node.slice, (ast.Slice, ast.UnaryOp))
        ):
            yield node.lineno


def test_functions_are_at_most_a_screen_long() -> None:
    long = [
        f"{name(path)} {function}"
        for path in sources_and_tests()
        for function in facts(path).long_functions
    ]
    assert set(long) <= LONG


def test_public_class_names_are_unique() -> None:
    files: dict[str, set[str]] = {}
    for path in packaged():
        for found in facts(path).public_classes:
            files.setdefault(found, set()).add(str(path.relative_to(ROOT)))
    assert {name: found for name, found in files.items() if len(found) > 1} == {}


def test_shared_packages_import_only_the_standard_library() -> None:
    allowed = {"catena", "__future__"}
    for folder in ("core", "modules", "states", "runtime"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in facts(path).imports:
                top = name.split(".")[0]
                assert top in allowed or _is_standard(top), f"{path}: imports {name}"


def _is_standard(name: str) -> bool:
    import sys

    return name in sys.stdlib_module_names


#: Packages that run under Python 3.9 too.
OLD_PYTHON = (
    "core", "transport", "renderers", "fileserver", "modules", "states", "runtime", "pillar",
    "client", "minion", "cli",
)  # fmt: skip


def test_parents_of_a_path_are_neither_sliced_nor_counted_from_the_end() -> None:
    # Python 3.9 raises TypeError or IndexError, and vermin does not know this rule.
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in OLD_PYTHON
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in facts(path).odd_parents
    ]
    assert found == []


#: Modules that may write out names of the functions by which chains run.
CHAIN_NAMES = frozenset({"core/chain_calls.py", "runtime/functions/__init__.py"})


def test_names_of_chain_functions_are_written_in_one_place() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sources()
        if str(path.relative_to(ROOT)) not in CHAIN_NAMES
        for line in facts(path).chain_names
    ]
    assert found == []


def _values(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string that is no docstring; parts of f-strings too."""
    docs = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value
