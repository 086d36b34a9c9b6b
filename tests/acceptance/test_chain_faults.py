"""Chains under faults: killed masters, agents and hosts, reboots and upgrades that fail."""

from __future__ import annotations

import json
import os
import random
import signal
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet import Fleet, wait_for

import catena
from tests.acceptance.chain_steps import (
    CHAIN_SECONDS,
    SEED,
    agent_of,
    commands,
    cut_power,
    ended,
    note,
    resume_file,
    view,
    wait_for_moment,
    with_reboot,
    witness,
)
from tests.acceptance.conftest import make_fleet, running

#: Chains of each test that kills at random moments: `tests.sim` kills at any.
ROUNDS = 2


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    made = make_fleet({"web1": {}, "web2": {}}, chain_boundary_minutes=3)
    made.add("stuck", {"reboot_command": ["true"], "reboot_deadline_minutes": 1})
    made.add("alone", {"resume": "local", "resume_after_seconds": 0})
    yield from running(made)


def cleaned(fleet: Fleet, minion: str) -> bool:
    """Return whether the minion's newest chain has been cleaned up there."""
    jobs = json.loads(fleet.catena("job", "list", "--out", "json").stdout)
    mine = [job for job in jobs if job["target"] == minion]
    newest = max(job["jid"] for job in mine if job["fun"] == "mgractionchains.start")
    later = [j for j in mine if j["jid"] > newest and j["fun"] == "mgractionchains.clean"]
    return any(set(job["states"]) == {"done"} for job in later)


def actions(shown: dict[str, Any], minion: str) -> list[tuple[str, str]]:
    """Return (status, reason or comment) of each action of a minion."""
    (mine,) = (m["actions"] for m in shown["minions"] if m["minion"] == minion)
    return [(a["status"], a["reason"] or a["comment"]) for a in mine]


def test_master_killed_at_any_moment_loses_and_repeats_no_action(fleet: Fleet) -> None:
    moments = random.Random(SEED)
    for round_ in range(ROUNDS):
        label = f"master{round_}"
        with_reboot(fleet, label, "web1,web2")
        fleet.catena("chain", "schedule", label)
        for _ in range(2):
            # A moment, not an event: it may be any.
            wait_for_moment(moments.random() * 1.2)
            fleet.stop_master(signal.SIGKILL)
            fleet.start_master()
        shown = ended(fleet, label)
        assert shown["state"] == "done", (SEED, shown)
        wanted = {f"{h}:{w}": 1 for h in ("web1", "web2") for w in ("first", "second")}
        assert witness(fleet, label) == wanted, SEED


def test_agent_killed_at_any_moment_loses_and_repeats_no_action(fleet: Fleet) -> None:
    moments = random.Random(SEED)
    for round_ in range(ROUNDS):
        label = f"agent{round_}"
        with_reboot(fleet, label, "web1,web2")
        fleet.catena("chain", "schedule", label)
        for _ in range(3):
            wait_for_moment(moments.random() * 0.6)
            pid = agent_of(fleet, "web1")
            if not pid:
                continue
            os.kill(pid, signal.SIGKILL)
            fleet.tell_host("web1", "agent")
        shown = ended(fleet, label)
        assert shown["state"] == "done", (SEED, shown)
        assert set(witness(fleet, label).values()) == {1}, SEED


def test_command_is_interrupted_and_not_repeated_after_a_power_failure(
    fleet: Fleet,
) -> None:
    label = "cut"
    fleet.catena("chain", "create", label)
    held = note(fleet, label, "begun") + f"; until test -e {fleet.folder}/never; do sleep 1; done"
    fleet.catena("chain", "add", label, "-t", "web*", "--cmd", held)
    fleet.catena("chain", "add", label, "-t", "web*", "--cmd", note(fleet, label, "after"))
    fleet.catena("chain", "schedule", label)
    wait_for("the commands", lambda: len(witness(fleet, label)) == 2)
    cut_power(fleet, "web2")
    fleet.wait_up()
    wait_for("the word", lambda: actions(view(fleet, label), "web2")[0][0] == "Failed")
    assert actions(view(fleet, label), "web2") == [
        ("Failed", "interrupted"), ("Failed", "Prerequisite failed"),
    ]  # fmt: skip
    assert witness(fleet, label) == {"web1:begun": 1, "web2:begun": 1}
    fleet.catena("chain", "cancel", label)
    assert [status for status, _ in actions(view(fleet, label), "web1")] == ["Failed"] * 2
    wait_for("the end of the job", lambda: "/never" not in commands(fleet, "web1"))


def test_chain_continues_when_an_interrupted_command_is_marked_done(
    fleet: Fleet,
) -> None:
    label = "looked"
    fleet.catena("chain", "create", label)
    held = note(fleet, label, "begun") + f"; until test -e {fleet.folder}/looked; do sleep 1; done"
    fleet.catena("chain", "add", label, "-t", "web2", "--cmd", held)
    fleet.catena("chain", "add", label, "-t", "web2", "--cmd", note(fleet, label, "after"))
    fleet.catena("chain", "schedule", label)
    wait_for("the command", lambda: witness(fleet, label)["web2:begun"])
    cut_power(fleet, "web2")
    fleet.wait_up()
    wait_for("the verdict to be due", lambda: view(fleet, label)["state"] == "failed")
    fleet.catena("chain", "resolve", label, "--mark-done", "--minion", "web2")
    assert ended(fleet, label)["state"] == "done"
    assert witness(fleet, label) == {"web2:begun": 1, "web2:after": 1}


