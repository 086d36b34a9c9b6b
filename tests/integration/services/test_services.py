"""systemd in a booted namespace container, and SysV scripts in a root without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.errors import CatenaError
from catena.core.plugins import FunctionMark, Plugin, Registry, StateMark
from catena.core.types import StateResult
from catena.modules.service.sysv import SysV
from catena.states import INDEX as STATES
from tests.support.booted import Booted, booted_from
from tests.support.debian_roots import Root, overlay

pytestmark = [
    pytest.mark.container,
    pytest.mark.roots("bookworm"),
    pytest.mark.timeout(400),
]

UNIT = """[Unit]
Description=made by a test
[Service]
ExecStart=/bin/sleep infinity
ExecReload=/bin/true
[Install]
WantedBy=multi-user.target
"""

SCRIPT = """#!/bin/sh
### BEGIN INIT INFO
# Provides: old
# Required-Start:
# Required-Stop:
# Default-Start: 2 3 4 5
# Default-Stop: 0 1 6
### END INIT INFO
case "$1" in
start) touch /run/old.pid;;
stop) rm -f /run/old.pid;;
status) test -e /run/old.pid || exit 3;;
restart) touch /run/old.restarted;;
esac
"""


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    folder = tmp_path_factory.mktemp("booted")
    with overlay(folder / "system", entered=False) as root:
        root.write("/etc/systemd/system/made.service", UNIT)
        with booted_from(root, folder / "console") as system:
            yield system


def context_of(root: Root, provider: str) -> Context:
    def late(prefix: str) -> dict[str, Plugin] | None:
        if prefix != "cmd":
            return None

        def run_all(context: Context, cmd: Any, **options: Any) -> dict[str, Any]:
            return root.cmd_run_all(cmd, **options)

        return {"cmd.run_all": Plugin("cmd.run_all", run_all, FunctionMark("run_all"))}

    nothing: Any = None
    functions = Registry("function", modules.INDEX, FunctionMark, late)
    states = Registry("state", STATES, StateMark)
    opts = {"providers.service": provider}
    return Context(opts, {}, {}, functions, states, files=nothing, host=nothing)


def state(context: Context, name: str, *args: object, **kwargs: object) -> StateResult:
    found: StateResult = context.states[name].call(context, *args, **kwargs)
    return found


def test_systemd_service_is_started_enabled_and_stopped(booted: Booted) -> None:
    context = context_of(booted, "systemd")
    assert "made" in context.call("service.get_all")
    assert context.call("service.available", "made")
    assert not context.call("service.available", "nothing")
    assert not context.call("service.status", "made")
    assert context.call("service.start", "made")
    assert context.call("service.status", "made")
    first = context.call("service.show", "made")["MainPID"]
    assert context.call("service.restart", "made")
    assert context.call("service.show", "made")["MainPID"] != first
    assert context.call("service.reload", "made")
    assert context.call("service.enable", "made")
    assert context.call("service.enabled", "made")
    assert context.call("service.disable", "made")
    assert context.call("service.disabled", "made")
    assert context.call("service.stop", "made")
    assert not context.call("service.status", "made")
    with pytest.raises(CatenaError, match="not available"):
        context.call("service.start", "nothing")


def test_service_states_are_idempotent(booted: Booted) -> None:
    context = context_of(booted, "systemd")
    would = state(replace(context, test=True), "service.running", "made", enable=True)
    assert would.result is None
    assert not context.call("service.status", "made")
    did = state(context, "service.running", "made", enable=True)
    assert (did.result, dict(did.changes)) == (True, {"made": True})
    assert context.call("service.enabled", "made")
    assert state(context, "service.running", "made", enable=True).changes == {}
    watched = state(context, "service.mod_watch", "made", sfun="running")
    assert watched.changes == {"made": True}
    dead = state(context, "service.dead", "made", enable=False)
    assert dead.result is True
    assert not context.call("service.status", "made")
    assert not context.call("service.enabled", "made")
    assert state(context, "service.running", "nothing").result is False
    assert state(context, "service.dead", "nothing").result is True


def test_masked_service_cannot_start_until_it_is_unmasked(booted: Booted) -> None:
    context = context_of(booted, "systemd")
    booted.write("/etc/systemd/system/hidden.service", UNIT)
    # A unit file in /etc can't be masked; this one lies where packages put theirs.
    target = booted.path / "usr/lib/systemd/system/hidden.service"
    (booted.path / "etc/systemd/system/hidden.service").rename(target)
    context.call("service.systemctl_reload")
    assert state(context, "service.masked", "hidden").result is True
    with pytest.raises(CatenaError):
        context.call("service.start", "hidden")
    assert state(context, "service.running", "hidden", unmask=True).result is True
    look = state(context.with_(test=True), "service.masked", "hidden", runtime=True)
    assert look.changes == {"runtime masked": {"old": False, "new": True}}
    assert state(context, "service.masked", "hidden", runtime=True).changes == look.changes
    assert state(context, "service.masked", "hidden", runtime=True).changes == {}
    assert not context.call("service.masked", "hidden")
    assert state(context, "service.unmasked", "hidden").changes == {}
    assert context.call("service.masked", "hidden", runtime=True)
    gone = state(context, "service.unmasked", "hidden", runtime=True)
    assert gone.comment == "Service hidden was runtime unmasked"
    assert not context.call("service.masked", "hidden", runtime=True)


def test_job_and_its_children_run_outside_the_unit_of_the_agent(booted: Booted) -> None:
    source = (Path(__file__).parents[3] / "minion/worker/scope.py").read_text()
    booted.write("/opt/scope.py", source)
    code = (
        "import sys; sys.path.insert(0, '/opt'); import scope, subprocess\n"
        "print(scope.enter('20260101000000000000'))\n"
        "print(subprocess.run(['cat', '/proc/self/cgroup'], capture_output=True).stdout.decode())"
    )
    ran = booted.cmd_run_all(["python3", "-c", code])
    name, _, groups = ran["stdout"].partition("\n")
    assert name == "catena-job-20260101000000000000.scope", ran
    assert f"/{name}" in groups


def test_sysv_scripts_are_started_enabled_and_listed(tmp_path: Path) -> None:
    with overlay(tmp_path / "old") as root:
        root.write("/etc/init.d/old", SCRIPT, 0o755)
        context = context_of(root, "sysv")
        tool = SysV(context, root.path)
        assert "old" in tool.available()
        assert tool.exists("old")
        assert not tool.running("old")
        tool.act("old", "start")
        assert tool.running("old")
        tool.act("old", "restart")
        assert (root.path / "run/old.restarted").exists()
        tool.act("old", "stop")
        assert not tool.running("old")
        tool.enable("old", True)
        assert tool.enabled("old")
        tool.enable("old", False)
        assert not tool.enabled("old")
        with pytest.raises(CatenaError):
            tool.mask("old", True)
