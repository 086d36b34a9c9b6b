"""Chains across reboots by systemd on Debian 11, 12 and 13; cables are cut, masters killed."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reboot.machines import BOOT_SECONDS, Installation, Site, site

pytestmark = [
    pytest.mark.reboot,
    pytest.mark.roots("bullseye", "bookworm", "trixie"),
    pytest.mark.timeout(600),
]

HOSTS = {
    "old1": "bullseye",
    "old2": "bullseye",
    "mid1": "bookworm",
    "mid2": "bookworm",
    "new1": "trixie",
}
REBOOTS = 3
CHAIN_SECONDS = 300.0
SEED = 20261121


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    folder = Path(tempfile.mkdtemp(prefix="catena-installed-"))
    yield Installation(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def fleet(installation: Installation) -> Iterator[Site]:
    with site(Path(tempfile.mkdtemp(prefix="cat-")), installation) as made:
        for name, suite in HOSTS.items():
            made.add(name, suite, {"job_tasks_max": 400})
        made.start_master()
        for machine in made.machines.values():
            machine.power_on()
        made.wait_up()
        yield made


def note(word: str) -> str:
    """A command that writes its host, a word and the running boot to a file outside the host."""
    return f"echo $(hostname) {word} $(cat /proc/sys/kernel/random/boot_id) >> /witness/seen"


def seen(fleet: Site) -> list[tuple[str, str, str]]:
    path = fleet.folder / "witness/seen"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(host, word, boot) for host, word, boot in (line.split() for line in lines)]


def chain_with_reboots(fleet: Site, label: str, *options: str) -> None:
    fleet.catena("chain", "create", label)
    for number in range(REBOOTS):
        fleet.catena("chain", "add", label, "-t", "*", "--cmd", note(f"step{number}"), *options)
        fleet.catena("chain", "add", label, "-t", "*", "--reboot")
    fleet.catena("chain", "add", label, "-t", "*", "--cmd", note("last"), *options)


def state(fleet: Site, label: str) -> dict[str, Any]:
    done = fleet.catena("chain", "show", label, "--out", "json", check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {"state": "unknown"}


def wait_done(fleet: Site, label: str) -> None:
    fleet.wait_for(
        "the chain's end",
        lambda: state(fleet, label)["state"] in ("done", "failed", "cancelled"),
        CHAIN_SECONDS,
    )
    shown = state(fleet, label)
    assert shown["state"] == "done", json.dumps(shown, indent=1)


def test_each_action_runs_once_across_three_reboots_with_lost_links_and_a_killed_master(
    fleet: Site,
) -> None:
    moments = random.Random(SEED)
    before = {name: machine.boots for name, machine in fleet.machines.items()}
    chain_with_reboots(fleet, "night")
    fleet.catena("chain", "schedule", "night")
    for round_ in range(4):
        name = moments.choice(list(fleet.machines))
        threading.Event().wait(moments.uniform(0.5, 3.0))
        fleet.cut(name)
        threading.Event().wait(moments.uniform(0.5, 4.0))
        fleet.mend(name)
        if round_ % 2:
            fleet.kill_master()
            threading.Event().wait(moments.uniform(0.1, 3.0))
            fleet.start_master()
    wait_done(fleet, "night")
    words = [f"step{number}" for number in range(REBOOTS)] + ["last"]
    counts = Counter((host, word) for host, word, _ in seen(fleet))
    assert counts == Counter({(host, word): 1 for host in HOSTS for word in words}), SEED
    for host in HOSTS:
        boots = [boot for name, _, boot in seen(fleet) if name == host]
        assert len(set(boots)) == REBOOTS + 1, (host, boots)
        assert [word for name, word, _ in seen(fleet) if name == host] == words
        assert fleet.machines[host].boots - before[host] == REBOOTS


def test_power_failure_at_any_moment_loses_no_step_of_a_chain(fleet: Site) -> None:
    moments = random.Random(SEED + 1)
    chain_with_reboots(fleet, "storm", "--repeat", "idempotent")
    fleet.catena("chain", "schedule", "storm")
    for _ in range(5):
        threading.Event().wait(moments.uniform(0.3, 4.0))
        machine = fleet.machines[moments.choice(list(fleet.machines))]
        machine.power_off()
        threading.Event().wait(moments.uniform(0.0, 1.0))
        machine.power_on()
    wait_done(fleet, "storm")
    words = [f"step{number}" for number in range(REBOOTS)] + ["last"]
    for host in HOSTS:
        mine = [word for name, word, _ in seen(fleet) if name == host]
        # An idempotent action that the power met runs again; the order never changes.
        assert sorted(set(mine), key=mine.index) == words, (SEED, host, mine)
        assert mine == sorted(mine, key=words.index), (SEED, host, mine)


def test_systemd_unit_starts_the_agent_which_answers_soon_after_the_boot(fleet: Site) -> None:
    done = fleet.catena("run", "*", "grains.get", "pythonversion", "--out", "json")
    found = {name: tuple(value[:2]) for name, value in json.loads(done.stdout).items()}
    assert set(found.values()) == {(3, 9), (3, 11), (3, 13)}
    done = fleet.catena("run", "mid1", "cmd.run", "systemctl is-active catena-minion")
    assert "active" in done.stdout
    boots = fleet.machines["mid1"].boots
    fleet.catena("run", "mid1", "system.reboot", check=False)
    fleet.wait_for("the boot", lambda: fleet.machines["mid1"].boots > boots, BOOT_SECONDS)
    fleet.wait_up()


def test_agent_answers_while_an_action_forks_endlessly(fleet: Site) -> None:
    # 2^8 processes and no more: whether systemd can limit them depends on the cgroups here.
    bomb = "python3 -c 'import os,time; [os.fork() for _ in range(8)]; time.sleep(600)'"
    fleet.catena("run", "mid1", "cmd.run", bomb, "timeout=8", "--async")
    fleet.wait_for("the bomb", lambda: "cmd.run" in running(fleet, "mid1"), BOOT_SECONDS)
    began = time.monotonic()
    done = fleet.catena("run", "mid1", "test.ping", "--out", "json")
    assert json.loads(done.stdout) == {"mid1": True}
    assert time.monotonic() - began < 5.0
    fleet.wait_for("its end", lambda: "cmd.run" not in running(fleet, "mid1"), 60)
    fleet.catena("run", "mid1", "cmd.run", "echo well")


def running(fleet: Site, name: str) -> str:
    return fleet.catena("run", name, "saltutil.running", check=False).stdout
