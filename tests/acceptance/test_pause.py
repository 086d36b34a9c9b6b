"""A chain that is paused during a reboot stays paused after a kill of its master."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from fleet import Fleet, wait_for

from tests.acceptance.chain_steps import ended, note, view, witness
from tests.acceptance.conftest import make_fleet, running


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    yield from running(make_fleet({"web1": {}, "web2": {}}))


def waiting(fleet: Fleet, label: str, minion: str) -> str:
    """Return what the last action of a minion waits for."""
    shown = view(fleet, label)
    (mine,) = (each for each in shown.get("minions", ()) if each["minion"] == minion)
    return str(mine["actions"][-1]["waits"])


def test_chain_paused_before_a_reboot_resumes_only_when_it_is_continued(fleet: Fleet) -> None:
    gate = fleet.folder / "gate"
    fleet.catena("chain", "create", "night")
    held = note(fleet, "night", "first") + f"; until test -e {gate}; do sleep 0.05; done"
    for action in (["--cmd", held], ["--reboot"], ["--cmd", note(fleet, "night", "second")]):
        fleet.catena("chain", "add", "night", "-t", "*", *action)
    fleet.catena("chain", "schedule", "night")
    wait_for("the first", lambda: len(witness(fleet, "night")) == 2)
    said = fleet.catena("chain", "pause", "night", "--minion", "web1").stdout
    assert said.endswith("night: paused on web1; a minion completes the chunk that it has\n")
    gate.touch()

    # The other one comes back from its reboot and ends.
    wait_for("the second of web2", lambda: witness(fleet, "night")["web2:second"], 60)
    wait_for("the pause", lambda: waiting(fleet, "night", "web1").startswith("paused by "), 60)
    fleet.stop_master(signal.SIGKILL)
    fleet.start_master()
    fleet.wait_up()
    assert waiting(fleet, "night", "web1").startswith("paused by ")
    assert ", paused on web1" in fleet.catena("chain", "list").stdout
    assert "paused on web1 by root since" in fleet.catena("chain", "show", "night").stdout
    # What a person orders by hand waits, too; the command says so and ends.
    wait_for(
        "web1", lambda: not fleet.catena("run", "web1", "test.ping", check=False).returncode, 60
    )
    done = fleet.catena("run", "web1", "mgractionchains.resume", check=False)
    assert done.returncode == 3, done
    assert "not sent: paused by root since" in done.stdout + done.stderr
    fleet.catena("chain", "pause", "night", "--minion", "web1")
    assert witness(fleet, "night")["web1:second"] == 0

    fleet.catena("chain", "continue", "night")
    assert ended(fleet, "night")["state"] == "done"
    assert set(witness(fleet, "night").values()) == {1}
    refused = fleet.catena("chain", "continue", "night", check=False)
    assert refused.returncode != 0
    assert "is not paused" in refused.stderr
