"""Keys of minions, accepted, rejected and rotated with `catena key`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import host
import pytest
from fleet import Fleet, wait_for

from catena.client import connect
from catena.client.requests import keys as key_requests
from catena.client.requests.keys import KeyList
from tests.acceptance.conftest import make_fleet

Host = Callable[..., "NewHost"]


class NewHost:
    """A host that is not accepted yet."""

    def __init__(self, fleet: Fleet, name: str, settings: dict[str, Any]) -> None:
        self.fleet, self.name = fleet, name
        fleet.add(name, settings)

    def start(self) -> NewHost:
        self.fleet.start_minions([self.name])
        return self

    def log(self) -> str:
        path = self.fleet.home(self.name) / "minion.log"
        return path.read_text() if path.exists() else ""

    def wait_for_log_line(self, text: str) -> str:
        """Wait until the minion's log holds *text*; return its whole line."""
        wait_for(f"{text!r} in {self.name}'s log", lambda: text in self.log())
        return next(line for line in reversed(self.log().splitlines()) if text in line)


@pytest.fixture(scope="module")
def master() -> Iterator[Fleet]:
    fleet = make_fleet({})
    try:
        with fleet:
            fleet.start_master()
            yield fleet
    finally:
        shutil.rmtree(fleet.folder, ignore_errors=True)


@pytest.fixture
def new_host(master: Fleet) -> Iterator[Host]:
    """Make hosts that end with the test, their keys forgotten."""
    made: list[str] = []

    def make(name: str, **settings: Any) -> NewHost:
        made.append(name)
        return NewHost(master, name, settings)

    yield make
    for name in made:
        host.power_off(master.home(name))
        shutil.rmtree(master.home(name))
        del master.minions[name]
    master.catena("key", "delete", "--all")


@pytest.fixture
def member(master: Fleet, new_host: Host) -> Host:
    """Make hosts whose keys are accepted; they are connected."""

    def make(name: str, **settings: Any) -> NewHost:
        token = master.catena("key", "token", "--id", name).stdout.strip()
        made: NewHost = new_host(name, enrol_token=token, **settings).start()
        made.wait_for_log_line("connected to the master")
        return made

    return make


def keys(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """Return id -> row with its state; the last one where an id has several keys."""
    found = connect(config_dir=str(fleet.config)).request(key_requests.LIST, KeyList("*"))
    return {row["id"]: {**row, "state": state} for state, rows in found.items() for row in rows}


def answers(fleet: Fleet, name: str) -> bool:
    return fleet.catena("run", name, "test.ping", check=False).returncode == 0


def test_pending_key_shows_fingerprint_address_and_age(master: Fleet, new_host: Host) -> None:
    new_host("one").start().wait_for_log_line("pending")
    finger = master.catena("key", "finger", "one").stdout.split()[-1]
    (line,) = master.catena("key", "list", "on*").stdout.splitlines()[1:]
    state, name, shown, address, age, _ = line.split()
    assert (state, name, shown, address) == ("pending", "one", finger, "127.0.0.1")
    assert len(finger) == 64
    assert age.endswith("s")
    lists = master.catena("key", "list", "on*", "--out", "key").stdout.splitlines()
    assert lists[lists.index("Unaccepted Keys:") + 1] == "one"


def test_keys_are_accepted_by_id_by_glob_and_all(master: Fleet, new_host: Host) -> None:
    for name in ("web1", "web2", "db1", "db2"):
        new_host(name).start()
    wait_for("the keys", lambda: len(keys(master)) == 4)
    assert master.catena("key", "accept", "db1").stdout == "db1\n"
    assert master.catena("key", "accept", "web*").stdout == "web1\nweb2\n"
    assert master.catena("key", "accept", "--all").stdout == "db2\n"
    assert {row["state"] for row in keys(master).values()} == {"accepted"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["accept", "oen"], "did you mean 'one'"),
        (["accept", "x*"], "no key to accept that matches 'x*'"),
        (["rotate", "one"], "the key of one is pending"),
        (["accept"], "give an id or a glob, or --all"),
        (["delete", "one", "--all"], "give an id or a glob, or --all"),
    ],
)
def test_unknown_key_is_an_error(
    master: Fleet, new_host: Host, words: list[str], text: str
) -> None:
    new_host("one").start().wait_for_log_line("pending")
    done = master.catena("key", *words, check=False)
    assert done.returncode == 2
    assert text in done.stderr
    assert keys(master)["one"]["state"] == "pending"


def test_first_use_of_a_masters_key_is_logged(master: Fleet, new_host: Host) -> None:
    finger = master.catena("key", "finger").stdout.split()[1]
    assert finger in new_host("one").start().wait_for_log_line("trusted on first use")


def test_master_with_the_named_fingerprint_is_trusted(master: Fleet, new_host: Host) -> None:
    finger = master.catena("key", "finger").stdout.split()[1]
    written = ":".join(finger[i : i + 2] for i in range(0, 64, 2)).upper()
    host = new_host("one", master_finger=written).start()
    assert "master" in host.wait_for_log_line("trusted by its fingerprint")


def test_master_with_another_fingerprint_receives_nothing(master: Fleet, new_host: Host) -> None:
    line = (
        new_host("one", master_finger="ab" * 32)
        .start()
        .wait_for_log_line("the master is not trusted")
    )
    assert "master_finger is " + "ab" * 32 in line
    assert "one" not in keys(master)


