from __future__ import annotations

from pathlib import Path

import pytest

from catena.cli.commands import run
from catena.cli.function_command import check_function


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_a_mistyped_option_is_no_argument_of_the_function(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["run", "*", "test.ping", "--ou", "json"]) == 2
    assert "unknown option '--ou'; did you mean '--out'?" in said(capsys)


def test_letters_that_are_no_options_are_not_taken_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # -t is an option of `run`; `ls -lt` means none.
    assert run(["run", "*", "cmd.run", "ls", "-lt"]) == 2
    assert "unknown option '-lt'" in said(capsys)


def test_numbers_and_what_follows_two_dashes_reach_the_function(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = ["-c", str(tmp_path)]
    (tmp_path / "minion").write_text(f"root_dir: {tmp_path}\nid: here\n")
    assert run([*place, "call", "--local", "test.echo", "-1"]) == 0
    assert run([*place, "call", "--local", "--", "test.echo", "--all"]) == 0
    assert capsys.readouterr().out.split() == ["local:", "-1", "local:", "--all"]


def test_an_expanded_glob_is_told_from_a_target(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("notes.txt", "top.sls"):
        (tmp_path / name).touch()
    assert run(["run", "notes.txt", "top.sls", "test.ping"]) == 2
    assert "the shell has expanded the target" in said(capsys)


def test_a_function_without_a_module_is_refused_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["run", "*", "ping"]) == 2
    assert "such as test.ping" in said(capsys)


def test_an_unreadable_folder_is_a_sentence_and_no_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/var/log/catena")

    monkeypatch.setattr("catena.cli.doc._listing", refuse)
    assert run(["doc"]) == 2
    assert said(capsys) == ("catena: /var/log/catena: Permission denied; are you root here?\n")


def test_doc_shows_states_where_no_function_has_the_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["doc", "file.managed"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("file.managed(name")
    assert "context:" not in out


def test_a_wrong_module_is_not_offered_as_the_right_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["doc", "tst"]) == 2
    assert "did you mean 'test'?" in said(capsys)


def test_a_target_is_sent_when_the_current_folder_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(path: object, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.stat", refuse)
    check_function("test.ping", "*")
