from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.schedule import ordered

TESTS = Path(__file__).parents[2]


def item(name: str, root: str = "") -> Any:
    path, _, _ = name.partition("::")
    return SimpleNamespace(name=name, path=TESTS / path, root=root)


def roots_of(one: Any) -> list[str]:
    return [one.root] if one.root else []


def test_long_files_run_first_and_those_with_roots_before_unit_tests() -> None:
    items = [
        item("acceptance/test_readme.py::one"),
        item("acceptance/test_readme.py::two", "bookworm"),
        item("acceptance/test_run.py::one"),
        item("integration/test_room.py::one"),
        item("sim/test_seeds.py::one"),
        item("unit/test_a.py::two"),
        item("unit/test_a.py::one"),
        item("wire/test_b.py::one"),
    ]
    found = ordered(items, roots_of)
    assert [one.name for one in found] == [
        "sim/test_seeds.py::one",
        "acceptance/test_run.py::one",
        "integration/test_room.py::one",
        "acceptance/test_readme.py::one",
        "acceptance/test_readme.py::two",
        "unit/test_a.py::two",
        "unit/test_a.py::one",
        "wire/test_b.py::one",
    ]
