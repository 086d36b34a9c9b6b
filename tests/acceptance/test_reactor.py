"""The reactor of a real master: rules, order, reported errors, and a kill of the master."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import host
import pytest
from fleet import Fleet, wait_for

from tests.acceptance.conftest import make_fleet, running, write_tree

#: In the order of the rule; the broken ones come before the good ones.
FILES = {
    "undefined.sls": "a:\n  local.test.ping:\n  - tgt: {{ nowhere }}\n",
    "unparsable.sls": "a: [\n",
    "kind.sls": "a:\n  frob.x: []\n",
    "unknown.sls": "a:\n  runner.no.such: []\n",
    "new.sls": (
        "new:\n  local.cmd.run:\n  - tgt: {{ data['id'] }}\n  - args:\n"
        "    - cmd: echo new:{{ data['data']['n'] }} >> WITNESS\n"
    ),
    "old.sls": (
        "old:\n  cmd.cmd.run:\n  - tgt: {{ data['id'] }}\n  - arg:\n"
        "    - echo old:{{ data['data']['n'] }} >> WITNESS\n  - kwarg: {shell: /bin/sh}\n"
    ),
    "others.sls": (
        "runs:\n  runner.event.send:\n  - args:\n    - tag: my/runner\n"
        "    - data: {n: {{ data['data']['n'] }}, year: {{ data['_stamp'][:2] }}}\n"
        "keys:\n  wheel.key.reject:\n  - args:\n    - match: stranger\n"
        "here:\n  caller.file.append:\n  - args:\n    - path: WITNESS.here\n"
        "    - args: caller:{{ data['data']['n'] }}\n"
    ),
}
BROKEN = ["undefined.sls", "unparsable.sls", "kind.sls", "unknown.sls", "missing.sls"]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    good = ["new.sls", "old.sls", "others.sls"]
    rules: list[dict[str, Any]] = [
        {"my/all/*": [f"salt://reactor/{name}" for name in (*BROKEN, *good)]},
        {"my/order": "salt://reactor/new.sls"},
    ]
    made = make_fleet({"web1": {}, "web2": {}}, reactor=rules)
    witness = str(made.folder / "witness")
    texts = {f"reactor/{name}": text.replace("WITNESS", witness) for name, text in FILES.items()}
    write_tree(made.folder / "states", texts)
    yield from running(made)


def witness(fleet: Fleet) -> list[str]:
    """Return what was done; who rewrites its file has one of its own."""
    paths = [fleet.folder / name for name in ("witness", "witness.here")]
    return [word for path in paths if path.exists() for word in path.read_text().split()]


def events(fleet: Fleet, tag: str, count: int) -> list[dict[str, Any]]:
    """Return the first *count* stored events of a tag."""
    done = fleet.catena("event", "watch", "--after", "0", "--count", str(count), "--jsonl", tag)
    return [json.loads(line) for line in done.stdout.splitlines()]


def status(fleet: Fleet) -> dict[str, Any]:
    done = fleet.catena("runner", "reactor.status", "--out", "json", check=False)
    found: dict[str, Any] = json.loads(done.stdout or "{}")
    return found


def test_every_kind_of_reaction_runs_beside_broken_files(fleet: Fleet) -> None:
    # A key that waits, for the reaction of the kind wheel.
    fleet.add("stranger", {})
    fleet.start_minions(["stranger"])

    def pending() -> bool:
        keys = json.loads(fleet.catena("key", "list", "--out", "json").stdout)
        return "stranger" in [row["id"] for row in keys["pending"]]

    wait_for("the key", pending)
    fleet.catena("run", "web1", "event.send", "my/all/x", "n=7")
    wait_for("the reactions", lambda: len(witness(fleet)) == 3)
    assert sorted(witness(fleet)) == ["caller:7", "new:7", "old:7"]
    (sent,) = events(fleet, "my/runner", 1)
    assert sent["data"] == {"n": 7, "year": 20}
    wait_for("the rejected key", lambda: not pending())
    (told,) = events(fleet, "salt/wheel/*/ret", 1)
    assert (told["data"]["fun"], told["data"]["success"]) == ("wheel.key.reject", True)
    failed = [event["data"] for event in events(fleet, "catena/reactor/failed", len(BROKEN))]
    assert [data["file"].rpartition("/")[2] for data in failed] == BROKEN
    texts = ("undefined.sls:3", "unparsable.sls:1", "frob", "no.such", "missing.sls")
    for data, text in zip(failed, texts, strict=True):
        assert text in data["error"]
    now = wait_for("no lag", lambda: (now := status(fleet)).get("lag") == 0 and now)
    assert now["failures"] == len(BROKEN)
    assert "missing.sls" in now["last_failure"]
    listed = fleet.catena("runner", "reactor.list").stdout
    assert "salt/minion/*/start" in listed and "my/order" in listed
    host.power_off(fleet.home("stranger"))
    fleet.minions.pop("stranger")


def test_reactions_keep_the_order_of_events_across_a_kill_of_the_master(
    fleet: Fleet,
) -> None:
    (fleet.folder / "witness").unlink(missing_ok=True)
    call = f"{sys.executable} -m catena -c {fleet.home('web1')}/etc/catena call"
    sends = " && ".join(f"{call} event.send my/order n={n}" for n in range(8))
    child = subprocess.Popen(["sh", "-c", sends], stdout=subprocess.DEVNULL)
    wait_for("the first reaction", lambda: witness(fleet))
    fleet.stop_master(signal.SIGKILL)
    fleet.start_master()
    assert child.wait(60) == 0
    wanted = [f"new:{n}" for n in range(8)]

    def jobs_done() -> list[str]:
        # Only jobs have a key: what ran on the master right before it was killed runs again.
        return [line for line in witness(fleet) if not line.startswith("caller:")]

    # Their jobs may overlap on the minion; they are ordered in the order of the events.
    wait_for("all reactions", lambda: len(jobs_done()) >= len(wanted))
    assert sorted(jobs_done()) == wanted
    jobs = json.loads(fleet.catena("runner", "jobs.list_jobs", "--out", "json").stdout)
    asked = [str(job["Arguments"]) for _, job in sorted(jobs.items()) if job["User"] == "Reactor"]
    assert re.findall(r"new:(\d) ", " ".join(asked))[-8:] == [str(n) for n in range(8)]
    wait_for("no lag", lambda: status(fleet).get("lag") == 0)
