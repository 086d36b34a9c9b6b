"""Each job reaches its minions once and its return is stored once, whichever process is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import host
import pytest
from fleet import Fleet, wait_for

from catena.client import connect
from catena.client.requests import jobs as job_requests
from catena.client.requests.jobs import JobShow
from tests.acceptance.conftest import make_fleet, running
from tests.support.waiting import GROWING_SECONDS

LARGE = 5_000_000


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    yield from running(make_fleet({"one": {}, "two": {}}))


def detached(fleet: Fleet, *words: str) -> str:
    return fleet.catena("run", *words, "--async").stdout.split()[-1]


def shown(fleet: Fleet, jid: str, minion: str) -> Any:
    client = connect(config_dir=str(fleet.config))
    return client.request(job_requests.SHOW, JobShow(jid))["minions"][minion]


def wait_for_state(fleet: Fleet, jid: str, minion: str, state: str) -> Any:
    """Wait until the delivery of *jid* to *minion* is in *state*; return it."""
    return wait_for(
        f"{minion} to be {state}",
        lambda: (row := shown(fleet, jid, minion))["state"] == state and row,
    )


def kill_daemon(fleet: Fleet, name: str) -> None:
    """Kill the minion's daemon, as the OOM killer does; its jobs go on."""
    daemons = []
    for pid in host.processes(fleet.home(name)):
        if b"catena.minion.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes():
            daemons.append(pid)
    assert len(daemons) == 1, daemons
    os.kill(daemons[0], signal.SIGKILL)


def is_up(fleet: Fleet, name: str) -> bool:
    return name in fleet.connected()


