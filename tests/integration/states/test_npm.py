"""npm.* with the real npm, without a network, and packages that the test makes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.types import StateResult
from catena.modules.shared.command import process

if shutil.which("npm") is None:
    pytest.skip("npm is not installed", allow_module_level=True)


class Npm:
    """Calls states in a project's folder, and notes the commands that they start."""

    def __init__(self, context: Context, folder: Path, cache: Path) -> None:
        self.context = context
        self.folder = folder
        self.env = {"npm_config_offline": "true", "npm_config_cache": str(cache)}
        self.commands: list[process.Command] = []

    def state(self, fun: str, name: str, /, test: bool = False, **more: Any) -> StateResult:
        found: StateResult = self.context.states[f"npm.{fun}"].call(
            self.context.with_(test=test), name, **more
        )
        return found

    def installed(self, name: str = "x", /, test: bool = False, **more: Any) -> StateResult:
        given = {"dir": str(self.folder), "env": self.env, **more}
        return self.state("installed", name, test, **given)

    def ran(self) -> list[str]:
        found = [one.argv[1] for one in self.commands]
        self.commands.clear()
        return found


@pytest.fixture
def npm(context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Npm]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "package.json").write_text("{}")
    made = Npm(context, folder, tmp_path / "npm-cache")
    start = process._start

    def started(command: process.Command) -> Any:
        made.commands.append(command)
        return start(command)

    monkeypatch.setattr(process, "_start", started)
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("npm_config_prefix", str(tmp_path / "prefix"))
    yield made


def make_package(folder: Path, name: str, version: str) -> Path:
    """Make a package, and return its archive."""
    source = folder / f"{name}-{version}"
    source.mkdir()
    (source / "package.json").write_text(json.dumps({"name": name, "version": version}))
    words = ["npm", "pack", "--silent", str(source)]
    packed = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return folder / packed.stdout.strip()


def test_archive_is_installed_once(npm: Npm, tmp_path: Path) -> None:
    archive = str(make_package(tmp_path, "one-pkg", "1.2.0"))
    expected = npm.installed(archive, test=True)
    assert (expected.result, expected.changes) == (None, {"old": [], "new": [archive]})
    assert expected.comment == f"NPM package(s) '{archive}' are set to be installed"
    first = npm.installed(archive)
    assert (first.result, first.changes) == (True, {"old": [], "new": [archive]}), first
    assert first.comment == f"Package(s) '{archive}' successfully installed"
    npm.ran()
    for wanted in (archive, f"file:{archive}", "one-pkg", "one-pkg@1.2.0", "one-pkg@^1.0"):
        for test in (False, True):
            again = npm.installed(wanted, test)
            assert (again.result, again.changes) == (True, {}), again
            assert again.comment == f"Package(s) '{wanted}' satisfied by one-pkg@1.2.0"
    assert npm.ran() == []
    newer = str(make_package(tmp_path, "one-pkg", "1.3.0"))
    assert npm.installed(newer).changes == {"old": [], "new": [newer]}
    assert npm.context.call("npm.list", dir=str(npm.folder))["one-pkg"]["version"] == "1.3.0"


def test_hundred_states_ask_npm_once(npm: Npm, tmp_path: Path) -> None:
    npm.installed(str(make_package(tmp_path, "one-pkg", "1.0.0")))
    npm.context.scratch.clear()
    npm.ran()
    for _ in range(100):
        assert npm.installed("one-pkg").changes == {}
    assert npm.ran() == ["list"]


def test_folder_is_linked_once(npm: Npm, tmp_path: Path) -> None:
    make_package(tmp_path, "two", "1.0.0")
    source = str(tmp_path / "two-1.0.0")
    assert npm.installed(source).changes == {"old": [], "new": [source]}
    again = npm.installed(source)
    assert (again.changes, again.comment) == ({}, f"Package(s) '{source}' satisfied by two@1.0.0")


def test_missing_package_fails_with_the_words_of_npm(npm: Npm) -> None:
    found = npm.installed(pkgs=["no-such-package@^1"])
    assert found.result is False
    assert found.comment.startswith("Error installing 'no-such-package@^1': ")
    assert "ENOTCACHED" in found.comment


def test_package_is_removed_once(npm: Npm, tmp_path: Path) -> None:
    archive = make_package(tmp_path, "one-pkg", "1.0.0")
    npm.installed(str(archive))
    place: dict[str, Any] = {"dir": str(npm.folder)}
    expected = npm.state("removed", "one-pkg", True, **place)
    assert (expected.result, expected.comment) == (None, "Package 'one-pkg' is set to be removed")
    first = npm.state("removed", "one-pkg", **place)
    assert (first.result, first.changes) == (True, {"one-pkg": "Removed"}), first
    again = npm.state("removed", "one-pkg", **place)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == "Package 'one-pkg' is not installed"


def test_package_of_the_host_is_installed_once(npm: Npm, tmp_path: Path) -> None:
    archive = str(make_package(tmp_path, "one-pkg", "1.0.0"))
    assert npm.installed(archive, dir=None).changes == {"old": [], "new": [archive]}
    assert (tmp_path / "prefix" / "lib" / "node_modules" / "one-pkg").is_dir()
    assert npm.installed("one-pkg", dir=None).changes == {}
    assert npm.installed("one-pkg", test=True).result is None
    assert npm.state("removed", "one-pkg").changes == {"one-pkg": "Removed"}


def test_folder_is_bootstrapped_once(npm: Npm, tmp_path: Path) -> None:
    archive = make_package(tmp_path, "one-pkg", "1.0.0")
    wanted = {"dependencies": {"one-pkg": f"file:{archive}"}}
    (npm.folder / "package.json").write_text(json.dumps(wanted))
    name = str(npm.folder)
    expected = npm.state("bootstrap", name, True)
    assert (expected.result, expected.comment) == (None, f"{name} is set to be bootstrapped")
    assert not (npm.folder / "node_modules").exists()
    first = npm.state("bootstrap", name)
    assert (first.result, first.changes) == (True, {name: "Bootstrapped"}), first
    again = npm.state("bootstrap", name)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == "Directory is already bootstrapped"
    assert npm.state("bootstrap", name, True).comment == f"{name} is already bootstrapped"


def test_credentials_are_no_arguments(npm: Npm) -> None:
    address = "https://user:s3cret@127.0.0.1:1/registry"
    results = [npm.installed("none", registry=address), npm.installed(f"git+{address}#main")]
    assert [one.result for one in results] == [False, False]
    assert "s3cret" not in repr([one.argv for one in npm.commands])
    assert "s3cret" not in repr([one.comment for one in results])
    assert "set them in .npmrc" in results[1].comment


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"pkgs": "a b"}, "pkgs must be a list"),
        ({"pkgs": ["--global"]}, "'--global' is no package of npm"),
        ({"dir": "relative"}, "dir: 'relative' is no absolute path"),
        ({"env": "A"}, "expected a mapping"),
    ],
)
def test_mistake_is_named(npm: Npm, arguments: dict[str, Any], told: str) -> None:
    found = npm.installed(**arguments)
    assert found.result is False
    assert told in found.comment
    assert npm.ran() == []
