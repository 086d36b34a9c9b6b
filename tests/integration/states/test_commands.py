from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from catena.core.context import Context, RebootRequest
from catena.core.errors import CommandExecutionError, UsageError
from catena.states import cmd
from tests.support.waiting import GROWING_SECONDS, process_ends


def test_run_all_returns_exit_code_and_both_streams(context: Context) -> None:
    ran = context.call("cmd.run_all", "echo out; echo err >&2; exit 4", python_shell=True)
    assert (ran["retcode"], ran["stdout"], ran["stderr"]) == (4, "out", "err")
    assert context.scratch["retcode"] == 4


def test_command_without_a_shell_expands_nothing(context: Context) -> None:
    assert context.call("cmd.run", "echo $HOME | cat; id") == "$HOME | cat; id"


def test_timeout_ends_the_whole_process_tree(context: Context, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"(setsid sleep 600 & echo $! > {pid_file}; wait) & echo started; wait"
    for seconds in GROWING_SECONDS:
        ran = context.call("cmd.run_all", script, python_shell=True, timeout=seconds)
        assert ran["retcode"] == 1
        if "started" in ran["stdout"] and pid_file.exists() and pid_file.read_text():
            break
    late = f"{script} : Timed out after {seconds} seconds"
    assert ran["stdout"].splitlines() == ["started", late]
    assert process_ends(int(pid_file.read_text()))


def test_command_output_is_limited(context: Context) -> None:
    ran = context.call("cmd.run_all", "head -c 100000 /dev/zero", output_limit=1000)
    assert ran["stdout"].startswith("\0" * 1000 + "\n(99000 more bytes")


def test_input_larger_than_a_pipe_arrives(context: Context) -> None:
    assert context.call("cmd.run", "wc -c", stdin="x" * 300_000).strip() == "300000"


def test_command_that_ignores_its_input_succeeds(context: Context) -> None:
    assert context.call("cmd.retcode", "true", stdin="x" * 300_000) == 0


def test_env_umask_and_cwd_reach_the_command(context: Context, tmp_path: Path) -> None:
    said = context.call(
        "cmd.run", "echo $A; umask; pwd", python_shell=True, env=[{"A": "one"}], umask="077",
        cwd=str(tmp_path),
    )  # fmt: skip
    assert said.splitlines() == ["one", "0077", str(tmp_path)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
def test_runas_sets_uid_groups_and_user_name(context: Context) -> None:
    said = context.call("cmd.run", "id -u; id -G; echo $USER", python_shell=True, runas="nobody")
    uid, groups, user = said.splitlines()
    assert uid != "0"
    assert "0" not in groups.split()
    assert user == "nobody"


def test_unrunnable_command_is_an_error(context: Context) -> None:
    with pytest.raises(CommandExecutionError):
        context.call("cmd.run", "/no/such/binary")
    with pytest.raises(CommandExecutionError, match="not available"):
        context.call("cmd.run", "true", runas="no-such-user-x")
    with pytest.raises(UsageError, match="did you mean 'timeout'"):
        context.call("cmd.run", "true", timeot=1)


def test_success_retcodes_count_as_success(context: Context) -> None:
    assert context.call("cmd.retcode", ["sh", "-c", "exit 3"], success_retcodes=[3]) == 0


def test_secret_arguments_of_commands_are_not_logged(
    context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    context.call("cmd.run", "echo hunter2", env={"PASSWORD": "hunter3"}, stdin="hunter4")
    assert "hunter" not in caplog.text


def test_script_runs_with_its_arguments_and_is_removed(
    context: Context, roots: Path, tmp_path: Path
) -> None:
    (roots / "s.sh").write_text('#!/bin/sh\necho "$0"; for a in "$@"; do echo "[$a]"; done\n')
    said = context.call("cmd.script", "salt://s.sh", "a 'b c'")["stdout"].splitlines()
    assert said[1:] == ["[a]", "[b c]"]
    assert not Path(said[0]).exists()


def test_missing_script_is_reported(context: Context) -> None:
    assert context.call("cmd.script", "salt://gone.sh")["cache_error"]
    assert cmd.script(context, "salt://gone.sh").result is False


def test_command_state_does_not_run_in_test_mode(context: Context) -> None:
    done = cmd.run(context, "echo hi")
    assert done.result is True
    assert done.comment == 'Command "echo hi" run'
    assert done.changes["stdout"] == "hi"
    planned = cmd.run(context.with_(test=True), "echo hi")
    assert planned.result is None
    assert planned.changes == {"cmd": "echo hi"}


def test_failing_command_fails_with_its_changes(context: Context) -> None:
    result = cmd.run(context, "exit 3")
    assert result.result is False
    assert result.changes["retcode"] == 3
    assert cmd.run(context, "pwd", cwd="/no/such/folder").changes == {}


def test_stateful_command_reports_its_own_changes(context: Context) -> None:
    same = cmd.run(context, "echo; echo \"changed=no comment='all fine'\"", stateful=True)
    assert (same.result, same.changes, same.comment) == (True, {}, "all fine")
    other = cmd.run(context, """echo '{"changed": true, "what": 1}'""", stateful=True)
    assert other.changes["what"] == 1


def test_waiting_command_runs_on_mod_watch(context: Context) -> None:
    assert cmd.wait(context, "false").result is True
    assert cmd.mod_watch(context, "false", sfun="wait", __reqs__={}).result is False


def test_reboot_in_a_chunk_is_only_armed(context: Context) -> None:
    assert "armed" in context.call("system.reboot", 3)
    assert context.host.armed == [RebootRequest(3)]  # type: ignore[attr-defined]
    with pytest.raises(UsageError):
        context.call("system.reboot", "soon; rm -rf")
