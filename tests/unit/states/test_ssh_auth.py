"""ssh_auth.* on a file; the recorded cases of Salt check the comments."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.plugins import FunctionMark, Registry
from catena.states import ssh_auth
from tests.unit.states.conftest import MakeWorld

ME = pwd.getpwuid(os.geteuid()).pw_name
TWO = "no-pty ssh-rsa AAAA one of two\nssh-rsa BBBB two\n# end\n"


@pytest.fixture
def context(world: MakeWorld) -> Context:
    made = world(files={"two.pub": TWO, "none.pub": "<html>\n"}).context
    return made.with_(functions=Registry("function", modules.INDEX, FunctionMark))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    path = tmp_path / "keys"
    path.write_text("ssh-rsa CCCC old\n")
    return path


def ask(context: Context, fun: str, file: Path, name: str = "n", **arguments: Any) -> Any:
    state = getattr(ssh_auth, fun)
    return state(context, name, user=ME, config=str(file), **arguments)


CALLS = [
    ("present", {"name": "AAAA", "comment": "me"}),
    ("present", {"name": "ssh-rsa CCCC new"}),
    ("present", {"source": "salt://two.pub"}),
    ("absent", {"name": "CCCC"}),
    ("manage", {"ssh_keys": ["ssh-rsa AAAA a", "BBBB"]}),
    ("manage", {"ssh_keys": [], "source": "salt://two.pub"}),
]


@pytest.mark.parametrize(("fun", "arguments"), CALLS)
def test_second_run_changes_nothing(
    context: Context, file: Path, fun: str, arguments: Any
) -> None:
    first = ask(context, fun, file, **arguments)
    assert first.result is True
    assert first.changes
    before = file.read_text(), file.stat().st_ino
    second = ask(context, fun, file, **arguments)
    assert (second.result, second.changes) == (True, {})
    assert (file.read_text(), file.stat().st_ino) == before
    assert ask(context.with_(test=True), fun, file, **arguments).result is True


@pytest.mark.parametrize(("fun", "arguments"), CALLS)
def test_test_mode_reports_and_writes_nothing(
    context: Context, file: Path, fun: str, arguments: Any
) -> None:
    before = file.read_text(), file.stat().st_ino
    found = ask(context.with_(test=True), fun, file, **arguments)
    assert (found.result, found.changes) == (None, {})
    assert (file.read_text(), file.stat().st_ino) == before


def test_source_gives_all_keys_with_their_options(context: Context, file: Path) -> None:
    found = ask(context, "present", file, source="salt://two.pub", options=["no-x11-forwarding"])
    assert found.changes == {"n": "New"}
    lines = file.read_text().splitlines()
    assert lines[1:] == ["no-pty ssh-rsa AAAA one of two", "no-x11-forwarding ssh-rsa BBBB two"]
    assert ask(context, "absent", file, source="salt://two.pub").changes == {"n": "Removed"}
    assert file.read_text() == "ssh-rsa CCCC old\n"


@pytest.mark.parametrize(
    ("fun", "arguments", "told"),
    [
        ("present", {"source": "salt://missing"}, "Source file salt://missing is missing"),
        ("present", {"source": "salt://none.pub"}, "No keys detected in salt://none.pub"),
        ("absent", {"source": "salt://missing"}, "Source file salt://missing is missing"),
        ("present", {"name": "AAAA", "enc": "des"}, "Incorrect encryption key type 'des'"),
        ("present", {"name": "AAAA", "options": 5}, "options must be a list, not int"),
        ("present", {"name": "AAAA", "comment": "a\nb"}, "must be one line"),
        ("manage", {"ssh_keys": "AAAA"}, "ssh_keys must be a list, not str"),
        ("manage", {"ssh_keys": ["AAAA", "no-key"]}, "Invalid public ssh key"),
        ("manage", {"ssh_keys": [], "source": "salt://missing"}, "salt://missing is missing"),
        ("manage", {"ssh_keys": ["AAAA"], "enc": "des"}, "Incorrect encryption key type"),
    ],
)
def test_bad_input_fails_and_writes_nothing(
    context: Context, file: Path, fun: str, arguments: Any, told: str
) -> None:
    before = file.read_text()
    found = ask(context, fun, file, **arguments)
    assert found.result is False
    assert told in found.comment
    assert file.read_text() == before


def test_misspelt_argument_is_a_warning(context: Context, file: Path) -> None:
    found = ask(context, "present", file, name="AAAA", comments="x")
    assert "did you mean 'comment'?" in found.warnings[0]
