"""Which functions of a target run where."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from catena import states
from catena.core.errors import NotFoundError
from catena.core.plugins import FunctionMark, StateMark
from catena.renderers.calls import FunctionCalls
from catena.runtime.session import execution_index
from catena.ssh.push.custom_names import CustomNames
from catena.ssh.push.functions import TargetRegistry, addresses, runs_here


class There:
    """A target that knows some custom functions and notes what it is asked."""

    def __init__(self, *known: str) -> None:
        self.known = known
        self.called: list[str] = []

    def call(
        self, context: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        self.called.append(name)
        return "there"

    def knows(self, name: str, kind: str) -> bool:
        return name in self.known

    def refusal(self, name: str) -> str:
        return f"'{name}' has its reasons"


def registry(there: There, tmp_path: Path, **custom: str) -> TargetRegistry:
    files = {}
    for name, text in custom.items():
        files[f"{name}.py"] = tmp_path / name
        files[f"{name}.py"].write_text(text)
    names = CustomNames(files)
    return TargetRegistry(
        "function", execution_index(), FunctionMark, there, names, tmp_path / "none"
    )


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("grains.get", True),
        ("grains.setval", False),
        ("pillar.get", True),
        ("config.get", True),
        ("cmd.run", False),
        ("file.file_exists", False),
        ("test.ping", False),
        ("state.apply", True),
        ("state.disable", False),
        ("cp.list_master", True),
        ("cp.get_file", False),
        ("defaults.merge", True),
        ("jinja.host_filter", False),
        ("mgractionchains.start", False),
    ],
)
def test_function_without_host_access_runs_on_the_master(
    tmp_path: Path, name: str, here: bool
) -> None:
    there = There()
    plugin = registry(there, tmp_path)[name]
    assert runs_here(name, plugin.mark) is here
    if not here:
        assert plugin.call(None, "x") == "there"
        assert there.called == [name]


def test_path_is_on_the_target_and_address_on_the_master(tmp_path: Path) -> None:
    there = There()
    assert registry(there, tmp_path)["cp.get_file_str"].call(None, "/etc/hostname") == "there"


def test_custom_functions_are_asked_for_and_may_take_the_place_of_built_in_ones(
    tmp_path: Path,
) -> None:
    there = There("mine.say", "other.say", "grains.get")
    found = registry(
        there, tmp_path, mine="", odd="__virtualname__ = 'other'\n", grains="def get(): pass\n"
    )
    for name in there.known:
        assert name in found
        assert found[name].call(None) == "there"
    assert "mine.nope" not in found
    with pytest.raises(NotFoundError, match="has its reasons"):
        found["mine.nope"]
    calls = FunctionCalls(_Context(found))  # type: ignore[arg-type]  # it needs no more
    assert "mine.say" in calls
    assert calls.get("mine.nope") is None


class _Context:
    def __init__(self, functions: TargetRegistry) -> None:
        self.functions = functions


def test_unknown_functions_are_named_with_the_nearest_as_on_a_minion(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"Did you mean .test\.ping."):
        registry(There(), tmp_path)["test.pingg"]


def test_custom_states_are_known_and_take_any_argument(tmp_path: Path) -> None:
    file = tmp_path / "have.py"
    file.write_text("")
    found = TargetRegistry(
        "state",
        states.INDEX,
        StateMark,
        There("have.it"),
        CustomNames({"have.py": file}),
        tmp_path / "none",
    )
    assert "have.it" in found
    assert "have.mod_watch" not in found
    assert "cmd.mod_watch" in found
    assert "kwargs" in found["have.it"].usage()


def test_addresses_are_found_at_any_depth() -> None:
    value = {"a": ["salt://x y", {"b": "sh salt://s.sh?saltenv=dev -v 'salt://q'"}], "c": 1}
    assert set(addresses(value)) == {
        "salt://x y",
        "salt://x",
        "salt://s.sh?saltenv=dev",
        "salt://q",
    }