def test_token_accepts_one_minion_once(master: Fleet, new_host: Host) -> None:
    token = master.catena("key", "token", "--id", "one").stdout.strip()
    new_host("one", enrol_token=token).start().wait_for_log_line("connected to the master")
    line = new_host("two", enrol_token=token).start().wait_for_log_line("our key is pending")
    assert "its token is unknown, used or expired" in line
    open_token = master.catena("key", "token").stdout.strip()
    new_host("three", enrol_token=open_token).start().wait_for_log_line("connected to the master")


@pytest.mark.parametrize("action", ["delete", "reject"])
def test_minion_without_an_accepted_key_is_disconnected_at_once(
    master: Fleet, member: Host, action: str
) -> None:
    one = member("one")
    master.catena("key", action, "one")
    one.wait_for_log_line("refuses this minion (revoked)")
    assert not answers(master, "one")
    # A rejected key stays out until somebody decides otherwise; a deleted one may ask anew.
    one.wait_for_log_line("rejected" if action == "reject" else "pending")


def test_rejected_key_can_be_accepted_by_its_id(master: Fleet, new_host: Host) -> None:
    one = new_host("one").start()
    one.wait_for_log_line("pending")
    master.catena("key", "reject", "one")
    one.wait_for_log_line("rejected")
    assert master.catena("key", "accept", "*", check=False).returncode == 2
    master.catena("key", "accept", "one")
    one.wait_for_log_line("connected to the master")


def test_key_is_rotated_inside_its_channel(master: Fleet, member: Host) -> None:
    one = member("one")
    before = keys(master)["one"]["fingerprint"]
    master.catena("key", "rotate", "one")
    after = one.wait_for_log_line("key was replaced").split()[-1]
    wait_for("the new key", lambda: keys(master)["one"]["fingerprint"] == after)
    assert after != before
    assert answers(master, "one")
    host.power_off(master.home("one"))
    one.start()
    wait_for("the minion with its new key", lambda: answers(master, "one"))


def _clone(fleet: Fleet, name: str, of: str) -> None:
    """Give host *name* the keys and the id of another."""
    shutil.copytree(
        fleet.home(of) / "etc/catena/pki", fleet.home(name) / "etc/catena/pki", symlinks=True
    )


def _row(fleet: Fleet, *words: str) -> Any:
    rows = json.loads(fleet.catena(*words, "list", "--out", "json").stdout)
    return {row["id"]: row for row in rows}


def test_copied_minion_is_refused_and_reported(
    master: Fleet, member: Host, new_host: Host
) -> None:
    member("one")
    copy = new_host("copy", id="one", machine_id=master.machine_id("one"))
    _clone(master, "copy", "one")
    line = copy.start().wait_for_log_line("refuses this minion (duplicate_key)")
    assert "one is connected from 127.0.0.1 with the same key" in line
    assert answers(master, "one")
    for shown in (master.catena("key", "list"), master.catena("minion", "list")):
        assert "with the same key; this one came from 127.0.0.1: a clone?" in shown.stdout


def test_second_host_with_one_machine_id_is_refused_and_reported(
    master: Fleet, member: Host, new_host: Host
) -> None:
    member("one")
    twin = new_host("twin", machine_id=master.machine_id("one")).start()
    twin.wait_for_log_line("pending")
    assert "same machine id as one" in master.catena("key", "list", "twin").stdout
    master.catena("key", "accept", "twin")
    twin.wait_for_log_line("refuses this minion (duplicate_machine)")
    assert "is that of one" in keys(master)["twin"]["conflict"]
    row = _row(master, "minion")["twin"]
    assert not row["up"]
    assert "is that of one" in row["conflict"]
    assert answers(master, "one")


def test_another_key_for_a_known_id_is_denied(master: Fleet, member: Host, new_host: Host) -> None:
    member("one")
    new_host("other", id="one").start().wait_for_log_line("our key is denied: one has another key")
    assert answers(master, "one")
    assert "denied" in master.catena("key", "list").stdout


def test_all_keys_are_accepted_only_with_auto_accept_and_a_warning() -> None:
    fleet = make_fleet({"one": {}}, auto_accept=True)
    try:
        with fleet:
            fleet.start_master()
            fleet.start_minions()
            fleet.wait_up()
            log = (fleet.folder / "master.log").read_text()
            assert "auto_accept" in next(line for line in log.splitlines() if "WARN" in line)
    finally:
        shutil.rmtree(fleet.folder, ignore_errors=True)


def test_config_check_reports_an_invalid_fingerprint(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"one": {}}, None, {"master_finger": "abc"})
    done = fleet.catena(
        "-c", str(fleet.home("one") / "etc/catena"), "config", "check", check=False
    )
    assert done.returncode == 2
    assert "master_finger" in done.stderr


def test_first_job_after_accept_reaches_a_waiting_minion(master: Fleet, new_host: Host) -> None:
    new_host("fresh").start().wait_for_log_line("key accept fresh")
    assert master.catena("key", "accept", "fresh").stdout == "fresh\n"
    assert "True" in master.catena("run", "fresh", "test.ping").stdout


def test_accept_right_after_delete_accepts_the_key_that_enrols_again(
    master: Fleet, member: Host
) -> None:
    member("anew")
    for _ in range(2):
        assert master.catena("key", "delete", "anew").stdout == "anew\n"
        assert master.catena("key", "accept", "anew").stdout == "anew\n"
        assert "True" in master.catena("run", "anew", "test.ping").stdout
