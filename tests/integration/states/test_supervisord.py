"""supervisord.* with a real Supervisor of the test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.types import StateResult
from catena.modules.supervisord import parse_status
from tests.support.waiting import wait_until

if shutil.which("supervisord") is None:
    pytest.skip("supervisor is not installed", allow_module_level=True)

CONF = """[supervisord]
logfile={folder}/log
pidfile={folder}/pid
childlogdir={folder}
[unix_http_server]
file={folder}/socket
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix://{folder}/socket
[program:web]
command=sleep 1000
startsecs=0
autostart=false
priority=7 ; a comment
[program:work]
command=sleep 1000
process_name=%(program_name)s_%(process_num)d
numprocs=2
startsecs=0
autostart=false
"""


class Supervised:
    """Calls states for one Supervisor."""

    def __init__(self, context: Context, folder: Path) -> None:
        self.context = context
        self.conf = folder / "supervisord.conf"
        self.conf.write_text(CONF.replace("{folder}", str(folder)))

    def state(self, fun: str, name: str, /, test: bool = False, **more: Any) -> StateResult:
        found: StateResult = self.context.states[f"supervisord.{fun}"].call(
            self.context.with_(test=test), name, conf_file=str(self.conf), **more
        )
        return found

    def call(self, fun: str, *args: Any) -> Any:
        return self.context.call(f"supervisord.{fun}", *args, conf_file=str(self.conf))

    def states(self) -> dict[str, str]:
        return {name: row["state"] for name, row in self.call("status").items()}


@pytest.fixture
def supervised(context: Context, tmp_path: Path) -> Iterator[Supervised]:
    made = Supervised(context, tmp_path)
    words = ["supervisord", "--nodaemon", "--configuration", str(made.conf)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until((tmp_path / "socket").exists, "the socket of Supervisor")
        yield made
        process.terminate()


def test_process_is_started_and_stopped_once(supervised: Supervised) -> None:
    expected = supervised.state("running", "web", test=True)
    assert (expected.result, expected.comment) == (None, "Service web will be started")
    first = supervised.state("running", "web")
    assert (first.result, first.changes) == (True, {"web": "Starting: web"}), first
    assert first.comment == "Starting service: web"
    again = supervised.state("running", "web")
    assert (again.result, again.changes) == (True, {})
    assert again.comment == "Not starting already running service: web"
    assert (
        supervised.state("running", "web", test=True).comment == "Service web is already running"
    )
    pid = supervised.call("status")["web"]["reason"].split(",")[0]
    assert supervised.state("mod_watch", "web", test=True).result is None
    assert supervised.state("mod_watch", "web").changes == {"web": "Restarting: web"}
    assert supervised.call("status")["web"]["reason"].split(",")[0] != pid
    assert supervised.state("dead", "web", test=True).result is None
    stopped = supervised.state("dead", "web")
    assert stopped.changes == {"web": "Stopping service: web"}
    assert supervised.call("status_bool", "web", "STOPPED")
    for test in (False, True):
        again = supervised.state("dead", "web", test)
        assert (again.result, again.changes) == (True, {})
        assert again.comment == "Service web is not running"


def test_group_is_started_and_stopped_once(supervised: Supervised) -> None:
    assert supervised.state("running", "work:*", test=True).comment == (
        "All services in group 'work:' will be started"
    )
    assert supervised.call("start", "work:work_0").startswith("work:work_0: started")
    assert supervised.state("running", "work:", test=True).comment == (
        "The following services will be started: work:work_1"
    )
    assert supervised.state("running", "work:").changes == {"work:": "Starting: work:"}
    assert supervised.state("running", "work:").changes == {}
    assert supervised.states() == {
        "web": "STOPPED",
        "work:work_0": "RUNNING",
        "work:work_1": "RUNNING",
    }
    supervised.call("stop", "work:work_0")
    assert supervised.state("dead", "work:").changes == {"work:": "Stopping service: work:"}
    assert set(supervised.states().values()) == {"STOPPED"}
    assert supervised.state("dead", "work:").changes == {}


def test_program_of_a_changed_configuration_is_added_once(supervised: Supervised) -> None:
    assert supervised.state("dead", "new").comment == "Service new doesn't exist"
    with supervised.conf.open("a") as file:
        file.write("[program:new]\ncommand=sleep 1000\nstartsecs=0\n")
    expected = supervised.state("running", "new", test=True)
    assert (expected.result, expected.comment) == (None, "Service new will be added and started")
    first = supervised.state("running", "new")
    assert first.result is True, first
    assert first.changes["new"].startswith("Adding service: new")
    assert supervised.states()["new"] == "RUNNING"
    assert supervised.state("running", "new").changes == {}
    text = supervised.conf.read_text().replace("[program:new]", "[program:new]\npriority=5")
    supervised.conf.write_text(text)
    expected = supervised.state("running", "new", test=True, update=True)
    assert (expected.result, expected.comment) == (
        None,
        "Supervisor will be updated: new: changed",
    )
    updated = supervised.state("running", "new", update=True)
    assert "new: updated process group" in updated.changes["new"]
    again = supervised.state("running", "new", update=True)
    assert (again.result, again.changes) == (True, {})


def test_unknown_program_fails_with_the_words_of_supervisor(supervised: Supervised) -> None:
    found = supervised.state("running", "none")
    assert found.result is False
    assert "no such process" in found.comment


def test_supervisor_that_is_away_is_named(context: Context, tmp_path: Path) -> None:
    supervised = Supervised(context, tmp_path)
    for fun in ("running", "dead"):
        found = supervised.state(fun, "web")
        assert found.result is False
        assert found.comment.startswith("Supervisor does not answer: ")
    mistakes: list[tuple[str, dict[str, Any], str]] = [
        ("--help", {}, "is no name of a process"),
        ("web", {"bin_env": "/none"}, "there is no program /none"),
    ]
    for name, more, told in mistakes:
        found = supervised.state("running", name, **more)
        assert found.result is False
        assert told in found.comment


def test_settings_of_a_program_are_read(context: Context, tmp_path: Path) -> None:
    supervised = Supervised(context, tmp_path)
    found = context.call("supervisord.options", "web", str(supervised.conf))
    assert found == {"command": "sleep 1000", "startsecs": 0, "autostart": False, "priority": 7}


def test_status_without_processes_has_no_rows() -> None:
    assert parse_status("error: <class 'OSError'>, no such file\nweb: ERROR (no such)\n") == {}
