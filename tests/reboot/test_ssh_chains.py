"""Chains with reboots on whole hosts over SSH, beside a minion, under faults.

Every action appends a line to a file outside the hosts: who ran it, which action, in which boot.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fleet import FleetError

from tests.reboot.machines import Installation
from tests.reboot.ssh_machines import SshSite, ssh_site

pytestmark = [
    pytest.mark.reboot,
    pytest.mark.roots("bullseye-ssh", "bookworm-ssh", "trixie-ssh"),
    pytest.mark.timeout(600),
]

HOSTS = {"old": "bullseye", "mid": "bookworm", "new": "trixie"}
MINION = "agent"
CHAIN_SECONDS = 240.0
#: A look at a host follows its reboot soon: it needs seconds here, not minutes.
SETTINGS: dict[str, Any] = {"ssh_reboot_minutes": 0.05}
SEED = 20261122
CONF = """
/srv/seen:
  file.managed:
    - source: salt://conf.j2
    - template: jinja
    - onlyif: test -e /witness/seen
applied:
  cmd.run:
    - name: echo $(hostname) applied $(cat /proc/sys/kernel/random/boot_id) >> /witness/seen
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[SshSite]:
    installed = Path(tempfile.mkdtemp(prefix="catena-installed-"))

    def fill(site: SshSite) -> None:
        for name, suite in HOSTS.items():
            site.add_bare(name, suite)
        site.add(MINION, "bookworm")
        (site.tree / "states/conf.sls").write_text(CONF)
        (site.tree / "states/conf.j2").write_text("{{ salt['file.read']('/witness/seen') }}")
        site.configure(**SETTINGS)

    try:
        folder = Path(tempfile.mkdtemp(prefix="cat-"))
        with ssh_site(folder, Installation(installed), fill) as made:
            made.start_master()
            made.wait_up()
            yield made
    finally:
        shutil.rmtree(installed, ignore_errors=True)


@pytest.fixture
def fleet(hosts: SshSite) -> Iterator[SshSite]:
    """Yield a site where nothing goes on; heal it after the test, whatever that left."""
    hosts.forget_seen()
    for path in (hosts.folder / "witness").glob("go*"):
        path.unlink()
    yield hosts
    for name in hosts.machines:
        hosts.mend(name)
    (hosts.folder / "witness/go").touch()


def note(word: str) -> str:
    """A command that writes its host, a word and the running boot to a file outside the host."""
    return f"echo $(hostname) {word} $(cat /proc/sys/kernel/random/boot_id) >> /witness/seen"


def gated(word: str) -> str:
    """The same, and then wait for the test."""
    return f"{note(word)}; until test -e /witness/go; do sleep 0.05; done"


def add(fleet: SshSite, label: str, host: str, *actions: tuple[str, ...]) -> None:
    """Make a chain of one host, and schedule it."""
    fleet.catena("chain", "create", label)
    for action in actions:
        fleet.catena("chain", "add", label, "-t", host, *action)
    fleet.catena("chain", "schedule", label)


def wait_noted(fleet: SshSite, host: str, word: str) -> None:
    fleet.wait_for(f"{word} of {host}", lambda: word in noted(fleet, host), CHAIN_SECONDS)


def wait_shown(fleet: SshSite, label: str, text: str) -> str:
    """Wait until `catena chain show` says *text*; return all that it says."""

    def look() -> str:
        shown = fleet.catena("chain", "show", label).stdout
        return shown if text in shown else ""

    try:
        return str(fleet.wait_for(f"{text!r} of {label}", look, CHAIN_SECONDS))
    except FleetError as error:
        raise FleetError(f"{error}\n{fleet.catena('chain', 'show', label).stdout}") from error


def statuses(shown: dict[str, Any], host: str) -> list[tuple[str, str]]:
    (mine,) = (each["actions"] for each in shown["minions"] if each["minion"] == host)
    return [(one["status"], one["reason"] or one["comment"]) for one in mine]


def chain_with_reboots(
    fleet: SshSite, label: str, reboots: int, *options: str, hosts: tuple[str, ...] = tuple(HOSTS)
) -> list[str]:
    """Make a chain; return the words that each host is to note, in order."""
    target = ("-L", "-t", ",".join(hosts))
    fleet.catena("chain", "create", label)
    words = [f"{label}{number}" for number in range(reboots + 1)]
    for word in words:
        fleet.catena("chain", "add", label, *target, "--cmd", note(word), *options)
        if word != words[-1]:
            fleet.catena("chain", "add", label, *target, "--reboot")
    return words


