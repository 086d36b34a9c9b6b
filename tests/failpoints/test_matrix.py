"""Kills, errors and delays at each failpoint of a chain lose no action and repeat none.

`make test-failpoints`: hours of machine time, minutes on many cores. Each run is one host and one
master; whatever happens, the chain ends, no finished command runs twice, none is skipped.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from catena.core.failpoint_rules import FAILPOINTS
from tests.failpoints.rig import INTERRUPTS, Rig, rig
from tests.support.newer_wheel import newer_wheel

pytestmark = [pytest.mark.failpoints, pytest.mark.timeout(900)]

VERBS = ("kill", "error(ENOSPC)", "sleep(1500)")
SHAPES = ("plain", "reboot", "upgrade")
#: Places that only some shapes pass.
ONLY = {
    "agent.upgrade.switched": {"upgrade"},
    "agent.after.due": {"reboot", "upgrade"},
    "chain.armed": {"reboot"},
    "chain.next.written": {"reboot", "upgrade"},
    "chain.resume.proven": {"reboot", "upgrade"},
    "chain.resume.taken": {"reboot", "upgrade"},
}
WORDS = ("one", "two")


@pytest.fixture(scope="session")
def wheel() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="catena-wheel-") as folder:
        yield newer_wheel(Path(folder))


def document(fleet: Rig, shape: str, wheel: Path) -> str:
    boundary = {"plain": [], "reboot": ["- reboot"], "upgrade": [f"- upgrade_agent: {wheel}"]}
    one, two = (f'- cmd: "{fleet.note(word)}"' for word in WORDS)
    head = ["label: steps", "target: '*'", "actions:"]
    return "\n".join([*head, one, *boundary[shape], two])


#: Places that a chain on a minion does not pass.
OVER_SSH = ("ssh.", "visit.", "reboot.")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", sorted(n for n in FAILPOINTS if not n.startswith(OVER_SSH)))
def test_no_failpoint_loses_or_repeats_a_step(
    name: str, verb: str, shape: str, wheel: Path
) -> None:
    if shape not in ONLY.get(name, SHAPES):
        pytest.skip("this shape does not pass it")
    points = f"{name}={verb}"
    on_master = name.startswith("master.")
    with rig({"one": "" if on_master else points}, points if on_master else "") as fleet:
        fleet.insist("run", "one", "event.send", "app/hello", "data={a: 1}")
        shown = fleet.run_chain("steps", document(fleet, shape, wheel))
        if name == "master.chain.fence":
            fleet.insist("chain", "cancel", "steps", unless=lambda: True)
        elif not fleet.hits("master" if on_master else "one")[name]:
            raise AssertionError(f"{name} was never passed")
        ran = {word: fleet.witness()[f"one:{word}"] for word in WORDS}
        text = f"{points} {shape}: {ran}\n{json.dumps(shown, indent=1)}"
        assert max(ran.values()) <= 1, text
        if shown["state"] == "done":
            assert set(ran.values()) == {1}, text
            return
        reasons = [a["reason"] for m in shown["minions"] for a in m["actions"] if a["reason"]]
        assert reasons, text
        # A place that fails with an error may fail its action, in words; a kill may cut one off.
        assert verb.startswith("error") or name in INTERRUPTS, text
