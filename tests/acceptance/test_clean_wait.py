"""A chain fails when a clean-up on its minion fails for longer than the limit."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from fleet import Fleet, wait_for

from tests.acceptance.chain_steps import (
    ended,
    note,
    note_of,
    resume_file,
    run_plain_chain,
    schedule,
    wait_for_reboot_state,
    witness,
)
from tests.acceptance.conftest import make_fleet, running


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """Give a fleet whose one host never reboots, and whose chains wait for a minute."""
    made = make_fleet({"one": {}}, chain_clean_wait_minutes=1)
    made.add("one", {"reboot_command": ["true"], "reboot_deadline_minutes": 1})
    yield from running(made)


@pytest.mark.slow
def test_chain_that_waits_too_long_for_a_clean_fails_with_the_clearing_command(
    fleet: Fleet,
) -> None:
    schedule(fleet, "ended")
    wait_for_reboot_state(fleet, "ended")
    path = resume_file(fleet, "one")
    text = path.read_text()
    folder = path.parent
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        fleet.catena("chain", "cancel", "ended")
        wait_for("the reason", lambda: "could not remove run 1" in note_of(fleet, "ended"))
        fleet.catena("chain", "create", "behind")
        fleet.catena("chain", "add", "behind", "-t", "one", "--cmd", note(fleet, "behind", "ran"))
        fleet.catena("chain", "schedule", "behind")
        wait_for("the wait", lambda: "waits for a clean-up" in note_of(fleet, "behind"))
        shown = ended(fleet, "behind", 240)
        assert shown["state"] == "failed"
        assert any(line["event"] == "handed_over" for line in shown["history"])
        (action,) = shown["minions"][0]["actions"]
        assert "mount -o remount,rw" in action["comment"] + action["reason"], action
        assert not witness(fleet, "behind")
        assert path.read_text() == text
    finally:
        subprocess.run(["umount", folder], check=True)
    fleet.catena("run", "one", "mgractionchains.clean")
    run_plain_chain(fleet, "after")
