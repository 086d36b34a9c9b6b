"""The sizes that keep the house readable, checked rather than remembered."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FUNCTION_LINES, FILE_LINES = 45, 600


def sources() -> Iterator[Path]:
    for folder in (entry for entry in (ROOT / "catena").iterdir() if entry.is_symlink()):
        yield from sorted(folder.resolve().rglob("*.py"))
    yield from sorted((ROOT / "bench").rglob("*.py"))


@pytest.mark.parametrize("limit", [FILE_LINES])
def test_no_file_is_longer_than_one_idea(limit: int) -> None:
    long = [f"{p.relative_to(ROOT)}" for p in sources() if p.read_text().count("\n") > limit]
    assert not long


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES
    ]
    assert not long


def test_shared_floors_import_only_the_standard_library() -> None:
    allowed = {"catena", "__future__"}
    for folder in ("core", "modules", "states", "runtime"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                names = (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else []
                )
                for name in names:
                    top = name.split(".")[0]
                    assert top in allowed or _is_standard(top), f"{path}: imports {name}"


def _is_standard(name: str) -> bool:
    import sys

    return name in sys.stdlib_module_names
