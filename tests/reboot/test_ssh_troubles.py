"""Failures of a host while `catena ssh` runs: lost links, power, reboots, changed keys."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reboot.machines import BOOT_SECONDS, Installation
from tests.reboot.ssh_machines import SshSite, ssh_site

pytestmark = [
    pytest.mark.reboot,
    pytest.mark.roots("bullseye-ssh", "bookworm-ssh", "trixie-ssh"),
    pytest.mark.timeout(600),
]

HOSTS = {"old": "bullseye", "mid": "bookworm", "new": "trixie"}
EVERY = (",".join(HOSTS), "-L")
NOTE = "echo $(hostname) {} $(cat /proc/sys/kernel/random/boot_id) >> /witness/seen"
STATES = {
    "slow": [
        NOTE.format("one"),
        f"{NOTE.format('two')}; while ! [ -e /witness/go ]; do sleep 0.05; done",
        NOTE.format("three"),
    ],
    "full": ["head -c 40m /dev/zero > /root/.cache/big || :", NOTE.format("after")],
}
SECONDS = 60.0


@pytest.fixture(scope="module")
def hosts() -> Iterator[SshSite]:
    installed = Path(tempfile.mkdtemp(prefix="catena-installed-"))

    def fill(site: SshSite) -> None:
        for name, suite in HOSTS.items():
            site.add_bare(name, suite)
        for name, commands in STATES.items():
            low = {f"{number}": {"cmd.run": [{"name": text}]} for number, text in
                   enumerate(commands)}  # fmt: skip
            (site.tree / f"states/{name}.sls").write_text(f"#!json\n{json.dumps(low)}")

    try:
        folder = Path(tempfile.mkdtemp(prefix="cat-"))
        with ssh_site(folder, Installation(installed), fill) as made:
            yield made
    finally:
        shutil.rmtree(installed, ignore_errors=True)


@pytest.fixture(autouse=True)
def afresh(hosts: SshSite) -> None:
    hosts.forget_seen()
    (hosts.folder / "witness/go").unlink(missing_ok=True)


def wait_seen(hosts: SshSite, word: str) -> None:
    def all_there() -> bool:
        return {line[0] for line in hosts.seen() if line[1] == word} == set(HOSTS)

    hosts.wait_for(word, all_there, SECONDS)


def results(rows: dict[str, Any]) -> list[Any]:
    return [row["result"] for row in sorted(rows.values(), key=lambda row: row["__run_num__"])]


def boot_ids(hosts: SshSite) -> dict[str, str]:
    found = hosts.answers(*EVERY, "cmd.run", "cat /proc/sys/kernel/random/boot_id")
    return {name: str(value) for name, value in found.items()}


def test_run_survives_a_lost_link_and_reports_what_is_known_of_a_stopped_host(
    hosts: SshSite,
) -> None:
    with hosts.catena_beside("ssh", *EVERY, "state.apply", "slow", "--out", "json") as running:
        wait_seen(hosts, "two")
        hosts.cut("old")
        hosts.machines["mid"].power_off()
        hosts.inside("new", "systemctl", "reboot", "--force")
        boots = hosts.machines["new"].boots
        hosts.wait_for("the reboot", lambda: hosts.machines["new"].boots > boots, BOOT_SECONDS)
        (hosts.folder / "witness/go").touch()
        hosts.wait_for("the end", lambda: ("old", "three") in noted_words(hosts), SECONDS)
        hosts.mend("old")
        hosts.machines["mid"].power_on()
        said, complaints = running.communicate(timeout=240)
    rows = json.loads(said)
    assert running.returncode == 1, complaints
    assert results(rows["old"]) == [True, True, True]
    for name in ("mid", "new"):
        assert results(rows[name]) == [True, False]
        assert "Interrupted" in json.dumps(rows[name])
    assert Counter(noted_words(hosts)) == Counter(
        [(name, word) for name in HOSTS for word in ("one", "two")] + [("old", "three")]
    )
    for name in HOSTS:
        hosts.wait_sshd(name)
        room = hosts.machines[name].root.path / "root/.cache/catena"
        assert [*room.glob("runs/*"), *room.glob("incoming/*")] == []


def noted_words(hosts: SshSite) -> list[tuple[str, ...]]:
    return [line[:2] for line in hosts.seen()]


def test_requested_reboot_happens_after_the_answer(hosts: SshSite) -> None:
    before = boot_ids(hosts)
    boots = {name: machine.boots for name, machine in hosts.machines.items()}
    answers = hosts.answers(*EVERY, "system.reboot")
    assert set(answers) == set(HOSTS)
    hosts.wait_for(
        "the boots",
        lambda: all(machine.boots > boots[name] for name, machine in hosts.machines.items()),
        BOOT_SECONDS,
    )
    for name in HOSTS:
        hosts.wait_sshd(name)
    after = boot_ids(hosts)
    assert {name for name in HOSTS if after[name] != before[name]} == set(HOSTS)


def test_host_that_shuts_down_is_reported_and_works_again_when_it_is_back(hosts: SshSite) -> None:
    for name in HOSTS:
        hosts.inside(name, "sh", "-c", "echo 'System is going down.' > /run/nologin")
        done = hosts.catena("ssh", f"{name}-free", "test.ping", check=False)
        assert done.returncode == 3
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert "not yet: System is going down" in done.stderr
        hosts.inside(name, "rm", "/run/nologin")
        assert hosts.answers(f"{name}-free", "test.ping") == {f"{name}-free": True}


def test_closed_port_and_dead_address_are_reported_as_unreachable(hosts: SshSite) -> None:
    for name in HOSTS:
        unit = "ssh.service"
        hosts.inside(name, "systemctl", "stop", unit, "ssh.socket")
        done = hosts.catena("ssh", name, "test.ping", check=False)
        assert (done.returncode, done.stdout) == (3, "")
        assert "refused" in done.stderr
        hosts.inside(name, "systemctl", "start", unit)
        hosts.wait_sshd(name)


def test_changed_host_key_is_refused_with_the_command_that_accepts_it(
    hosts: SshSite,
) -> None:
    hosts.machines["old"].power_off()
    hosts.new_host_key("old")
    hosts.machines["old"].power_on()
    hosts.wait_sshd("old")
    done = hosts.catena("ssh", "old", "test.ping", check=False)
    assert (done.returncode, done.stdout) == (3, "")
    words = done.stderr.partition("catena -c ")[2].partition(";")[0].split()
    assert words[1:3] == ["ssh-key", "trust"]
    hosts.catena(*words[1:], "--yes")
    assert hosts.answers("old", "test.ping") == {"old": True}


def test_answer_arrives_when_a_state_fills_the_disk(hosts: SshSite) -> None:
    for name in HOSTS:
        hosts.inside(name, "mkdir", "-p", "/root/.cache")
        hosts.inside(
            name, "mount", "-t", "tmpfs", "-o", "size=40m,mode=0700", "tmpfs", "/root/.cache"
        )
    rows = hosts.answers(*EVERY, "state.apply", "full")
    assert {name: results(rows[name]) for name in HOSTS} == {name: [True, True] for name in HOSTS}
    # Where the home has no room there is another; a folder that the roster names is the only one.
    assert hosts.answers(*EVERY, "test.ping") == dict.fromkeys(HOSTS, True)
    named = hosts.folder / "named"
    thin = {"thin_dir": "/root/.cache/catena"}
    named.write_text(json.dumps({name: {**hosts.roster[name], **thin} for name in HOSTS}))
    named.chmod(0o600)
    done = hosts.catena("ssh", "*", "test.ping", "--roster", str(named), check=False)
    assert (done.returncode, done.stdout) == (3, "")
    lines = done.stderr.splitlines()
    assert len(lines) == len(HOSTS), lines
    assert all("full" in line and "thin_dir" in line for line in lines), lines
    for name in HOSTS:
        hosts.inside(name, "umount", "--lazy", "/root/.cache")
