"""rsync.* with the real program, below a temporary folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.states import rsync
from tests.support.debian_roots import require


@pytest.fixture(autouse=True)
def program() -> None:
    if shutil.which("rsync") is None:
        require("needs rsync")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "deep").mkdir(parents=True)
    (folder / "a").write_text("a\n")
    (folder / "deep" / "b").write_text("b\n")
    (folder / "skipped.o").write_text("o\n")
    return folder


def test_folder_is_filled_once(context: Context, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "target"
    args: dict[str, Any] = {"source": f"{source}/", "prepare": True, "exclude": ["*.o"]}
    look = context.with_(test=True)
    with look.state_guard("built in"):
        assert rsync.synchronized(look, str(target), **args).result is None
    assert not target.exists()
    first = rsync.synchronized(context, str(target), **args)
    assert first.result is True
    assert first.changes["deleted"] == "N/A"
    assert {"a", "deep/b"} <= set(first.changes["copied"].splitlines())
    assert "- total size is" in first.comment
    assert not (target / "skipped.o").exists()
    again = rsync.synchronized(context, str(target), **args)
    assert (again.result, again.changes) == (True, {})
    with look.state_guard("built in"):
        assert rsync.synchronized(look, str(target), **args).result is True


def test_delete_removes_what_the_source_lacks(
    context: Context, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "old").touch()
    args: dict[str, Any] = {"source": f"{source}/", "delete": True}
    look = context.with_(test=True)
    with look.state_guard("built in"):
        found = rsync.synchronized(look, str(target), **args)
    assert (found.result, found.changes["deleted"]) == (None, "old")
    assert (target / "old").exists()
    assert rsync.synchronized(context, str(target), **args).changes["deleted"] == "old"
    assert not (target / "old").exists()


def test_folder_of_the_master_is_compared_by_content(
    context: Context, roots: Path, tmp_path: Path
) -> None:
    (roots / "tree" / "deep").mkdir(parents=True)
    (roots / "tree" / "deep" / "file").write_text("one\n")
    target = tmp_path / "target"
    args: dict[str, Any] = {"source": "salt://tree", "prepare": True}
    assert rsync.synchronized(context, str(target), **args).changes
    assert (target / "deep" / "file").read_text() == "one\n"
    os.utime(roots / "tree" / "deep" / "file", (1, 1))
    assert rsync.synchronized(context, str(target), **args).changes == {}
    (roots / "tree" / "deep" / "file").write_text("two\n")
    look = context.with_(test=True)
    with look.state_guard("built in"):
        assert rsync.synchronized(look, str(target), **args).changes["copied"] == "deep/file"
    assert rsync.synchronized(context, str(target), **args).changes["copied"] == "deep/file"
    missing = rsync.synchronized(context, str(target), source="salt://none")
    assert missing.comment == "salt://none does not exist"


def test_failures_have_a_reason(context: Context, source: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "none")
    assert "was not found" in rsync.synchronized(context, target, str(source)).comment
    (tmp_path / "file").touch()
    below = rsync.synchronized(context, str(tmp_path / "file" / "x"), str(source), prepare=True)
    assert below.result is False
    gone = rsync.synchronized(context, str(tmp_path), f"{source}/none")
    assert "No such file" in gone.comment
    wrong = rsync.synchronized(context, str(tmp_path), str(source), additional_opts="-x")
    assert wrong.comment == "additional_opts must be a list of texts"
    typo = rsync.synchronized(context, str(tmp_path), f"{source}/", deleted=True)
    assert "did you mean 'delete'" in typo.warnings[0]


def test_functions(context: Context, source: Path, tmp_path: Path) -> None:
    assert context.call("rsync.version")[0].isdigit()
    with pytest.raises(CommandExecutionError, match="does not exist"):
        context.call("rsync.config", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="did you mean 'delete'"):
        context.call("rsync.rsync", str(source), str(tmp_path), delet=True)
    assert context.call("rsync.rsync", "/-x/../none", str(tmp_path))["retcode"] != 0
