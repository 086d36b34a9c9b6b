from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from catena.cli.commands import run
from catena.cli.hidden_arguments import LIMIT_BYTES, with_hidden
from catena.core.errors import UsageError


def given(**options: Any) -> dict[str, Any]:
    return {"kwargs_file": None, "kwargs_stdin": False, "kwarg_env": (), **options}


class Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_keyword_arguments_are_read_from_file_stdin_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kwargs"
    file.write_text('{"password": "a: b", "port": 5}')
    monkeypatch.setattr("sys.stdin", Stdin(b"token: xyz\n"))
    monkeypatch.setenv("DB_KEY", "007")
    options = given(kwargs_file=str(file), kwargs_stdin=True, kwarg_env=("key=DB_KEY",))
    assert with_hidden({"name": "joe"}, options) == {
        "name": "joe", "password": "a: b", "port": 5, "token": "xyz", "key": "007",
    }  # fmt: skip


def test_keyword_arguments_are_read_from_a_pipe(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"password: secret\n")
    os.close(write)
    try:
        found = with_hidden({}, given(kwargs_file=f"/proc/self/fd/{read}"))
    finally:
        os.close(read)
    assert found == {"password": "secret"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- a\n", "expected a mapping"),
        ("", "expected a mapping"),
        ("5: x\n", "expected a mapping"),
        ("a: [hunter2\n", "kwargs"),
        ("a: " + "x" * LIMIT_BYTES, "more than"),
        ("name: again\n", "name= is given twice"),
    ],
)
def test_arguments_file_without_a_mapping_is_refused_without_its_content(
    tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "kwargs"
    file.write_text(text)
    with pytest.raises(UsageError, match=why) as found:
        with_hidden({"name": "joe"}, given(kwargs_file=str(file)))
    assert "hunter2" not in str(found.value)


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        ("password", "KEY=VARIABLE"),
        ("=X", "KEY=VARIABLE"),
        ("password=NOT_THERE_AT_ALL", "NOT_THERE_AT_ALL is not set"),
    ],
)
def test_missing_environment_variable_is_refused_by_name(pair: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        with_hidden({}, given(kwarg_env=(pair,)))


def test_call_accepts_arguments_from_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "minion").write_text(f"root_dir: {tmp_path}\nid: here\n")
    monkeypatch.setenv("WORD", "from the environment")
    words = ["-c", str(tmp_path), "call", "--local", "--kwarg-env", "text=WORD", "test.echo"]
    assert run(words) == 0
    assert "from the environment" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["ssh", "-r", "host", "--stdin", "ls"],
        ["chain", "add", "night", "-t", "*", "--reboot", "--kwarg-env", "a=PATH"],
        ["chain", "add", "night", "-t", "*", "--cmd", "ls", "--pillar-file", "x"],
    ],
)
def test_commands_without_arguments_refuse_argument_options(
    words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "master").write_text(f"root_dir: {tmp_path}\n")
    assert run(["-c", str(tmp_path), *words]) == 2
    assert "--kwarg" in (said := capsys.readouterr().err) or "--pillar-file" in said
