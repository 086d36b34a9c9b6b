"""pip.* with a real pip in a virtual environment, and wheels that the test makes."""

from __future__ import annotations

import getpass
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.types import StateResult
from catena.modules.shared.command import process


def make_wheel(folder: Path, name: str, version: str, requires: str = "") -> Path:
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", "x = 1\n")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        )
        tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{info}/WHEEL", tag)
        wheel.writestr(f"{info}/RECORD", "")
    return path


#: A build backend (PEP 660) that needs no other package.
BACKEND = """
import os, zipfile
def build_editable(folder, *more):
    name = "three-5-py3-none-any.whl"
    info = "three-5.dist-info"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("three.pth", os.getcwd())
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: three\\nVersion: 5\\n")
        text = "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(f"{info}/WHEEL", text)
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("venv")
    words = [sys.executable, "-m", "venv", str(folder)]
    made = subprocess.run(words, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"this Python makes no virtual environment: {made.stderr[-200:]}")
    return str(folder)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("1.0", "1.1", "2.0a1"):
        make_wheel(folder, "one_pkg", version)
    make_wheel(folder, "two", "1.0", requires="three")
    make_wheel(folder, "three", "1.0")
    return str(folder)


class Pip:
    """Calls states, and notes the commands that they start."""

    def __init__(self, context: Context, venv: str, wheels: str) -> None:
        self.context = context
        self.common: dict[str, Any] = {"bin_env": venv, "no_index": True, "find_links": wheels}
        self.commands: list[process.Command] = []

    def state(self, fun: str, name: str, /, test: bool = False, **arguments: Any) -> StateResult:
        found: StateResult = self.context.states[f"pip.{fun}"].call(
            self.context.with_(test=test), name, **arguments
        )
        return found

    def installed(self, name: str = "x", /, test: bool = False, **more: Any) -> StateResult:
        return self.state("installed", name, test, **{**self.common, **more})

    def removed(self, *names: str) -> None:
        for name in names:
            assert self.state("removed", name, bin_env=self.common["bin_env"]).result

    def ran(self) -> list[str]:
        """Return pip's commands since the last call."""
        found = [one.argv[one.argv.index("pip") + 1] for one in self.commands]
        self.commands.clear()
        return found


@pytest.fixture
def pip(
    context: Context, venv: str, wheels: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pip]:
    made = Pip(context, venv, wheels)
    start = process._start

    def started(command: process.Command) -> Any:
        made.commands.append(command)
        return start(command)

    monkeypatch.setattr(process, "_start", started)
    yield made
    made.removed("one-pkg", "two", "three")


def test_package_is_installed_once(pip: Pip) -> None:
    name = "One_Pkg[extra]<2"
    assert pip.installed(name, test=True).comment == (
        "Python package One_Pkg[extra]<2 is set to be installed"
    )
    first = pip.installed(name)
    assert (first.result, first.changes) == (True, {"one-pkg==1.1": "Installed"}), first
    assert first.comment == "All packages were successfully installed"
    pip.ran()
    for test in (False, True):
        again = pip.installed(name, test)
        assert (again.result, again.changes) == (True, {})
        assert again.comment == (
            "Python package One_Pkg[extra]<2 was already installed\n"
            "All specified packages are already installed"
        )
    assert pip.ran() == []


def test_hundred_states_ask_pip_once(pip: Pip) -> None:
    assert pip.installed(pkgs=["one_pkg", "two"]).changes == {
        "one-pkg==1.1": "Installed",
        "two==1.0": "Installed",
    }
    pip.context.scratch.clear()
    pip.ran()
    for number in range(100):
        found = pip.installed(("one_pkg==1.1", "two", "three>=1")[number % 3])
        assert (found.result, found.changes) == (True, {})
    assert pip.ran() == ["list"]


def test_change_by_another_program_is_seen(pip: Pip, wheels: str) -> None:
    assert pip.installed("one_pkg").changes == {"one-pkg==1.1": "Installed"}
    python = f"{pip.common['bin_env']}/bin/python"
    words = [python, "-m", "pip", "install", "-q", "--no-index", "-f", wheels, "one_pkg==1.0"]
    subprocess.run(words, check=True, capture_output=True)
    assert pip.installed("one_pkg>=1.1").changes == {"one-pkg==1.1": "Installed"}
    subprocess.run([python, "-m", "pip", "uninstall", "-qy", "one_pkg"], check=True)
    assert pip.installed("one_pkg", test=True).result is None


def test_versions_change_only_as_asked(pip: Pip) -> None:
    assert pip.installed("one_pkg==1.0").changes == {"one-pkg==1.0": "Installed"}
    assert pip.installed("one_pkg").changes == {}
    assert pip.installed("one_pkg", upgrade=True).changes == {"one-pkg==1.1": "Installed"}
    newest = pip.installed("one_pkg", upgrade=True)
    assert (newest.result, newest.changes) == (True, {})
    assert newest.comment.endswith("already installed and up-to-date")
    assert pip.installed("one_pkg", upgrade=True, pre_releases=True).changes == {
        "one-pkg==2.0a1": "Installed"
    }
    assert pip.installed("one_pkg==1.1", force_reinstall=True).changes == {
        "one-pkg==1.1": "Installed"
    }
    call = pip.context.call
    place: dict[str, Any] = {"bin_env": pip.common["bin_env"]}
    more: dict[str, Any] = {"no_index": True, "find_links": pip.common["find_links"]}
    assert call("pip.list_all_versions", "one_pkg", **place, **more) == ["1.0", "1.1"]
    assert call("pip.is_installed", "One.Pkg", **place)
    assert "one_pkg==1.1" in call("pip.freeze", **place)
    assert call("pip.list", "one", **place) == {"one-pkg": "1.1"}
    assert call("pip.version", **place)


