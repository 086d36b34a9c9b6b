"""Completion of words in a shell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import BashComplete

from catena.cli import completion
from catena.cli.commands import cli, run
from catena.client.requests import keys
from catena.client.requests.contract import Ask


def offered(words: list[str], word: str) -> list[str]:
    found = BashComplete(cli, {}, "catena", "_CATENA_COMPLETE").get_completions(words, word)
    return [item.value for item in found]


def test_completion_offers_modules_before_functions() -> None:
    assert "pkg." in offered(["run", "web1"], "pk")
    assert "test.ping" in offered(["call"], "test.p")
    assert offered(["doc"], "test.pin") == ["test.ping"]


def test_completion_is_silent_without_a_master(tmp_path: Path) -> None:
    assert offered(["-c", str(tmp_path), "run"], "web") == []


class _Master:
    """Answers as the master does, in plain data."""

    def __init__(self, **_: object) -> None:
        pass

    def request(self, ask: Ask[Any, Any, Any]) -> Any:
        if ask is keys.LIST:
            states = ("accepted", "pending", "rejected", "denied", "announced")
            return {state: [{"id": f"web-{state}"}, {"id": f"db-{state}"}] for state in states}
        return [{"id": "web-accepted"}, {"id": "db-accepted"}]


@pytest.mark.parametrize(
    ("words", "states"),
    [
        (["key", "accept"], ["pending"]),
        (["key", "reject"], ["accepted", "pending"]),
        (["key", "delete"], ["accepted", "announced", "denied", "pending", "rejected"]),
        (["key", "rotate"], ["accepted"]),
        (["minion", "show"], ["accepted"]),
    ],
)
def test_completion_offers_the_ids_that_a_command_can_change_or_show(
    words: list[str], states: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catena.client.connect", _Master)
    assert offered(words, "web") == [f"web-{state}" for state in states]


@pytest.mark.parametrize("words", [["key", "accept"], ["key", "delete"], ["minion", "show"]])
def test_completion_of_ids_is_silent_without_a_master(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offered(["-c", str(tmp_path), *words], "web") == []
    assert capsys.readouterr() == ("", "")


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
