from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Dict, Optional

import pytest

from catena.core.errors import NotFoundError
from catena.core.plugins import FunctionMark, Plugin, Registry, StateMark, function, state


@function(inline=True)
def ping(context: Any) -> bool:
    """Answer."""
    return True


@function(name="list", fails="bool", out="nested")
def list_(context: Any, folder: str, deep: bool = False) -> str:
    return folder


@state(wants=("watch",))
def managed(context: Any, name: str) -> None:
    return None


def helper(context: Any) -> None:
    return None


@pytest.fixture
def module() -> Any:
    made = ModuleType("catena_test_plugins")
    for member in (ping, list_, managed, helper):
        setattr(made, member.__name__, member)
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def registry(late: Any = None, mark: type = FunctionMark) -> Registry:
    return Registry("function", {"box": "catena_test_plugins"}, mark, late)


def test_registry_contains_only_functions_with_its_mark(module: ModuleType) -> None:
    assert registry().names() == ["box.list", "box.ping"]
    assert registry(mark=StateMark).names() == ["box.managed"]


def test_registry_keeps_the_marks_of_functions(module: ModuleType) -> None:
    assert registry()["box.ping"].mark == FunctionMark("ping", inline=True, reads=True)
    assert registry()["box.list"].mark.fails == "bool"
    assert registry(mark=StateMark)["box.managed"].mark.wants == ("watch",)


def test_signature_of_a_plugin_omits_the_context(module: ModuleType) -> None:
    assert list(registry()["box.list"].signature().parameters) == ["folder", "deep"]
    assert registry()["box.ping"].doc() == "Answer."


def test_unknown_plugin_is_refused_with_the_nearest_name(module: ModuleType) -> None:
    assert "box.pinh" not in registry()
    with pytest.raises(
        NotFoundError, match=r"unknown function 'box\.pinh'; did you mean 'box\.ping'"
    ):
        registry()["box.pinh"]


def test_plugin_module_is_imported_on_first_use_only() -> None:
    found = Registry("function", {"gone": "catena_no_such_module"}, FunctionMark)
    assert found.prefixes() == ["gone"]
    with pytest.raises(ModuleNotFoundError):
        _ = found["gone.x"]


def test_custom_module_overrides_a_built_in_one_until_it_is_removed(module: ModuleType) -> None:
    given: Optional[Dict[str, Plugin]] = {"box.own": Plugin("box.own", ping, None, "salt://x.py")}

    def late(prefix: str) -> Optional[Dict[str, Plugin]]:
        return given if prefix == "box" else None

    found = registry(late)
    assert list(found) == ["box.own"]
    given = None
    assert "box.own" in found
    found.forget()
    assert list(found) == ["box.list", "box.ping"]
