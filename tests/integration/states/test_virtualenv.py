"""virtualenv.managed with the standard library's module venv, and packages that the test makes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.types import StateResult
from tests.integration.states.test_pip import make_wheel


def managed(context: Context, name: Path, /, test: bool = False, **more: Any) -> StateResult:
    arguments = {"venv_bin": "venv", "python": sys.executable, **more}
    found: StateResult = context.states["virtualenv.managed"].call(
        context.with_(test=test), str(name), **arguments
    )
    return found


@pytest.fixture(autouse=True)
def needs_venv(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "import ensurepip, venv"]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("this Python has no ensurepip")


def test_environment_is_created_once_with_its_packages(context: Context, tmp_path: Path) -> None:
    wheels, venv = tmp_path / "wheels", tmp_path / "venv"
    wheels.mkdir()
    make_wheel(wheels, "one_pkg", "1.0")
    make_wheel(wheels, "two", "1.0")
    more: dict[str, Any] = {"pip_pkgs": ["one_pkg"], "no_index": True, "find_links": str(wheels)}
    expected = managed(context, venv, test=True, **more)
    assert (expected.result, expected.comment) == (None, f"Virtualenv {venv} is set to be created")
    assert not venv.exists()
    first = managed(context, venv, **more)
    assert first.result is True, first
    assert first.comment == "Created new virtualenv"
    assert first.changes["new"].startswith("Python 3.")
    assert first.changes["packages"] == {"new": ["one_pkg==1.0"], "old": ""}
    for test in (False, True):
        again = managed(context, venv, test, **more)
        assert (again.result, again.changes) == (True, {})
    assert again.comment == f"Virtualenv {venv} is already created"
    more["pip_pkgs"] = ["one_pkg", "two"]
    expected = managed(context, venv, test=True, **more)
    assert expected.result is None
    assert expected.comment.endswith("Python package(s) set to be installed:\ntwo")
    assert managed(context, venv, **more).changes == {"packages": {"new": ["two==1.0"], "old": ""}}
    more["pip_pkgs"] = ["none"]
    assert managed(context, venv, **more).result is False
    site = context.call("virtualenv.get_site_packages", str(venv))
    assert Path(site, "one_pkg.py").exists()
    cleared = managed(context, venv, test=True, clear=True)
    assert (cleared.result, cleared.comment) == (None, f"Virtualenv {venv} is set to be cleared")
    cleared = managed(context, venv, clear=True)
    assert cleared.comment == "Cleared existing virtualenv"
    assert cleared.changes["cleared_packages"] == ["one_pkg==1.0", "two==1.0"]
    assert not Path(site, "one_pkg.py").exists()


def test_mistakes_are_named(context: Context, tmp_path: Path) -> None:
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"python": "python9.9"}, "Cannot find requested python (python9.9)"),
        ({"never_download": True}, "The `never_download` option is not supported by 'venv'"),
        ({"venv_bin": "/none/virtualenv"}, "install the package virtualenv"),
    ]
    for arguments, told in mistakes:
        found = managed(context, tmp_path / "new", **arguments)
        assert found.result is False
        assert told in found.comment
    bad: dict[str, Any] = {"venv_bin": "venv", "python": sys.executable}
    found = context.states["virtualenv.managed"].call(context, "relative", **bad)
    assert "is no absolute path" in found.comment


def test_program_virtualenv_is_used_when_it_is_named(context: Context, tmp_path: Path) -> None:
    program = tmp_path / "virtualenv"
    program.write_text('#!/bin/sh\necho "$@" > "$(dirname "$0")/args"\n')
    program.chmod(0o755)
    found = managed(
        context, tmp_path / "new", venv_bin=str(program), system_site_packages=True, prompt="p q",
        extra_search_dir="/a,/b",
    )  # fmt: skip
    # The double creates nothing, so the version can't be asked.
    assert found.result is False
    assert (tmp_path / "args").read_text().split(" ", 1)[1] == (
        "--extra-search-dir=/a --extra-search-dir=/b --system-site-packages --prompt=p q "
        f"{tmp_path}/new\n"
    )
    found = managed(context, tmp_path / "new", venv_bin=str(program), symlinks=True)
    assert "is not supported by" in found.comment
    if not shutil.which("virtualenv"):
        pytest.skip("the real virtualenv is not installed")
    env = tmp_path / "real"
    assert managed(context, env, venv_bin="virtualenv", never_download=True).result is True
    assert os.access(env / "bin" / "python", os.X_OK)