def test_second_chain_waits_behind_the_first_with_a_reason(fleet: Fleet) -> None:
    gate = fleet.folder / "gate"
    for label in ("front", "behind"):
        fleet.catena("chain", "create", label)
    held = f"until test -e {gate}; do sleep 0.05; done; " + note(fleet, "front", "done")
    fleet.catena("chain", "add", "front", "-t", "web1", "--cmd", held)
    fleet.catena("chain", "add", "behind", "-t", "web1", "--cmd", note(fleet, "behind", "done"))
    fleet.catena("chain", "schedule", "front")
    wait_for("the first", lambda: view(fleet, "front")["state"] == "running")
    fleet.catena("chain", "schedule", "behind")

    def queued() -> bool:
        jobs = json.loads(fleet.catena("run", "web1", "saltutil.running", "--out", "json").stdout)
        return [(job["state"], job["position"]) for job in jobs["web1"]] == [
            ("running", 0), ("queued", 1),
        ]  # fmt: skip

    wait_for("the queue", queued)
    assert "waits behind chain 'front' (" in fleet.catena("chain", "show", "behind").stdout
    gate.touch()
    assert ended(fleet, "behind")["state"] == "done"
    assert view(fleet, "front")["state"] == "done"


def test_unknown_resume_file_fails_a_chain_and_the_error_names_the_clearing_command(
    fleet: Fleet,
) -> None:
    path = resume_file(fleet, "web1")
    path.parent.mkdir(exist_ok=True)
    path.write_text("next_chunk: actionchains.actionchain_99_x_2\nactionchain_id: 99\n")
    fleet.catena("chain", "create", "foreign")
    fleet.catena("chain", "add", "foreign", "-t", "web1", "--cmd", note(fleet, "foreign", "ran"))
    done = fleet.catena("chain", "schedule", "foreign", "--watch", check=False)
    assert done.returncode == 1
    assert "mgractionchains.clean" in done.stdout, done.stdout
    assert str(path) in done.stdout
    wait_for("the clean of the run that failed", lambda: cleaned(fleet, "web1"))
    assert path.exists() and not witness(fleet, "foreign")
    fleet.catena("run", "web1", "mgractionchains.clean")
    assert not path.exists()
    fleet.catena("chain", "retry", "foreign")
    assert ended(fleet, "foreign")["state"] == "done"
    assert witness(fleet, "foreign") == {"web1:ran": 1}


def wheel(folder: Path, version: str) -> Path:
    """Write a wheel of this code whose daemon ends at once, as version *version*."""
    path = folder / f"catena-{version}-py3-none-any.whl"
    top = Path(catena.__file__).parent
    with zipfile.ZipFile(path, "w") as archive:
        for home, folders, files in os.walk(top, followlinks=True):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in files:
                inside = f"catena/{(Path(home) / name).relative_to(top)}"
                text = (Path(home) / name).read_bytes().decode()
                if inside == "catena/__init__.py":
                    text = text.replace(catena.__version__, version)
                if inside == "catena/minion/daemon.py":
                    assert "    start = blob.read(" in text
                    text = text.replace(
                        "    start = blob.read(", "    return\n    start = blob.read("
                    )
                archive.writestr(inside, text)
    return path


def test_agent_version_that_cannot_start_falls_back_and_fails_its_action(fleet: Fleet) -> None:
    label = "upgrade"
    fleet.catena("chain", "create", label)
    bad = str(wheel(fleet.folder, "0.1.77"))
    fleet.catena("chain", "add", label, "-t", "web2", "--cmd", note(fleet, label, "before"))
    fleet.catena("chain", "add", label, "-t", "web2", "--upgrade-agent", bad)
    fleet.catena("chain", "add", label, "-t", "web2", "--cmd", note(fleet, label, "after"))
    fleet.catena("chain", "schedule", label)
    shown = ended(fleet, label)
    assert shown["state"] == "failed"
    first, second, third = actions(shown, "web2")
    assert first[0] == "Completed"
    assert second[0] == "Failed" and "the new agent ended" in second[1], second
    assert third == ("Failed", "Prerequisite failed")
    assert witness(fleet, label) == {"web2:before": 1}
    fleet.wait_up()
    version = fleet.catena("run", "web2", "agent.version", "--out", "json").stdout
    assert json.loads(version) == {"web2": catena.__version__}
    assert not resume_file(fleet, "web2").exists()


def test_chain_continues_without_its_master_with_resume_local(fleet: Fleet) -> None:
    with_reboot(fleet, "lonely", "alone")
    before = (fleet.home("alone") / "boot_id").read_text()
    fleet.catena("chain", "schedule", "lonely")
    wait_for("the boot", lambda: (fleet.home("alone") / "boot_id").read_text() != before)
    fleet.stop_master(signal.SIGKILL)
    wait_for("the second", lambda: witness(fleet, "lonely")["alone:second"])
    fleet.start_master()
    assert ended(fleet, "lonely")["state"] == "done"
    assert witness(fleet, "lonely") == {"alone:first": 1, "alone:second": 1}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_reboot_that_never_happens_fails_at_its_deadline(fleet: Fleet) -> None:
    with_reboot(fleet, "never", "stuck,web1")
    fleet.catena("chain", "schedule", "never")
    path = resume_file(fleet, "stuck")
    wait_for("the resume file", path.exists)
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    for key in ("next_chunk", "actionchain_id", "next_action_id", "persist_boot_time", "boot_id"):
        assert f"{key}: " in text
    shown = ended(fleet, "never", 180 + CHAIN_SECONDS)
    first, second, third = actions(shown, "stuck")
    assert first[0] == "Completed"
    assert second[0] == "Failed" and "did not come back with a new boot" in second[1]
    assert third == ("Failed", "Prerequisite failed")
    assert [status for status, _ in actions(shown, "web1")] == ["Completed"] * 3
    wait_for("the minion's word", lambda: not path.exists())
    assert witness(fleet, "never")["stuck:second"] == 0