def state(fleet: SshSite, label: str) -> dict[str, Any]:
    done = fleet.catena("chain", "show", label, "--out", "json", check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {"state": "unknown"}


def wait_end(fleet: SshSite, label: str) -> dict[str, Any]:
    try:
        fleet.wait_for(
            "the chain's end",
            lambda: state(fleet, label)["state"] in ("done", "failed", "cancelled"),
            CHAIN_SECONDS,
        )
    except Exception:
        print(fleet.catena("chain", "show", label).stdout)
        raise
    return state(fleet, label)


def wait_done(fleet: SshSite, label: str) -> None:
    shown = wait_end(fleet, label)
    assert shown["state"] == "done", json.dumps(shown, indent=1)


def noted(fleet: SshSite, host: str) -> list[str]:
    return [line[1] for line in fleet.seen() if line[0] == host]


def words_and_boots(fleet: SshSite, hosts: tuple[str, ...]) -> dict[str, tuple[list[str], int]]:
    """Return by host the words that it noted, in order, and in how many boots."""
    boots = {host: {line[2] for line in fleet.seen() if line[0] == host} for host in hosts}
    return {host: (noted(fleet, host), len(boots[host])) for host in hosts}


def each_once(words: list[str], hosts: tuple[str, ...]) -> dict[str, tuple[list[str], int]]:
    """Return `words_and_boots` of a chain that noted each word once, each in another boot."""
    return dict.fromkeys(hosts, (words, len(words)))


def leftovers(fleet: SshSite) -> list[str]:
    """Return the files of runs and of chains that are left on the hosts."""
    found: list[str] = []
    for name in HOSTS:
        folder = fleet.machines[name].root.path / "root/.cache/catena"
        left = [*folder.glob("runs/*"), *folder.glob("incoming/*")]
        found += map(str, [*left, *folder.rglob("_mgractionchains.conf*")])
    return found


def test_chain_with_reboots_runs_on_hosts_and_a_minion_at_once(fleet: SshSite) -> None:
    every = (*HOSTS, MINION)
    words = chain_with_reboots(fleet, "night", 2, hosts=every)
    before = {name: machine.boots for name, machine in fleet.machines.items()}
    fleet.catena("chain", "schedule", "night")
    wait_done(fleet, "night")
    assert words_and_boots(fleet, every) == each_once(words, every), SEED
    assert {name: fleet.machines[name].boots - before[name] for name in every} == dict.fromkeys(
        every, 2
    )
    assert leftovers(fleet) == []


def test_lost_links_and_killed_masters_lose_no_step_of_a_chain(fleet: SshSite) -> None:
    moments = random.Random(SEED)
    every = (*HOSTS, MINION)
    words = chain_with_reboots(fleet, "storm", 3, hosts=every)
    fleet.catena("chain", "schedule", "storm")
    for round_ in range(6):
        name = moments.choice(every)
        threading.Event().wait(moments.uniform(0.2, 3.0))
        fleet.cut(name)
        threading.Event().wait(moments.uniform(0.2, 4.0))
        if round_ % 2:
            fleet.kill_master()
            threading.Event().wait(moments.uniform(0.1, 3.0))
            fleet.start_master()
        fleet.mend(name)
    wait_done(fleet, "storm")
    assert words_and_boots(fleet, every) == each_once(words, every), SEED
    assert leftovers(fleet) == []


def test_power_failure_at_any_moment_loses_no_step_of_a_chain(fleet: SshSite) -> None:
    moments = random.Random(SEED + 1)
    words = chain_with_reboots(fleet, "power", 3, "--repeat", "idempotent")
    fleet.catena("chain", "schedule", "power")
    for _ in range(6):
        threading.Event().wait(moments.uniform(0.3, 4.0))
        machine = fleet.machines[moments.choice(list(HOSTS))]
        machine.power_off()
        threading.Event().wait(moments.uniform(0.0, 2.0))
        machine.power_on()
    wait_done(fleet, "power")
    for host in HOSTS:
        mine = noted(fleet, host)
        # An idempotent action that the power met runs again; the order never changes.
        assert sorted(set(mine), key=mine.index) == words, (SEED, host, mine)
        assert mine == sorted(mine, key=words.index), (SEED, host, mine)
    assert leftovers(fleet) == []


def test_action_interrupted_by_a_power_failure_waits_for_a_decision_instead_of_running_twice(
    fleet: SshSite,
) -> None:
    actions = (("--cmd", note("first")), ("--cmd", gated("met")), ("--cmd", note("after")))
    for host in HOSTS:
        add(fleet, f"met-{host}", host, *actions)
    for host in HOSTS:
        wait_noted(fleet, host, "met")
        fleet.machines[host].power_off()
    for host in HOSTS:
        fleet.machines[host].power_on()
    for host in HOSTS:
        shown = wait_end(fleet, f"met-{host}")
        assert shown["state"] == "failed"
        assert [status for status, _ in statuses(shown, host)] == ["Completed", "Failed", "Failed"]
        assert statuses(shown, host)[1][1] == "interrupted", shown
        assert noted(fleet, host) == ["first", "met"]
    fleet.catena("chain", "resolve", "met-old", "--mark-done")
    (fleet.folder / "witness/go").touch()
    fleet.catena("chain", "resolve", "met-mid", "--retry")
    fleet.catena("chain", "resolve", "met-new", "--cancel")
    for host in ("old", "mid"):
        wait_done(fleet, f"met-{host}")
    assert noted(fleet, "old") == ["first", "met", "after"]
    assert noted(fleet, "mid") == ["first", "met", "met", "after"]
    assert noted(fleet, "new") == ["first", "met"]
    assert leftovers(fleet) == []


def test_action_finishes_without_a_connection_while_the_chain_waits(fleet: SshSite) -> None:
    for host in HOSTS:
        add(fleet, f"cable-{host}", host, ("--cmd", gated("before")), ("--apply", "conf"),
            ("--reboot",), ("--cmd", note("after")))  # fmt: skip
    for host in HOSTS:
        wait_noted(fleet, host, "before")
        fleet.cut(host)
    for host in HOSTS:
        said = wait_shown(fleet, f"cable-{host}", "not reached")
        assert "its running job continues and keeps the result" in said
    (fleet.folder / "witness/go").touch()
    # The action ends there, without anybody; the next one is compiled here, when there is a way.
    for host in HOSTS:
        steps = fleet.machines[host].root.path / "root/.cache/catena/runs"
        fleet.wait_for("the question", partial(asks, steps), CHAIN_SECONDS)
        assert noted(fleet, host) == ["before"]
        fleet.mend(host)
    for host in HOSTS:
        wait_done(fleet, f"cable-{host}")
        assert noted(fleet, host) == ["before", "applied", "after"]
    assert leftovers(fleet) == []


def asks(runs: Path) -> bool:
    return any('"ask"' in path.read_text() for path in runs.glob("*/steps"))


def test_chain_continues_when_the_master_was_away_during_the_whole_reboot(
    fleet: SshSite,
) -> None:
    words = chain_with_reboots(fleet, "long", 2)
    before = {name: fleet.machines[name].boots for name in HOSTS}
    fleet.catena("chain", "schedule", "long")
    fleet.wait_for(
        "a boot", lambda: any(fleet.machines[h].boots > before[h] for h in HOSTS), CHAIN_SECONDS
    )
    fleet.kill_master()
    for host in HOSTS:
        fleet.wait_sshd(host)
    # They have all been back for a while, and nobody told them to go on.
    threading.Event().wait(3.0)
    fleet.start_master()
    wait_done(fleet, "long")
    hosts = tuple(HOSTS)
    assert words_and_boots(fleet, hosts) == each_once(words, hosts), SEED
    assert leftovers(fleet) == []


def test_chain_waits_for_a_slow_boot_and_a_host_that_refuses_logins_at_first(
    fleet: SshSite,
) -> None:
    slow = {"old": "ssh.service", "mid": "systemd-user-sessions.service", "new": "ssh.service"}
    for host, unit in slow.items():
        fleet.machines[host].root.write(
            f"/etc/systemd/system/{unit}.d/slow.conf", "[Service]\nExecStartPre=/bin/sleep 8\n"
        )
    every = tuple(f"{host}-free" for host in HOSTS)
    words = chain_with_reboots(fleet, "slow", 1, hosts=every)
    fleet.catena("chain", "schedule", "slow")
    wait_done(fleet, "slow")
    hosts = tuple(HOSTS)
    assert words_and_boots(fleet, hosts) == each_once(words, hosts), SEED
    for host, unit in slow.items():
        (fleet.machines[host].root.path / f"etc/systemd/system/{unit}.d/slow.conf").unlink()
    assert leftovers(fleet) == []


def test_chain_waits_for_a_decision_when_host_key_or_machine_changed_at_a_reboot(
    fleet: SshSite,
) -> None:
    for host in ("old", "new"):
        add(fleet, f"other-{host}", host, ("--cmd", gated("one")), ("--reboot",),
            ("--cmd", note("two")))  # fmt: skip
        wait_noted(fleet, host, "one")
    fleet.cut("old")
    fleet.cut("new")
    boots = {host: fleet.machines[host].boots for host in HOSTS}
    fleet.new_host_key("old")
    machine_id = fleet.machines["new"].root.path / "etc/machine-id"
    own = machine_id.read_text()
    (fleet.folder / "witness/go").touch()
    machine_id.write_text("0" * 31 + "1\n")
    for host in ("old", "new"):
        fleet.mend(host)
    said = wait_shown(fleet, "other-old", "waits for a person")
    assert "ssh-key trust" in said
    said = wait_shown(fleet, "other-new", "waits for a person")
    assert "machine id" in said
    assert [noted(fleet, host) for host in ("old", "new")] == [["one"], ["one"]]
    machine_id.write_text(own)
    fleet.catena("ssh-key", "trust", "old", "--yes")
    for host in ("old", "new"):
        wait_done(fleet, f"other-{host}")
        assert noted(fleet, host) == ["one", "two"]
        assert fleet.machines[host].boots == boots[host] + 1
    assert leftovers(fleet) == []


def test_killed_processes_of_an_ssh_run_lose_no_step_of_a_chain(fleet: SshSite) -> None:
    moments = random.Random(SEED + 2)
    words = chain_with_reboots(fleet, "killed", 1, "--repeat", "idempotent")
    fleet.catena("chain", "schedule", "killed")
    ends = time.monotonic() + CHAIN_SECONDS
    killed = 0
    while killed < 8 and time.monotonic() < ends and state(fleet, "killed")["state"] != "done":
        killed += kill_one(fleet, moments.choice(list(HOSTS)), moments)
    wait_done(fleet, "killed")
    for host in HOSTS:
        mine = noted(fleet, host)
        assert sorted(set(mine), key=mine.index) == words, (SEED, host, mine)
        assert mine == sorted(mine, key=words.index), (SEED, host, mine)
    assert leftovers(fleet) == []


def kill_one(fleet: SshSite, host: str, moments: random.Random) -> int:
    """End one process of ours on a host; return how many there were to choose from, at most 1."""
    with contextlib.suppress(FleetError):
        listed = fleet.inside(host, "ps", "-eo", "pid=,args=").splitlines()
        # Of the host's own processes: the number is one of its own namespace.
        ours = [line.split()[0] for line in listed if "/.cache/catena" in line]
        if ours:
            fleet.inside(host, "kill", "-KILL", moments.choice(ours))
            return 1
    return 0


def test_chain_waits_for_free_space_on_a_full_disk(fleet: SshSite) -> None:
    for host in HOSTS:
        room = "/root/.cache"
        fleet.inside(host, "rm", "-rf", room)
        fleet.inside(host, "mkdir", room)
        fleet.inside(host, "mount", "-t", "tmpfs", "-o", "size=40m,mode=0700", "tmpfs", room)
        add(fleet, f"full-{host}", host, ("--cmd", note("before")),
            ("--cmd", f"head -c 40m /dev/zero > {room}/big || :"),
            ("--cmd", note("after")))  # fmt: skip
    for host in HOSTS:
        wait_noted(fleet, host, "before")
        wait_shown(fleet, f"full-{host}", "No space left")
        assert noted(fleet, host) == ["before"]
    for host in HOSTS:
        fleet.inside(host, "rm", "/root/.cache/big")
        wait_done(fleet, f"full-{host}")
        assert noted(fleet, host) == ["before", "after"]
        fleet.inside(host, "umount", "--lazy", "/root/.cache")


def test_unknown_chain_on_the_host_fails_the_new_one_and_names_the_clearing_command(
    fleet: SshSite,
) -> None:
    # Numbers of chains begin anew with a database: these have others.
    for number in range(2):
        fleet.catena("chain", "create", f"unused{number}")
    add(
        fleet, "theirs", "new", ("--cmd", gated("theirs")), ("--reboot",), ("--cmd", note("never"))
    )
    wait_noted(fleet, "new", "theirs")
    fleet.kill_master()
    (fleet.folder / "witness/go").touch()
    room = fleet.machines["new"].root.path / "root/.cache/catena"
    fleet.wait_for(
        "the resume file", lambda: list(room.rglob("_mgractionchains.conf")), CHAIN_SECONDS
    )
    with another_database(fleet):
        add(fleet, "ours", "new", ("--cmd", note("ours")))
        shown = wait_end(fleet, "ours")
        assert shown["state"] == "failed"
        text = statuses(shown, "new")[0][1]
        assert "which is unknown to this master" in text
        fleet.catena(*text.rpartition("catena ")[2].split())
        fleet.catena("chain", "retry", "ours")
        wait_done(fleet, "ours")
    assert noted(fleet, "new") == ["theirs", "ours"]
    fleet.catena("chain", "cancel", "theirs")


@contextlib.contextmanager
def another_database(fleet: SshSite) -> Iterator[None]:
    """Have a master that knows nothing of what was."""
    fleet.kill_master()
    fleet.configure(**SETTINGS, database=f"sqlite:///{fleet.folder / 'other.db'}")
    fleet.start_master("--new-store")
    try:
        yield
    finally:
        fleet.kill_master()
        fleet.configure(**SETTINGS)
        fleet.start_master("--new-store")
