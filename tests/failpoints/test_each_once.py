"""A kill at each failpoint loses no action and repeats none.

All hosts of one fleet run one chain, each is killed at another place; the master of another fleet
is killed at one place after the other. A place that is never passed fails the run.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catena.core.failpoint_rules import FAILPOINTS
from tests.failpoints.rig import INTERRUPTS, Rig, rig
from tests.support.newer_wheel import newer_wheel

pytestmark = pytest.mark.timeout(900)

#: Which hit of a place lies in the chain, where the first ones do not.
AT = {
    "agent.return.stored": 2,
    "file.write": 12, "file.rename": 13, "file.renamed": 14,
    "journal.write": 3, "journal.written": 4, "journal.synced": 5,
    "master.commit.before": 20, "master.commit.after": 25, "master.order.send": 2,
    "master.return.received": 3, "master.return.stored": 3, "master.hello": 2,
}  # fmt: skip
#: The master writes fewer files, and no journal.
AT_MASTER = {**AT, "file.write": 2, "file.rename": 3, "file.renamed": 4}
#: Passed only where an agent changes its version, or a chain is called off: tested apart.
APART = {"agent.upgrade.switched", "master.chain.fence"}

#: Passed by an agent; the others by hosts without one and by visits (tests/failpoints/test_ssh.py,
#: tests/acceptance/test_ssh_chains.py), or by the master.
OF_AGENTS = ("agent.", "worker.", "chain.", "journal.", "file.")
ON_HOSTS = sorted(n for n in FAILPOINTS if n.startswith(OF_AGENTS) and n not in APART)
ON_MASTER = sorted(n for n in FAILPOINTS if n.startswith(("master.", "file.")) and n not in APART)


WORDS = ("one", "two", "three")


def document(fleet: Rig) -> str:
    """Three commands that must not run twice, with a reboot behind the first."""
    one, two, three = (f'- cmd: "{fleet.note(word)}"' for word in WORDS)
    return "\n".join(("label: steps", "target: '*'", "actions:", one, "- reboot", two, three))


def test_chain_continues_after_a_kill_at_each_failpoint_of_a_host() -> None:
    names = {f"h{number}": name for number, name in enumerate(ON_HOSTS)}
    with rig({h: f"{name}=kill@{AT.get(name, 1)}" for h, name in names.items()}) as fleet:
        for hostname, name in names.items():
            if name == "agent.outbox.event":
                fleet.insist("run", hostname, "event.send", "app/hello", "data={a: 1}")
        fleet.run_chain("steps", document(fleet))
        missed = [n for h, n in names.items() if fleet.hits(h)[n] < AT.get(n, 1)]
        assert not missed, f"never passed: {missed}\n{json.dumps(fleet.show('steps'), indent=1)}"
        verdicts = {names[m["minion"]]: m for m in fleet.show("steps")["minions"]}
        for hostname, name in names.items():
            ran = {word: fleet.witness()[f"{hostname}:{word}"] for word in WORDS}
            shown = json.dumps(verdicts[name]["actions"], indent=1)
            assert max(ran.values()) <= 1, f"{name}: {ran}\n{shown}"
            states = [a["state"] for a in verdicts[name]["actions"]]
            if set(states) == {"DONE"}:
                assert set(ran.values()) == {1}, f"{name}: {ran}"
            else:
                reasons = {a["reason"] for a in verdicts[name]["actions"]}
                assert name in INTERRUPTS and "interrupted" in reasons, f"{name}: {shown}"


def test_agent_killed_during_its_upgrade_has_the_new_version_or_reports_why_not(
    tmp_path: Path,
) -> None:
    wheel = newer_wheel(tmp_path)
    names = {"due": "agent.after.due", "switched": "agent.upgrade.switched"}
    with rig({h: f"{name}=kill" for h, name in names.items()}) as fleet:
        one, two = (f'- cmd: "{fleet.note(word)}"' for word in ("one", "two"))
        lines = ("label: steps", "target: '*'", "actions:", one, f"- upgrade_agent: {wheel}", two)
        shown = fleet.run_chain("steps", "\n".join(lines))
        assert all(fleet.hits(h)[name] for h, name in names.items())
        assert max(fleet.witness().values()) == 1
        states = {m["minion"]: [a["state"] for a in m["actions"]] for m in shown["minions"]}
        assert set(states["due"]) == {"DONE"}, json.dumps(shown, indent=1)
        assert fleet.witness()["due:two"] == 1
        for minion in shown["minions"]:
            for action in minion["actions"]:
                assert action["state"] == "DONE" or action["reason"] or action["comment"]


def test_master_killed_at_every_failpoint_loses_nothing() -> None:
    points = ";".join(f"{name}=kill@{AT_MASTER.get(name, 1)}" for name in ON_MASTER)
    with rig({"one": "", "two": ""}, points) as fleet:
        shown = fleet.run_chain("steps", document(fleet))
        assert shown["state"] == "done", json.dumps(shown, indent=1)
        words = [f"{h}:{w}" for h in ("one", "two") for w in WORDS]
        assert fleet.witness() == dict.fromkeys(words, 1)
        hits = fleet.hits()
        missed = [name for name in ON_MASTER if hits[name] < AT_MASTER.get(name, 1)]
        assert not missed, f"never passed: {missed}"
        assert fleet.restarts["master"] >= len(ON_MASTER) - 1
