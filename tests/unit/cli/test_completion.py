"""Completion of words in a shell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from catena.cli import completion
from catena.cli.commands import cli, run


def offered(words: list[str], word: str) -> list[str]:
    found = BashComplete(cli, {}, "catena", "_CATENA_COMPLETE").get_completions(words, word)
    return [item.value for item in found]


def test_completion_offers_modules_before_functions() -> None:
    assert "pkg." in offered(["run", "web1"], "pk")
    assert "test.ping" in offered(["call"], "test.p")
    assert offered(["doc"], "test.pin") == ["test.ping"]


def test_completion_is_silent_without_a_master(tmp_path: Path) -> None:
    assert offered(["-c", str(tmp_path), "run"], "web") == []


def test_completion_ignores_an_unknown_option_before_the_word() -> None:
    assert offered(["run", "--wrong", "web1"], "test.pin") in ([], ["test.ping"])


@pytest.mark.parametrize("shell", sorted(completion.PLACES))
def test_completion_script_is_installed_where_the_shell_reads_it(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["completion", shell, "--install"]) == 0
    written = (tmp_path / completion.PLACES[shell][1]).read_text()
    capsys.readouterr()
    assert run(["completion", shell]) == 0
    assert capsys.readouterr().out == written
    assert "_CATENA_COMPLETE" in written


def test_completion_for_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err
