"""A long chain with reboots and an upgrade runs once on each minion while its master is killed."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator

import pytest
from fleet import Fleet, wait_for

from tests.acceptance.chain_steps import view
from tests.acceptance.conftest import make_fleet, running
from tests.support.newer_wheel import NEWER, newer_wheel

ONCE = 8


@pytest.fixture(scope="module", params=[3, pytest.param(10, marks=pytest.mark.slow)])
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Give a fleet of some minions."""
    yield from running(make_fleet({f"node{number}": {} for number in range(request.param)}))


def test_every_action_runs_once_across_reboots_upgrades_and_master_crashes(
    fleet: Fleet,
) -> None:
    wheel = newer_wheel(fleet.folder)
    witness = fleet.folder / "witness"
    note = f"echo $CATENA_DEMO_HOST:{{}} >> {witness}"
    actions: list[list[str]] = [["--cmd", note.format(0)], ["--cmd", note.format(1)], ["--reboot"]]
    actions += [["--cmd", note.format(2)], ["--apply", "base"], ["--cmd", note.format(3)]]
    actions += [["--upgrade-agent", str(wheel)], ["--cmd", note.format(4)]]
    actions += [["--cmd", note.format(5)], ["--reboot"]]
    actions += [["--cmd", note.format(6)], ["--cmd", note.format(7)]]
    assert len(actions) == 12
    fleet.catena("chain", "create", "long")
    for action in actions:
        fleet.catena("chain", "add", "long", "-t", "*", *action)
    fleet.catena("chain", "schedule", "long")
    wait_for("the first reboot", lambda: witness.exists() and ":2" in witness.read_text(), 60)
    fleet.stop_master(signal.SIGKILL)
    fleet.start_master()
    wait_for("the end", lambda: view(fleet, "long").get("state") in ("done", "failed"), 180)
    shown = view(fleet, "long")
    trouble = [
        (m["minion"], a["title"], a["status"], a["reason"], a["comment"])
        for m in shown["minions"] for a in m["actions"] if a["state"] != "DONE"
    ]  # fmt: skip
    assert shown["state"] == "done", trouble
    assert all(len(minion["actions"]) == 12 for minion in shown["minions"])
    wanted = Counter(f"{fleet.home(name)}:{n}" for name in fleet.minions for n in range(ONCE))
    assert Counter(witness.read_text().split()) == wanted
    fleet.wait_up()
    rows = json.loads(fleet.catena("minion", "list", "--out", "json").stdout)
    assert {row["version"] for row in rows} == {NEWER}
