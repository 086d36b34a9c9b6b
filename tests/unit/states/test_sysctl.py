"""sysctl.present with the kernel's settings in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import FunctionMark, Registry
from catena.modules import sysctl as module
from catena.states import sysctl
from tests.unit.states.conftest import MakeWorld

NAME = "net.ipv4.ip_forward"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "proc"
    (root / "net" / "ipv4").mkdir(parents=True)
    (root / "net" / "ipv4" / "ip_forward").write_text("0\n")
    (root / "net" / "ipv4" / "tcp_rmem").write_text("4096\t131072\t6291456\n")
    monkeypatch.setattr(module, "_ROOT", root)
    return root


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "etc" / "99.conf"
    path.parent.mkdir()
    path.write_text("# kept = 1\n;kept\nnet.ipv4.ip_forward=0\nother = 2\n")
    return path


@pytest.fixture
def context(world: MakeWorld) -> Context:
    return world().context.with_(functions=Registry("function", modules.INDEX, FunctionMark))


def ask(context: Context, config: Path, value: Any, name: str = NAME) -> Any:
    return sysctl.present(context, name, value, str(config))


def test_value_is_set_now_and_at_boot_once(proc: Path, config: Path, context: Context) -> None:
    found = ask(context, config, 1)
    assert found.changes == {NAME: 1}
    assert config.read_text() == "# kept = 1\n;kept\nnet.ipv4.ip_forward = 1\nother = 2\n"
    assert (proc / "net" / "ipv4" / "ip_forward").read_text() == "1\n"
    before = config.stat().st_ino
    again = ask(context, config, "1")
    assert (again.result, again.changes) == (True, {})
    assert config.stat().st_ino == before
    assert ask(context.with_(test=True), config, 1).result is True


def test_test_mode_reports_and_writes_nothing(proc: Path, config: Path, context: Context) -> None:
    context = context.with_(test=True)
    told = f"Sysctl option {NAME} would be changed to 1"
    assert ask(context, config, 1).comment == told
    new = config.parent / "new.conf"
    assert ask(context, new, 1).comment == f"Sysctl option {NAME} set to be changed to 1"
    assert "not in a config file" in ask(context, new, 0).comment
    assert "failed to check config file" in ask(context, config.parent, 0).comment
    assert not new.exists()
    assert (proc / "net" / "ipv4" / "ip_forward").read_text() == "0\n"


def test_file_alone_is_changed_when_the_kernel_has_the_value(
    proc: Path, config: Path, context: Context
) -> None:
    (proc / "net" / "ipv4" / "ip_forward").write_text("1\n")
    assert ask(context.with_(test=True), config, 1).result is None
    assert ask(context, config, 1).changes == {NAME: 1}


def test_spaces_and_tabs_separate_the_same_numbers(
    proc: Path, config: Path, context: Context
) -> None:
    config.write_text("net.ipv4.tcp_rmem = 4096   131072 6291456\n")
    found = ask(context, config, "4096 131072 6291456", "net.ipv4.tcp_rmem")
    assert (found.result, found.changes) == (True, {})


def test_new_file_gets_a_head(proc: Path, config: Path, context: Context) -> None:
    new = config.parent / "new.conf"
    assert ask(context, new, True).changes == {NAME: True}
    assert new.read_text() == f"#\n# Kernel sysctl configuration\n#\n{NAME} = 1\n"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("no.such.key", 1, "sysctl no.such.key does not exist"),
        (NAME, [1], "a value must be a text or a number, not list"),
        (NAME, "", "can't be the value of a setting"),
        (NAME, "1\nkernel.panic = 1", "can't be the value of a setting"),
        ("../../etc/passwd", 1, "is no setting of the kernel"),
    ],
)
def test_bad_input_fails(
    proc: Path, config: Path, context: Context, name: str, value: Any, told: str
) -> None:
    found = ask(context, config, value, name)
    assert found.result is False
    assert found.comment.startswith(f"Failed to set {name} to ")
    assert told in found.comment


def test_value_that_the_kernel_refuses_is_an_error(context: Context) -> None:
    with pytest.raises(CommandExecutionError, match=r"sysctl -w failed: setting kernel\.ostype"):
        context.call("sysctl.assign", "kernel.ostype", "Plan 9")