def return_events(fleet: Fleet, jid: str) -> list[str]:
    """Return the tags of all return events of a job: a mark sent after it ends the watch."""
    mark = f"mark/{jid}"
    fleet.catena("event", "send", mark)
    watch = [sys.executable, "-m", "catena", "-c", str(fleet.config), "event", "watch", "*"]
    tags = []
    with subprocess.Popen(
        [*watch, "--after", "0", "--jsonl"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tag = json.loads(line)["tag"]
            if tag == mark:
                break
            if tag.startswith(f"salt/job/{jid}/ret/"):
                tags.append(tag)
        process.send_signal(signal.SIGINT)
    return tags


@pytest.fixture
def two_away(fleet: Fleet) -> Iterator[Path]:
    """Switch host two off for the test."""
    host.power_off(fleet.home("two"))
    wait_for("two to be down", lambda: not is_up(fleet, "two"))
    yield fleet.home("two")
    if not list(host.processes(fleet.home("two"))):
        fleet.start_minions(["two"])
    fleet.wait_up()


def test_absent_minion_is_reported_at_once(fleet: Fleet, two_away: Path) -> None:
    done = fleet.catena("run", "*", "test.ping", "--out", "json", check=False)
    assert done.returncode == 3
    assert json.loads(done.stdout) == {"one": True}
    assert "two: not connected; it gets the job when it connects" in done.stderr
    assert "catena job watch" in done.stderr


def test_absent_minion_receives_its_job_when_it_connects(fleet: Fleet, two_away: Path) -> None:
    mark = fleet.folder / "woken"
    jid = detached(fleet, "two", "cmd.run", f"echo x >> {mark}")
    assert shown(fleet, jid, "two")["state"] == "queued"
    fleet.start_minions(["two"])
    wait_for_state(fleet, jid, "two", "done")
    assert mark.read_text() == "x\n"


def test_absent_minion_does_not_receive_an_expired_job(fleet: Fleet, two_away: Path) -> None:
    mark = fleet.folder / "late"
    jid = detached(fleet, "two", "cmd.run", f"touch {mark}", "--expire", "1")
    wait_for_state(fleet, jid, "two", "expired")
    fleet.start_minions(["two"])
    fleet.wait_up()
    assert fleet.catena("run", "two", "test.ping").returncode == 0
    assert not mark.exists()


def test_return_produced_without_a_master_is_stored_once(fleet: Fleet) -> None:
    gate, count = fleet.folder / "gate", fleet.folder / "count"
    command = f"echo x >> {count}; while [ ! -e {gate} ]; do sleep 0.05; done; echo came"
    jid = detached(fleet, "one", "cmd.run", command)
    wait_for("the job", count.exists)
    fleet.stop_master(signal.SIGKILL)
    gate.touch()
    folder = fleet.home("one") / "var/cache/catena/minion/jobs" / jid
    wait_for("the return on the minion's disk", (folder / "return").exists)
    # A second blow: the minion has to find the return on its disk.
    kill_daemon(fleet, "one")
    fleet.tell_host("one", "agent")
    fleet.start_master()
    assert wait_for_state(fleet, jid, "one", "done")["ret"]["value"] == "came"
    fleet.wait_up()
    assert count.read_text() == "x\n"
    assert return_events(fleet, jid) == [f"salt/job/{jid}/ret/one"]
    wait_for("the minion to forget the job", lambda: not folder.exists())


def test_job_survives_the_death_of_its_daemon(fleet: Fleet) -> None:
    gate, count = fleet.folder / "gate2", fleet.folder / "count2"
    command = f"echo x >> {count}; while [ ! -e {gate} ]; do sleep 0.05; done; echo came"
    jid = detached(fleet, "one", "cmd.run", command)
    wait_for("the job", count.exists)
    kill_daemon(fleet, "one")
    fleet.tell_host("one", "agent")
    log = fleet.home("one") / "minion.log"
    wait_for("its next daemon", lambda: f"job {jid} still runs" in log.read_text())
    gate.touch()
    assert wait_for_state(fleet, jid, "one", "done")["ret"]["value"] == "came"
    assert count.read_text() == "x\n"


def test_state_runs_of_one_minion_are_queued_visibly(fleet: Fleet) -> None:
    gate = fleet.folder / "gate3"
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    words = ("one", "state.single", "cmd.run", wait)
    first = detached(fleet, *words)
    others = [detached(fleet, *words) for _ in range(2)]
    wait_for_state(fleet, first, "one", "running")
    for position, jid in enumerate(others, 1):
        assert wait_for_state(fleet, jid, "one", "received")["detail"].startswith(
            f"waits behind {position}: job {first}"
        )
    # It would wait for the gate behind them.
    assert fleet.catena("run", "one", "test.ping").returncode == 0
    rows = json.loads(fleet.catena("run", "one", "saltutil.running", "--out", "json").stdout)
    assert [(row["state"], row["position"]) for row in rows["one"]] == [
        ("running", 0), ("queued", 1), ("queued", 2),
    ]  # fmt: skip
    fleet.catena("job", "cancel", others[0])
    wait_for_state(fleet, others[0], "one", "cancelled")
    wait_for(
        "the new position",
        lambda: shown(fleet, others[1], "one")["detail"].startswith("waits behind 1"),
    )
    gate.touch()
    wait_for_state(fleet, others[1], "one", "done")


def test_ctrl_c_detaches_and_prints_how_to_follow_the_job(fleet: Fleet) -> None:
    gate, begun = fleet.folder / "gate4", fleet.folder / "begun4"
    command = f"touch {begun}; while [ ! -e {gate} ]; do sleep 0.05; done; echo came"
    words = ["-m", "catena", "-c", str(fleet.config), "run", "one", "cmd.run", command]
    with subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        wait_for("the job", begun.exists)
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate(timeout=60)
    assert watching.returncode == 130
    assert said.startswith("detached; the job continues: catena job watch ")
    gate.touch()
    again = fleet.catena(*said.split(": catena ")[1].split(), "--out", "json")
    assert json.loads(again.stdout) == {"one": "came"}


def test_timeout_ends_the_wait_and_not_the_job(fleet: Fleet) -> None:
    gate = fleet.folder / "gate5"
    command = f"while [ ! -e {gate} ]; do sleep 0.05; done; echo came"
    done = fleet.catena("run", "one", "cmd.run", command, "--timeout", "3", check=False)
    assert done.returncode == 75
    jid = done.stderr.split()[-1]
    gate.touch()
    assert wait_for_state(fleet, jid, "one", "done")["ret"]["value"] == "came"


def test_deadline_ends_the_whole_process_tree(fleet: Fleet) -> None:
    pids = fleet.folder / "pids"
    command = f"sleep 600 & echo $! >> {pids}; echo $$ >> {pids}; sleep 600"
    for seconds in GROWING_SECONDS:
        words = ("run", "one", "state.single", "cmd.run", command, "--deadline", str(seconds))
        done = fleet.catena(*words, check=False)
        assert done.returncode == 1
        assert f"killed: not done after {seconds} seconds" in done.stdout
        if pids.exists() and len(pids.read_text().split()) >= 2:
            break
    left = [int(pid) for pid in pids.read_text().split()]
    assert len(left) >= 2
    wait_for("the processes to end", lambda: not any(map(_lives, left)))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_large_return_arrives_completely_and_an_oversized_one_is_truncated(fleet: Fleet) -> None:
    command = f"head -c {LARGE} /dev/zero | tr '\\0' x"
    done = fleet.catena("run", "*", "cmd.run", command, "--out", "json")
    assert {name: len(text) for name, text in json.loads(done.stdout).items()} == {
        "one": LARGE,
        "two": LARGE,
    }
    command = "head -c 30000000 /dev/zero | tr '\\0' x"
    text = json.loads(fleet.catena("run", "one", "cmd.run", command, "--out", "json").stdout)[
        "one"
    ]
    assert len(text) < 20_000_000
    assert text.endswith("more bytes of output were dropped)")


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("echo päö€𝄞", "päö€𝄞"),
        ("printf '\\377\\376\\000a'", "\ufffd\ufffd\x00a"),
        ("printf 'a\\033[31mb'", "a\x1b[31mb"),
    ],
)
def test_any_output_arrives_and_control_characters_are_escaped(
    fleet: Fleet, command: str, value: str
) -> None:
    done = fleet.catena("run", "one", "cmd.run", command, "--out", "json")
    assert json.loads(done.stdout) == {"one": value}
    assert "\x1b" not in fleet.catena("run", "one", "cmd.run", command).stdout


def start_job(fleet: Fleet, minion: str) -> str | None:
    """Return the job of the states that a minion ran at its start; None if none is listed."""
    rows = json.loads(fleet.catena("job", "list", "--out", "json").stdout)
    mine = (row for row in rows if row["fun"] == "state.sls" and row["user"] == minion)
    return next((str(row["jid"]) for row in mine), None)


def test_states_run_at_the_start_of_a_minion() -> None:
    fleet = make_fleet({"one": {}})
    fleet.add("one", {"startup_states": "sls", "sls_list": ["base"]})
    try:
        with fleet:
            fleet.start_master()
            fleet.start_minions()
            fleet.accept_all()
            jid = wait_for("the return of the start", lambda: start_job(fleet, "one"))
            returned = shown(fleet, jid, "one")
            assert (returned["state"], returned["ret"]["success"]) == ("done", True), returned
            assert (fleet.home("one") / "base.txt").read_text() == "one grey\n"
    finally:
        shutil.rmtree(fleet.folder, ignore_errors=True)
