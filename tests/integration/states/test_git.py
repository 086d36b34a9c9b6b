from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.types import StateResult

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="needs git")


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with one commit on main and the tag v1."""
    for name in list(os.environ):
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in {"NAME": "o", "EMAIL": "o@example.org"}.items():
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    folder = tmp_path / "origin"
    git(tmp_path, "init", "-q", "-b", "main", str(folder))
    commit(folder, "one")
    git(folder, "tag", "v1")
    return folder


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, text: str) -> str:
    (folder / "f").write_text(text)
    git(folder, "add", "f")
    git(folder, "commit", "-qm", text)
    return git(folder, "rev-parse", "HEAD")


def run(context: Context, fun: str, name: Any, /, **options: Any) -> StateResult:
    result: StateResult = context.states[f"git.{fun}"].call(context, str(name), **options)
    return result


def test_latest_follows_a_branch(context: Context, tmp_path: Path, origin: Path) -> None:
    target = tmp_path / "work"
    given = {"target": str(target), "rev": "main"}
    assert run(context.with_(test=True), "latest", origin, **given).result is None
    assert not target.exists()
    assert run(context, "latest", origin, **given).result
    assert run(context, "latest", origin, **given).changes == {}
    second = commit(origin, "two")
    assert run(context.with_(test=True), "latest", origin, **given).changes["revision"]
    assert (target / "f").read_text() == "one"
    assert run(context, "latest", origin, **given).changes["revision"]["new"] == second
    assert (target / "f").read_text() == "two" and git(
        target, "branch", "--show-current"
    ) == "main"


def test_latest_keeps_local_commits(context: Context, tmp_path: Path, origin: Path) -> None:
    target = tmp_path / "work"
    given = {"target": str(target), "rev": "main"}
    run(context, "latest", origin, **given)
    own = commit(target, "own")
    commit(origin, "two")
    refused = run(context, "latest", origin, **given)
    assert refused.result is False and "force_reset" in refused.comment
    assert git(target, "rev-parse", "HEAD") == own
    assert run(context, "latest", origin, **given, force_reset=True).result
    assert (target / "f").read_text() == "two"


def test_tag_is_checked_out_and_a_missing_one_is_reported(
    context: Context, tmp_path: Path, origin: Path
) -> None:
    commit(origin, "two")
    given = {"target": str(tmp_path / "work")}
    assert run(context, "latest", origin, **given, rev="v1").result
    assert (tmp_path / "work/f").read_text() == "one"
    assert run(context, "latest", origin, **given, rev="v1").changes == {}
    missing = run(context, "latest", origin, **given, rev="v2")
    assert missing.result is False and "'v2'" in missing.comment


def test_non_empty_folder_is_replaced_only_by_force(
    context: Context, tmp_path: Path, origin: Path
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/mine").write_text("x")
    given = {"target": str(tmp_path / "work")}
    assert run(context, "latest", origin, **given).result is False
    assert (tmp_path / "work/mine").exists()
    assert run(context, "latest", origin, **given, force_clone=True).result
    assert not (tmp_path / "work/mine").exists()


@pytest.mark.parametrize("name", ["--upload-pack=touch /tmp/x", "ext::sh -c id", ""])
def test_repository_that_is_an_option_or_a_program_is_refused(
    context: Context, tmp_path: Path, origin: Path, name: str
) -> None:
    result = run(context, "latest", name, target=str(tmp_path / "work"))
    assert result.result is False and "git" in result.comment


def test_cloned_repository_is_not_changed(context: Context, tmp_path: Path, origin: Path) -> None:
    given = {"target": str(tmp_path / "work")}
    assert run(context, "cloned", origin, **given).changes["new"]
    commit(origin, "two")
    assert run(context, "cloned", origin, **given).changes == {}
    assert (tmp_path / "work/f").read_text() == "one"


def test_detached_checks_out_a_commit(context: Context, tmp_path: Path, origin: Path) -> None:
    first = git(origin, "rev-parse", "HEAD")
    commit(origin, "two")
    target = tmp_path / "work"
    assert run(context, "detached", origin, target=str(target), rev=first).result
    assert git(target, "rev-parse", "HEAD") == first
    assert git(target, "branch", "--show-current") == ""
    assert run(context, "detached", origin, target=str(target), rev=first).changes == {}


def test_git_config_values_are_set_and_unset(
    context: Context, tmp_path: Path, origin: Path
) -> None:
    given = {"repo": str(origin)}
    assert run(context, "config_set", "user.email", value="a@b", **given).changes
    assert run(context, "config_set", "user.email", value="a@b", **given).changes == {}
    assert (
        run(context, "config", "user.email", value="a@b", is_global=False, **given).changes == {}
    )
    assert git(origin, "config", "user.email") == "a@b"
    assert run(context, "config_unset", r"user\..*", **given).changes == {
        "user.email": {"old": ["a@b"], "new": None}
    }
    assert run(context, "config_unset", r"user\..*", **given).changes == {}


def test_init_creates_a_repository_once(context: Context, tmp_path: Path, origin: Path) -> None:
    assert run(context, "present", tmp_path / "bare").changes
    assert run(context, "present", tmp_path / "bare").changes == {}
    assert (tmp_path / "bare/HEAD").exists()
