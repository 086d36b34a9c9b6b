"""Results of alternatives.* with a tool in memory."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.errors import CommandExecutionError
from catena.states import alternatives


class Tool:
    """Stands for a context whose execution functions keep one group of choices in memory."""

    def __init__(self, *, test: bool = False, missing: bool = False) -> None:
        self.test = test
        self.missing = missing
        self.choices: dict[str, int] = {}
        self.current: Any = False
        self.mode = "auto"
        self.changed: list[str] = []

    def call(self, name: str, *args: Any) -> Any:
        if self.missing:
            raise CommandExecutionError("no such program; it is in the package dpkg")
        fun = name.partition(".")[2]
        if fun in ("install", "remove", "auto", "set"):
            self.changed.append(fun)
        return getattr(self, f"do_{fun}")(*args)

    def do_check_exists(self, name: str, path: str) -> bool:
        return path in self.choices

    def do_check_installed(self, name: str, path: str) -> bool:
        return bool(self.current == path)

    def do_show_current(self, name: str) -> Any:
        return self.current

    def do_display(self, name: str) -> str:
        return f"{name} - {self.mode} mode\n  link …"

    def do_install(self, name: str, link: str, path: str, priority: int) -> str:
        self.choices[path] = priority
        return self._settle()

    def do_remove(self, name: str, path: str) -> str:
        del self.choices[path]
        self.mode = "auto" if self.current == path else self.mode
        return self._settle()

    def do_auto(self, name: str) -> str:
        self.mode = "auto"
        return self._settle()

    def do_set(self, name: str, path: str) -> str:
        self.mode, self.current = "manual", path
        return ""

    def _settle(self) -> str:
        if self.mode == "auto":
            self.current = max(self.choices, key=self.choices.__getitem__, default=False)
        return f"using {self.current}"


def ask(tool: Tool, fun: str, *args: Any) -> Any:
    return getattr(alternatives, fun)(tool, "editor", *args)


def filled(**options: Any) -> Tool:
    tool = Tool()
    for path, priority in (("/opt/a", 10), ("/opt/b", 20)):
        tool.do_install("editor", "/usr/bin/editor", path, priority)
    tool.do_set("editor", "/opt/a")
    tool.test = options.get("test", False)
    return tool


CALLS = [
    ("install", "/usr/bin/editor", "/opt/c", 30),
    ("remove", "/opt/a"),
    ("auto",),
    ("set_", "/opt/b"),
]


@pytest.mark.parametrize("call", CALLS)
def test_second_run_changes_nothing(call: Any) -> None:
    tool = filled()
    first = ask(tool, *call)
    assert first.result is True
    assert first.changes
    changed = list(tool.changed)
    second = ask(tool, *call)
    assert (second.result, second.changes) == (True, {})
    assert tool.changed == changed


@pytest.mark.parametrize("call", CALLS)
def test_test_mode_reports_and_changes_nothing(call: Any) -> None:
    tool = filled(test=True)
    assert ask(tool, *call).result is None
    assert tool.changed == []


@pytest.mark.parametrize("call", CALLS)
def test_missing_tool_fails_and_names_its_package(call: Any) -> None:
    found = ask(Tool(missing=True), *call)
    assert found.result is False
    assert "package dpkg" in found.comment


def test_choice_that_does_not_become_current_is_registered() -> None:
    tool = filled()
    found = ask(tool, "install", "/usr/bin/editor", "/opt/c", "5")
    assert found.comment.endswith("registered with priority 5 and not set to default")
    assert tool.choices["/opt/c"] == 5


def test_priority_that_is_no_number_is_refused() -> None:
    found = ask(Tool(), "install", "/usr/bin/editor", "/opt/c", "high")
    assert found.result is False
    assert "priority must be a whole number, not 'high'" in found.comment


def test_removal_of_an_unknown_group_fails() -> None:
    assert ask(Tool(), "remove", "/opt/a").comment == "Alternative for editor doesn't exist"