def test_missing_version_fails_with_the_words_of_pip(pip: Pip) -> None:
    found = pip.installed(pkgs=["two", "one_pkg==7"])
    assert found.result is False
    assert found.comment.startswith("Failed to install packages: two, one_pkg==7. Error: ")
    assert "No matching distribution" in found.comment
    assert pip.installed("a=1").comment == (
        "Error installing 'a=1': Invalid version specification in package a=1. '=' is not "
        "supported, use '==' instead."
    )


def test_requirements_of_the_master_are_processed(pip: Pip, roots: Path) -> None:
    (roots / "app" / "more").mkdir(parents=True)
    (roots / "app" / "requirements.txt").write_text("# app\n-r more/base.txt\none_pkg>=1\n")
    (roots / "app" / "more" / "base.txt").write_text("two==1.0\n")
    address = "salt://app/requirements.txt"
    expected = pip.installed(requirements=address, test=True)
    assert (expected.result, expected.changes) == (None, {})
    assert expected.comment == f"Requirements file '{address}' will be processed."
    first = pip.installed(requirements=address)
    assert (first.result, first.changes) == (True, {"requirements": True}), first
    assert first.comment == f"Successfully processed requirements file {address}."
    again = pip.installed(requirements=address)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == "Requirements were already installed."
    plain = roots / "plain.txt"
    plain.write_text("two\n")
    assert pip.installed(requirements=str(plain), test=True).result is True
    found = pip.installed(requirements="salt://none.txt")
    assert found.comment.endswith("pip requirements file 'salt://none.txt' not found")


def test_archive_is_installed_once(pip: Pip, wheels: str) -> None:
    path = f"{wheels}/one_pkg-1.0-py3-none-any.whl"
    assert pip.installed(path).changes == {"one-pkg==1.0": "Installed"}
    assert pip.installed(path).changes == {}
    assert pip.installed(f"one_pkg @ file://{path}").changes == {}


def test_credentials_reach_neither_arguments_nor_results(pip: Pip, tmp_path: Path) -> None:
    address = "http://user:s3cret@127.0.0.1:1"
    results = [
        pip.installed(
            pkgs=["none", f"o @ {address}/o.whl"], no_index=False, index_url=f"{address}/a",
            extra_index_url=f"{address}/b", find_links=f"{address}/c",
            extra_args=[{"--retries": "0"}],
        ),
        pip.installed(editable=f"git+{address}/x#egg=x", requirements=f"{address}/r.txt"),
        pip.installed(f"{address}/other.whl", test=True),
        pip.installed(f"{address}/?=x"),
    ]  # fmt: skip
    assert [one.result for one in results] == [False, False, None, False]
    assert "s3cret" not in repr(results)
    assert "s3cret" not in repr([one.argv for one in pip.commands])
    installs = [one for one in pip.commands if "install" in one.argv]
    assert installs
    assert installs[0].env["PIP_INDEX_URL"] == f"{address}/a"


def test_editable_folder_is_installed_once(pip: Pip, tmp_path: Path) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
        "[project]\nname = 'three'\nversion = '5'\n"
    )
    (folder / "backend.py").write_text(BACKEND)
    more: dict[str, Any] = {"editable": str(folder)}
    expected = pip.installed(test=True, **more)
    assert expected.result is None
    assert expected.comment.endswith(f'(i.e. setuptools "develop mode") from {folder}.')
    first = pip.installed(**more)
    assert (first.result, first.changes) == (True, {"editable": True}), first
    pip.ran()
    for test in (True, False):
        again = pip.installed(test=test, **more)
        assert (again.result, again.changes) == (True, {})
    assert pip.ran() == ["list"]


def test_package_is_removed_once(pip: Pip) -> None:
    pip.installed("one_pkg")
    place: dict[str, Any] = {"bin_env": pip.common["bin_env"]}
    expected = pip.state("removed", "One_Pkg", test=True, **place)
    assert (expected.result, expected.comment) == (None, "Package One_Pkg is set to be removed")
    first = pip.state("removed", "One_Pkg", **place)
    assert (first.result, first.changes) == (True, {"One_Pkg": "Removed"})
    again = pip.state("removed", "One_Pkg", **place)
    assert (again.result, again.changes, again.comment) == (True, {}, "Package is not installed.")


def test_outdated_packages_are_upgraded(
    pip: Pip, wheels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pip.uptodate has no option for the index: it is the one of pip's configuration.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", wheels)
    pip.installed("one_pkg==1.0")
    place: dict[str, Any] = {"bin_env": pip.common["bin_env"]}
    assert pip.state("uptodate", "all", test=True, **place).comment == (
        "System update will be performed"
    )
    first = pip.state("uptodate", "all", **place)
    assert first.changes == {"one-pkg": {"old": "1.0", "new": "1.1"}}, first
    again = pip.state("uptodate", "all", **place)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == "System is already up-to-date."


def test_user_runs_pip(pip: Pip) -> None:
    found = pip.installed("one_pkg", user=getpass.getuser())
    assert found.changes == {"one-pkg==1.1": "Installed"}, found
    assert pip.installed("one_pkg", user="nobody-at-all").comment == (
        "User nobody-at-all does not exist"
    )


def test_missing_program_is_named(pip: Pip, tmp_path: Path) -> None:
    found = pip.installed("one_pkg", bin_env=str(tmp_path / "none"))
    assert "is neither a virtual environment nor an executable python or pip" in found.comment
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    found = pip.installed("one_pkg", bin_env=str(bare))
    assert found.result is False
    assert "install the package python3-pip" in found.comment
