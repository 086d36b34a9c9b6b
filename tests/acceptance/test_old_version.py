"""Masters and minions of this version and of the previous one work together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fleet import Fleet, wait_for

import catena
from tests.acceptance.chain_scripts import note, script, statuses, witness
from tests.acceptance.conftest import make_fleet, running
from tests.support import old_version

pytestmark = pytest.mark.versions

OLD, NEW = old_version.VERSION, catena.__version__
#: Which version each daemon runs; the command line runs its master's.
FLEETS = {
    "older agents": {"master": NEW, "web1": OLD, "web2": NEW},
    "older master": {"master": OLD, "web1": NEW, "web2": OLD},
}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return old_version.python(tmp_path_factory.mktemp("old"))


@pytest.fixture(scope="module", params=FLEETS)
def versions(request: pytest.FixtureRequest) -> Mapping[str, str]:
    return FLEETS[request.param]


@pytest.fixture(scope="module")
def fleet(versions: Mapping[str, str], old: Path) -> Iterator[Fleet]:
    pythons = {name: str(old) for name, version in versions.items() if version == OLD}
    yield from running(make_fleet({"web1": {"role": "web"}, "web2": {"role": "web"}}, pythons))


def test_daemons_run_the_intended_versions(fleet: Fleet, versions: Mapping[str, str]) -> None:
    assert f"catena, version {versions['master']}" in fleet.catena("--version").stdout
    rows = json.loads(fleet.catena("minion", "list", "--out", "json").stdout)
    found = {row["id"]: row["version"] for row in rows}
    assert found == {name: versions[name] for name in ("web1", "web2")}
    log = (fleet.folder / "master.log").read_text()
    assert f"catena master {versions['master']} serves" in log


def test_ping_and_states_work_between_versions(fleet: Fleet) -> None:
    pinged = json.loads(fleet.catena("run", "*", "test.ping", "--out", "json").stdout)
    assert pinged == {"web1": True, "web2": True}
    done = fleet.catena("run", "*", "state.apply", "--out", "json")
    assert set(json.loads(done.stdout)) == {"web1", "web2"}
    for name in ("web1", "web2"):
        assert (fleet.home(name) / "base.txt").read_text().rstrip() == f"{name} blue"


def test_chain_with_a_reboot_runs_each_action_once_between_versions(fleet: Fleet) -> None:
    run = script(fleet, "first", note(fleet, "once", "first"))
    fleet.catena("chain", "create", "night")
    fleet.catena("chain", "add", "night", "-t", "*", "--script", run)
    fleet.catena("chain", "add", "night", "-t", "*", "--reboot")
    fleet.catena("chain", "add", "night", "-t", "*", "--cmd", note(fleet, "once", "second"))
    fleet.catena("chain", "schedule", "night", "--watch")
    assert statuses(fleet, "night") == {name: ["Completed"] * 3 for name in ("web1", "web2")}
    wanted = {
        f"{fleet.home(name)}:{word}" for name in fleet.minions for word in ("first", "second")
    }
    assert witness(fleet, "once") == dict.fromkeys(wanted, 1)


def test_cancelled_chain_is_forgotten_between_versions(fleet: Fleet) -> None:
    gate = fleet.folder / "gate"
    held = script(fleet, "held", f"touch {gate}; exec sleep 300")
    fleet.catena("chain", "create", "long")
    fleet.catena("chain", "add", "long", "-t", "web1", "--script", held)
    fleet.catena("chain", "schedule", "long")
    wait_for("the action", gate.exists)
    fleet.catena("chain", "cancel", "long")

    def forgotten() -> bool:
        shown = json.loads(fleet.catena("chain", "show", "long", "--out", "json").stdout)
        note = shown["minions"][0]["note"]
        # The texts of the master of this version and of the old one.
        return "must remove" not in note and "forgotten" not in note

    wait_for("the minion to forget the chain", forgotten)
    assert not list((fleet.home("web1") / "etc/catena/minion.d").glob("_mgractionchains*"))
