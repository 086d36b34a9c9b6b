from __future__ import annotations

from pathlib import Path

import pytest

from catena.cli.commands import run
from catena.cli.function_command import check_function


def printed_errors(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_mistyped_option_before_the_function_arguments_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["run", "*", "test.ping", "--ou", "json"]) == 2
    assert "unknown option '--ou'; did you mean '--out'?" in printed_errors(capsys)


def test_unknown_combined_short_options_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # -t is an option of `run`; `ls -lt` means none.
    assert run(["run", "*", "cmd.run", "ls", "-lt"]) == 2
    assert "unknown option '-lt'" in printed_errors(capsys)


def test_negative_numbers_and_words_after_two_dashes_reach_the_function(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = ["-c", str(tmp_path)]
    (tmp_path / "minion").write_text(f"root_dir: {tmp_path}\nid: here\n")
    assert run([*place, "call", "--local", "test.echo", "-1"]) == 0
    assert run([*place, "call", "--local", "--", "test.echo", "--all"]) == 0
    assert capsys.readouterr().out.split() == ["local:", "-1", "local:", "--all"]


def test_target_that_the_shell_expanded_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("notes.txt", "top.sls"):
        (tmp_path / name).touch()
    assert run(["run", "notes.txt", "top.sls", "test.ping"]) == 2
    assert "the shell has expanded the target" in printed_errors(capsys)


def test_function_without_a_module_is_refused_before_it_is_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["run", "*", "ping"]) == 2
    assert "such as test.ping" in printed_errors(capsys)


def test_unreadable_folder_is_reported_without_a_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/var/log/catena")

    monkeypatch.setattr("catena.cli.doc._listing", refuse)
    assert run(["doc"]) == 2
    assert printed_errors(capsys) == (
        "catena: /var/log/catena: Permission denied; are you root here?\n"
    )


def test_doc_shows_a_state_when_no_function_has_the_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["doc", "file.managed"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("file.managed(name")
    assert "context:" not in out


def test_doc_suggests_the_nearest_module(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["doc", "tst"]) == 2
    assert "did you mean 'test'?" in printed_errors(capsys)


def test_target_is_sent_when_the_current_folder_is_unreadable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(path: object, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.stat", refuse)
    check_function("test.ping", "*")
