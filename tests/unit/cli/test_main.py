from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from catena import __version__
from catena.cli.commands import COMMANDS, cli, run
from catena.cli.groups import CommandGroup
from catena.core.checkup import Finding, Level


def test_mistyped_command_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chian", "list"]) == 2
    assert "did you mean 'chain'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("chain aply", "unknown catena chain command 'aply'; did you mean 'apply'?"),
        ("ssh-key pign", "unknown catena ssh-key command 'pign'; there are forget, list, trust"),
        ("minion lst", "unknown catena minion command 'lst'; did you mean 'list'?"),
        ("pign", "unknown catena command 'pign'; there are call, chain,"),
    ],
)
def test_unknown_command_is_refused_with_the_nearest_or_all_names(
    words: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words.split()) == 2
    assert error in capsys.readouterr().err


def test_every_group_refuses_unknown_commands_alike() -> None:
    context = cli.make_context("catena", ["--config-dir", "/nowhere", "call"])
    found = [cli.get_command(context, name) for name in COMMANDS]
    groups = [command for command in found if isinstance(command, click.Group)]
    assert groups and all(isinstance(group, CommandGroup) for group in groups)


@pytest.mark.parametrize("words", ["chain add p -R web1 --reboot", "ssh-run collect --range a"])
def test_range_targets_are_refused_by_name_by_every_command(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words.split()) == 2
    assert "range expressions are not supported; use -L" in capsys.readouterr().err


def test_missing_master_is_exit_code_3_with_advice(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "master").write_text(f"root_dir: {tmp_path}\n")
    assert run(["-c", str(tmp_path), "job", "list"]) == 3
    said = capsys.readouterr()
    assert "is `catena master` running" in said.err
    assert said.out == ""


def test_every_command_of_the_table_can_be_loaded() -> None:
    context = cli.make_context("catena", ["--config-dir", "/nowhere", "call"])
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        assert command.name == name


def test_help_imports_no_command_module_and_no_large_library() -> None:
    code = (
        "import sys\n"
        "from catena.cli.commands import run\n"
        "run(['--help'])\n"
        "heavy = {'zmq', 'yaml', 'jinja2', 'sqlalchemy', 'paramiko', 'asyncio', 'msgpack'}\n"
        "ours = {m for m in sys.modules if m.startswith('catena.cli.')}\n"
        "early = ('main', 'commands', 'common_options', 'groups', 'streams')\n"
        "ours -= {f'catena.cli.{name}' for name in early}\n"
        "loaded = heavy & set(sys.modules) | ours\n"
        "print(sorted(loaded), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_version_is_printed_without_importing_click() -> None:
    code = (
        "import sys\n"
        "from catena.cli import main\n"
        "main._run(['--version'])\n"
        "print(sorted({'click', 'inspect', 'catena.cli.commands'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"catena, version {__version__}\n[]\n"


def test_run_command_imports_neither_zeromq_nor_yaml() -> None:
    code = (
        "import sys\n"
        "import catena.cli.run\n"
        "print(sorted({'zmq', 'yaml', 'jinja2', 'sqlalchemy', 'asyncio'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("words", [["key", "list"], ["run", "*", "test.ping"]])
def test_config_dir_after_the_command_is_refused_with_advice(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert run([*words, "-c", "/somewhere"]) == 2
    assert "-c comes before the command: catena -c DIR" in capsys.readouterr().err


@pytest.mark.parametrize(("target", "code"), [("/dev/full", 1), ("/dev/null", 0)])
def test_unwritable_output_fails_the_command(target: str, code: int) -> None:
    words = [sys.executable, "-m", "catena", "config", "keys", "minion"]
    with Path(target).open("w") as out:
        done = subprocess.run(words, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == code
    assert ("cannot be written" in done.stderr) is bool(code)


def test_reader_that_closes_the_pipe_early_is_not_an_error() -> None:
    words = [sys.executable, "-m", "catena", "config", "keys", "minion"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert said == b""


@pytest.mark.parametrize("to_file", [False, True])
def test_text_that_the_output_encoding_lacks_is_escaped(tmp_path: Path, to_file: bool) -> None:
    (tmp_path / "minion").write_text("id: web1\n")
    words = ["-c", str(tmp_path), "call", "--local", "--out=txt", "cmd.run", r"printf '\377ж'"]
    if to_file:
        words += ["--out-file", str(tmp_path / "out")]
    code = f"import sys; from catena.cli.main import main; sys.argv[1:] = {words!r}; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    shown = (tmp_path / "out").read_bytes() if to_file else done.stdout
    assert ("ж".encode() if to_file else rb"\u0436") in shown


def test_closed_output_causes_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "minion").write_text("id: web1\n")
    command = f"{sys.executable} -c 'from catena.cli.main import main; main()'"
    words = f"-c {tmp_path} call --local test.ping >&-"
    done = subprocess.run(f"{command} {words}", shell=True, capture_output=True, check=False)
    assert done.stderr == b""


def test_doctor_reports_a_file_that_this_user_may_not_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> Iterator[Finding]:
        yield Finding("daemon", Level.ok, "the master runs")
        raise PermissionError(13, "Permission denied", "/var/lib/master.db.lock")

    monkeypatch.setattr("catena.master.process.checkup.check", refused)
    (tmp_path / "master").write_text(f"root_dir: {tmp_path}\n")
    assert run(["-c", str(tmp_path), "doctor", "master"]) == 1
    shown = capsys.readouterr().out
    assert "the master runs" in shown
    assert "master.db.lock: Permission denied; nothing after this was checked" in shown
    assert "-> run it as root, or as the user of the master" in shown
