"""Two chains, or runs of one, on one minion do not disturb each other under faults."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import Fleet, wait_for

from tests.acceptance.chain_steps import (
    agent_of,
    cut_power,
    ended,
    note,
    note_of,
    resume_file,
    run_plain_chain,
    schedule,
    view,
    wait_for_moment,
    wait_for_reboot_state,
    with_reboot,
    witness,
)
from tests.acceptance.conftest import make_fleet, running

#: At most so many jobs of one function may come of what one test does.
FEW = 12


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """Give a fleet whose one host reboots only when it is told to."""
    made = make_fleet({"one": {}}, chain_boundary_minutes=2)
    made.add("one", {"reboot_command": ["true"], "reboot_deadline_minutes": 60})
    yield from running(made)


def power_cycle(fleet: Fleet) -> None:
    """Let the host lose its power and come back in another boot."""
    cut_power(fleet, "one")
    fleet.wait_up()


def kill_agent(fleet: Fleet) -> None:
    """Kill the agent and start another one in the same boot, as systemd does."""
    pid = agent_of(fleet, "one")
    if pid:
        os.kill(pid, signal.SIGKILL)
        fleet.tell_host("one", "agent")


def jobs(fleet: Fleet, fun: str) -> int:
    """Return how many jobs of a function the master has made."""
    listed = json.loads(fleet.catena("job", "list", "--out", "json", "--limit", "1000").stdout)
    return sum(1 for job in listed if job["fun"] == fun)


@pytest.mark.parametrize("kills", [0, 3])
def test_chain_continues_when_another_one_that_waits_for_the_boot_is_cancelled(
    fleet: Fleet, kills: int
) -> None:
    first, second = f"first{kills}", f"second{kills}"
    cleans = jobs(fleet, "mgractionchains.clean")
    schedule(fleet, first)
    wait_for_reboot_state(fleet, first)
    schedule(fleet, second)
    wait_for("the queue", lambda: f"waits behind chain {first!r}" in str(view(fleet, second)))
    fleet.catena("chain", "cancel", first)
    for _ in range(kills):
        kill_agent(fleet)
        wait_for_moment(0.3)
    wait_for_reboot_state(fleet, second)
    power_cycle(fleet)
    for _ in range(kills):
        kill_agent(fleet)
        wait_for_moment(0.3)
    assert ended(fleet, second)["state"] == "done"
    assert view(fleet, first)["state"] == "cancelled"
    assert witness(fleet, first) == {"one:first": 1}
    assert witness(fleet, second) == {"one:first": 1, "one:second": 1}
    assert jobs(fleet, "mgractionchains.clean") - cleans <= FEW
    assert not resume_file(fleet, "one").exists()


def test_cancel_of_a_queued_chain_does_not_stop_the_one_that_resumes(fleet: Fleet) -> None:
    gate = fleet.folder / "resumed-gate"
    fleet.catena("chain", "create", "resumed")
    held = f"until test -e {gate}; do sleep 0.05; done; " + note(fleet, "resumed", "after")
    for action in (["--reboot"], ["--cmd", held]):
        fleet.catena("chain", "add", "resumed", "-L", "-t", "one", *action)
    fleet.catena("chain", "schedule", "resumed")
    wait_for_reboot_state(fleet, "resumed")
    schedule(fleet, "queued")
    power_cycle(fleet)
    wait_for("the resume", lambda: "until test" in running_commands(fleet))
    # The one that is queued is ended; its clean must not stop the resume that runs.
    fleet.catena("chain", "cancel", "queued")
    kill_agent(fleet)
    gate.touch()
    assert ended(fleet, "resumed")["state"] == "done"
    assert view(fleet, "queued")["state"] == "cancelled"
    assert witness(fleet, "resumed") == {"one:after": 1}
    assert witness(fleet, "queued") == {}


def running_commands(fleet: Fleet) -> str:
    from tests.acceptance.chain_steps import commands

    return commands(fleet, "one")


@pytest.mark.slow
def test_retry_runs_although_its_older_run_is_removed_late(fleet: Fleet) -> None:
    with_reboot(fleet, "again", "one")
    fleet.catena("chain", "schedule", "again")
    wait_for_reboot_state(fleet, "again")
    # The agent dies for good; meanwhile somebody gives the first run up, and another one runs.
    pid = agent_of(fleet, "one")
    os.kill(pid, signal.SIGKILL)
    shown = ended(fleet, "again", 250)
    assert "did not come back with a new boot" in str(shown)
    fleet.catena("chain", "retry", "again")
    schedule(fleet, "beside")
    power_cycle(fleet)
    wait_for_reboot_state(fleet, "again")
    assert "run 2" in fleet.catena("chain", "show", "again").stdout
    power_cycle(fleet)
    assert ended(fleet, "again")["state"] == "done"
    wait_for_reboot_state(fleet, "beside")
    power_cycle(fleet)
    assert ended(fleet, "beside")["state"] == "done"
    assert witness(fleet, "again") == {"one:first": 1, "one:second": 1}
    assert witness(fleet, "beside") == {"one:first": 1, "one:second": 1}


def test_cancel_removes_a_folder_in_the_place_of_the_resume_file(fleet: Fleet) -> None:
    schedule(fleet, "folder")
    wait_for_reboot_state(fleet, "folder")
    path = resume_file(fleet, "one")
    path.unlink()
    (path / "below").mkdir(parents=True)
    fleet.catena("chain", "cancel", "folder")
    wait_for("the removal of the folder", lambda: not path.exists())
    assert view(fleet, "folder")["state"] == "cancelled"
    run_plain_chain(fleet, "after-folder")
    assert not os.path.lexists(path)


def test_failed_clean_is_reported_and_the_suggested_command_works(fleet: Fleet) -> None:
    schedule(fleet, "mounted")
    wait_for_reboot_state(fleet, "mounted")
    path = resume_file(fleet, "one")
    path.unlink()
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(path)], check=True)
    mounted = True
    try:
        before = jobs(fleet, "mgractionchains.clean")
        began = time.monotonic()
        fleet.catena("chain", "cancel", "mounted")
        wait_for("the reason", lambda: "a file system is mounted" in note_of(fleet, "mounted"))
        told = fleet.catena("doctor", "master", check=False).stdout
        line = next(text for text in told.splitlines() if "'mounted'" in text)
        assert "could not remove run 1: can't remove" in line
        # 5 and 10 seconds between the first three: a storm would have made thousands.
        wait_for("a second try", lambda: re.search(r"\d tries", note_of(fleet, "mounted")))
        made = jobs(fleet, "mgractionchains.clean") - before
        assert made <= 3 + (time.monotonic() - began) / 5, made
        cure = note_of(fleet, "mounted").partition("first: ")[2].partition(" (")[0]
        subprocess.run(cure, shell=True, check=True)
        mounted = False
        advice = told.partition(line)[2].splitlines()[1].partition("run now: catena ")[2]
        fleet.catena(*advice.split())
        wait_for("the end", lambda: "could not remove" not in note_of(fleet, "mounted"))
        assert not os.path.lexists(path)
    finally:
        if mounted:
            subprocess.run(["umount", str(path)], check=True)
    run_plain_chain(fleet, "after-mounted")


def test_next_chain_waits_for_a_failing_clean_and_continues_by_itself(fleet: Fleet) -> None:
    schedule(fleet, "ended")
    wait_for_reboot_state(fleet, "ended")
    path = resume_file(fleet, "one")
    path.unlink()
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(path)], check=True)
    try:
        fleet.catena("chain", "cancel", "ended")
        wait_for("the reason", lambda: "a file system is mounted" in note_of(fleet, "ended"))
        for label in ("behind", "beyond"):
            fleet.catena("chain", "create", label)
            fleet.catena("chain", "add", label, "-t", "one", "--cmd", note(fleet, label, "ran"))
            fleet.catena("chain", "schedule", label)
        wait_for("the wait", lambda: "waits for a clean-up" in note_of(fleet, "beyond"))
        fleet.stop_master(signal.SIGKILL)
        fleet.start_master()
        fleet.wait_up()
        kill_agent(fleet)
        fleet.wait_up()
        shown = fleet.catena("chain", "show", "behind").stdout
        assert "waits for the clean-up of chain 'ended'" in shown
        assert "at once: catena run one mgractionchains.clean" in shown
        assert ", until " in shown
        listed = fleet.catena("chain", "list").stdout
        assert listed.count("waits for a clean-up on one") == 2
        told = fleet.catena("doctor", "master", check=False).stdout
        assert "chain 'behind' (" in told and "must wait for that there" in told
        assert not witness(fleet, "behind")
        fleet.catena("chain", "cancel", "beyond")
    finally:
        subprocess.run(["umount", str(path)], check=True)
    # Nobody orders anything: the next clean succeeds, and the start is sent.
    assert ended(fleet, "behind")["state"] == "done"
    assert witness(fleet, "behind") == {"one:ran": 1}
    assert view(fleet, "beyond")["state"] == "cancelled"
    assert witness(fleet, "beyond") == {}


def test_chain_lost_by_its_host_is_reported_with_that_reason(fleet: Fleet, tmp_path: Path) -> None:
    schedule(fleet, "lost")
    wait_for_reboot_state(fleet, "lost")
    number = view(fleet, "lost")["id"]
    resume_file(fleet, "one").unlink()
    chains = next(fleet.home("one").rglob(f"chains/{number}"))
    chains.rename(tmp_path / "lost")
    power_cycle(fleet)
    wait_for("the word", lambda: "no chain waits on this minion" in str(view(fleet, "lost")))
    told = fleet.catena("doctor", "master", check=False).stdout
    assert "is given up soon: one: no chain waits on this minion" in told
    # Two minutes, looked at once a minute; a plain chain is not held up by it.
    run_plain_chain(fleet, "meanwhile")
    fleet.catena("chain", "cancel", "lost")
    assert view(fleet, "lost")["state"] == "cancelled"
