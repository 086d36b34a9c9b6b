"""alias.* on a file of aliases."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.plugins import FunctionMark, Registry
from catena.modules.shared import programs
from catena.modules.shared.command.run import Ran
from catena.states import alias
from tests.unit.states.conftest import MakeWorld

TEXT = """# See man 5 aliases for format
postmaster:    root
root: me@example.org,
   you@example.org
"quoted name" : | /bin/true
list: a@example.org, b@example.org # kept
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "aliases"
    path.write_text(TEXT)
    return path


@pytest.fixture
def context(world: MakeWorld, file: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.setattr(shutil, "which", lambda name, path: None)
    made = world(opts={"aliases.file": str(file)}).context
    return made.with_(functions=Registry("function", modules.INDEX, FunctionMark))


CALLS = [
    ("present", ("new", "x@example.org")),
    ("present", ("new", ["x@example.org", "y@example.org"])),
    ("present", ("list", "c@example.org")),
    ("present", ("quoted name", "root")),
    ("present", ("other name", "root")),
    ("absent", ("root",)),
    ("absent", ("quoted name",)),
]


@pytest.mark.parametrize(("fun", "arguments"), CALLS)
def test_second_run_changes_nothing(
    context: Context, file: Path, fun: str, arguments: Any
) -> None:
    state = getattr(alias, fun)
    first = state(context, *arguments)
    assert first.result is True
    assert first.changes == {"alias": arguments[0]}
    before = file.read_text(), file.stat().st_ino
    second = state(context, *arguments)
    assert (second.result, second.changes) == (True, {})
    assert (file.read_text(), file.stat().st_ino) == before
    assert before[0].startswith("# See man 5 aliases for format\npostmaster:    root\n")


@pytest.mark.parametrize(("fun", "arguments"), CALLS)
def test_test_mode_reports_and_writes_nothing(
    context: Context, file: Path, fun: str, arguments: Any
) -> None:
    found = getattr(alias, fun)(context.with_(test=True), *arguments)
    assert (found.result, found.changes) == (None, {})
    assert file.read_text() == TEXT


def test_targets_are_read_with_their_continuation_lines(context: Context) -> None:
    assert context.call("aliases.list_aliases") == {
        "postmaster": "root",
        "root": "me@example.org, you@example.org",
        "quoted name": "| /bin/true",
        "list": "a@example.org, b@example.org",
    }
    assert context.call("aliases.get_target", "none") == ""
    assert context.call("aliases.has_target", "list", ["a@example.org", "b@example.org"])


def test_remark_of_a_changed_alias_stays(context: Context, file: Path) -> None:
    alias.present(context, "list", "c@example.org")
    assert "list: c@example.org # kept\n" in file.read_text()
    alias.absent(context, "root")
    assert "you@example.org" not in file.read_text()


def test_newaliases_is_run_after_a_change(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def look(context: Any, words: list[str], package: str) -> Ran:
        calls.append(words)
        return Ran(1, 0, "", "")

    monkeypatch.setattr(shutil, "which", lambda name, path: f"/usr/bin/{name}")
    monkeypatch.setattr(programs, "look", look)
    for _ in range(2):
        alias.present(context, "new", "root")
    assert calls == [["newaliases"]]


@pytest.mark.parametrize(
    ("name", "target", "told"),
    [
        ("new", "", "an alias needs a target"),
        ("new", [], "an alias needs a target"),
        ("new", None, "an alias needs a target"),
        ("new", "a\nroot: evil", "must be one line"),
        ("a: b", "root", "'a: b' can't be an alias"),
        ("a\nb", "root", "can't be an alias"),
    ],
)
def test_bad_input_fails(context: Context, file: Path, name: str, target: Any, told: str) -> None:
    found = alias.present(context, name, target)
    assert found.result is False
    assert told in found.comment
    assert file.read_text() == TEXT


def test_missing_file_is_created(context: Context, file: Path) -> None:
    file.unlink()
    assert alias.absent(context, "root").changes == {}
    assert not file.exists()
    alias.present(context, "root", "me@example.org")
    assert file.read_text() == "root: me@example.org\n"
