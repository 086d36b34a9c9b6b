"""gem.* with the real gem, without a network, and gems that the test makes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.types import StateResult
from catena.modules.shared.command import process

if shutil.which("gem") is None:
    pytest.skip("ruby is not installed", allow_module_level=True)


def make_gem(folder: Path, name: str, version: str) -> str:
    """Make a gem, and return its path."""
    (folder / "x.gemspec").write_text(
        f"Gem::Specification.new {{ |s| s.name = '{name}'; s.version = '{version}'; "
        "s.summary = 's'; s.authors = ['a']; s.files = [] }\n"
    )
    words = ["gem", "build", "x.gemspec", "--silent"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    return str(folder / f"{name}-{version}.gem")


class Gem:
    """Calls states, and notes the commands that they start."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.commands: list[process.Command] = []

    def state(self, fun: str, name: str, /, test: bool = False, **more: Any) -> StateResult:
        found: StateResult = self.context.states[f"gem.{fun}"].call(
            self.context.with_(test=test), name, **more
        )
        return found

    def ran(self) -> list[str]:
        found = [one.argv[1] for one in self.commands]
        self.commands.clear()
        return found


@pytest.fixture
def gem(context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gem:
    made = Gem(context)
    monkeypatch.setenv("GEM_HOME", str(tmp_path / "gems"))
    monkeypatch.setenv("GEM_PATH", str(tmp_path / "gems"))
    monkeypatch.setenv("HOME", str(tmp_path))
    start = process._start

    def started(command: process.Command) -> Any:
        made.commands.append(command)
        return start(command)

    monkeypatch.setattr(process, "_start", started)
    return made


def test_gem_is_installed_once(gem: Gem, tmp_path: Path) -> None:
    path = make_gem(tmp_path, "one-gem", "1.2.0")
    expected = gem.state("installed", path, test=True)
    assert (expected.result, expected.changes) == (None, {})
    assert expected.comment == f"The gem {path} would have been installed"
    first = gem.state("installed", path)
    assert (first.result, first.changes) == (True, {path: "Installed"}), first
    assert first.comment == "Gem was successfully installed"
    assert gem.state("installed", path).comment == "Gem is already installed."
    gem.ran()
    for version, told in (
        (None, "Gem is already installed."),
        ("1.2.0", "Gem is already installed."),
        (">= 1.0, < 2", "Installed Gem meets version requirements."),
    ):
        for test in (False, True):
            again = gem.state("installed", "one-gem", test, version=version)
            assert (again.result, again.changes, again.comment) == (True, {}, told)
    assert gem.ran() == []
    assert gem.context.call("gem.list", "one") == {"one-gem": ["1.2.0"]}


def test_hundred_states_ask_gem_once(gem: Gem, tmp_path: Path) -> None:
    gem.state("installed", make_gem(tmp_path, "one-gem", "1.0"))
    gem.context.scratch.clear()
    gem.ran()
    for _ in range(100):
        assert gem.state("installed", "one-gem").changes == {}
    assert gem.ran() == ["environment", "list"]


def test_version_comes_from_the_named_server(gem: Gem, tmp_path: Path) -> None:
    server = tmp_path / "server"
    (server / "gems").mkdir(parents=True)
    for version in ("1.0", "1.1", "2.0"):
        shutil.move(make_gem(tmp_path, "one-gem", version), server / "gems")
    words = ["gem", "generate_index", "--directory", str(server)]
    made = subprocess.run(words, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"this gem makes no index: {made.stderr[-200:]}")
    source = f"file://{server}/"
    first = gem.state("installed", "one-gem", version="~> 1.0", source=source)
    assert first.changes == {"one-gem": "Installed"}, first
    assert gem.context.call("gem.list", "one") == {"one-gem": ["1.1"]}
    newer = gem.state("installed", "one-gem", version="2.0", source=source)
    assert newer.changes == {"one-gem": "Installed"}
    missing = gem.state("installed", "one-gem", version="3.0", source=source)
    assert missing.result is False
    assert missing.comment.startswith("Could not install gem. gem install failed with return code")


def test_gem_is_removed_once(gem: Gem, tmp_path: Path) -> None:
    gem.state("installed", make_gem(tmp_path, "one-gem", "1.0"))
    gem.state("installed", make_gem(tmp_path, "one-gem", "1.1"))
    expected = gem.state("removed", "one-gem", test=True)
    assert (expected.result, expected.comment) == (None, "The gem one-gem would have been removed")
    first = gem.state("removed", "one-gem")
    assert (first.result, first.changes) == (True, {"one-gem": "Removed"}), first
    again = gem.state("removed", "one-gem")
    assert (again.result, again.changes, again.comment) == (True, {}, "Gem is not installed.")


def test_source_is_removed_and_added_once(gem: Gem, tmp_path: Path) -> None:
    address = "https://gems.example.org/"
    (tmp_path / ".gemrc").write_text(
        f"---\n:sources:\n- {address}\n- https://other.example.org/\n"
    )
    assert gem.state("sources_add", address).comment == "Gem source is already added."
    expected = gem.state("sources_remove", address, test=True)
    assert (expected.result, expected.changes) == (None, {})
    assert gem.state("sources_remove", address).changes == {address: "Removed"}
    assert gem.state("sources_remove", address).comment == "Gem source is already removed."
    assert gem.state("sources_add", address, test=True).result is None


def test_credentials_are_no_arguments(gem: Gem) -> None:
    address = "http://user:s3cret@127.0.0.1:1/"
    results = [
        gem.state("installed", "no-such-gem", source=address, proxy=address),
        gem.state("sources_add", address),
        gem.state("sources_add", address, test=True),
    ]
    assert [one.result for one in results] == [False, False, None]
    assert "s3cret" not in repr(results)
    assert "s3cret" not in repr([one.argv for one in gem.commands])


def test_mistake_is_named(gem: Gem) -> None:
    mistakes: list[tuple[str, dict[str, Any], str]] = [
        ("--help", {}, "is no name of a gem"),
        ("one", {"version": "new"}, "'new' is no condition on the version of a gem"),
        ("one", {"gem_bin": "/none"}, "gem_bin '/none' is no executable file"),
    ]
    for name, arguments, told in mistakes:
        found = gem.state("installed", name, **arguments)
        assert found.result is False
        assert told in found.comment
    assert gem.ran() == []
