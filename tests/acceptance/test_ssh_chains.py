"""Chains on hosts over SSH, by the installed command and a real sshd."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import wait_for

from catena.runtime.resume_file import ResumeFile, ResumePoint
from tests.support.ssh_lab import Lab, lab
from tests.support.ssh_server import make_key

HOSTS = ("one", "two", "cut", "held", "odd", "new", "slow")
#: Where a master, or its process for a visit, is killed on the way of one chain.
PLACES = (
    "visit.claimed=kill@2;visit.looked=kill@3;visit.job=kill@2;visit.returned=kill;"
    "visit.stored=kill;visit.kept=kill@2"
)
SEEN = """\
{{% set first = '{folder}/seen' %}}
{folder}/copy:
  file.managed:
  - contents: saw {{{{ salt['file.read'](first).strip() }}}}
"""


@pytest.fixture(scope="module")
def fleet() -> Iterator[Lab]:
    with lab(HOSTS, ["web1"]) as found:
        yield found


def test_chain_over_ssh_continues_after_reboots_beside_a_minion(fleet: Lab) -> None:
    (fleet.folder / "states/seen.sls").write_text(SEEN.format(folder=fleet.folder))
    both = "one,web1"
    # Whoever had to reboot it is gone: it is asked again.
    (fleet.host("one") / "lazy").touch()
    marked = fleet.mark("mixed", "$CATENA_DEMO_HOST.first")
    fleet.catena("chain", "create", "mixed")
    for words in (
        ("-L", "-t", both, "--cmd", marked),
        ("-t", "one", "--cmd", fleet.mark("seen", "here")),
        ("-t", "one", "--apply", "seen"),
        ("-L", "-t", both, "--reboot"),
        ("-L", "-t", both, "--cmd", fleet.mark("mixed", "$CATENA_DEMO_HOST.second")),
        ("-t", "one", "--reboot"),
        ("-t", "one", "--cmd", fleet.mark("mixed", "third")),
    ):
        fleet.catena("chain", "add", "mixed", *words)
    done = fleet.catena("chain", "schedule", "mixed", "--watch", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert fleet.statuses("mixed") == {"one": ["Completed"] * 7, "web1": ["Completed"] * 3}
    home = str(fleet.home("web1"))
    assert fleet.marks("mixed") == Counter(
        [".first", ".second", "third", f"{home}.first", f"{home}.second"]
    )
    # The nested state was rendered when its turn came.
    assert (fleet.folder / "copy").read_text() == "saw here\n"
    assert (fleet.host("one") / "boot_id").read_text() == "one-boot++\n"
    assert not (fleet.host("one") / "lazy").exists()
    wait_for("nothing of it there", lambda: not fleet.runs("one"))
    assert "Traceback" not in (fleet.folder / "master.log").read_text()


def test_killed_masters_and_visits_lose_and_repeat_no_action(fleet: Lab) -> None:
    fleet.stop_master()
    fleet.points = PLACES
    fleet.start_master()
    fleet.chain(
        "killed",
        ("two", "--cmd", fleet.mark("killed", "first")),
        ("two", "--reboot"),
        ("two", "--cmd", fleet.mark("killed", "second")),
        ("two", "--reboot"),
    )
    wait_for("the end", lambda: fleet.alive() and fleet.ended("killed"), 200.0)
    hits = Counter(line.split()[0] for line in (fleet.folder / "hits").read_text().splitlines())
    assert {place.partition("=")[0] for place in PLACES.split(";")} <= set(hits)
    fleet.stop_master()
    fleet.points = ""
    fleet.start_master()
    assert fleet.statuses("killed") == {"two": ["Completed"] * 4}
    assert fleet.marks("killed") == Counter(["first", "second"])
    assert (fleet.host("two") / "boot_id").read_text() == "two-boot++\n"


def test_lost_connection_does_not_stop_the_action_and_the_chain_waits(fleet: Lab) -> None:
    go = fleet.folder / "go"
    slow = f"touch {fleet.folder}/began; while ! test -e {go}; do sleep 0.1; done"
    fleet.chain(
        "lost",
        ("cut", "--cmd", f"{slow}; {fleet.mark('lost', 'first')}"),
        ("cut", "--cmd", fleet.mark("lost", "second")),
    )
    fleet.await_mark("began")
    fleet.server.stop()
    said = fleet.await_note("lost", "cut", "over SSH: not reached since")
    assert "its running job continues and keeps the result" in said
    go.touch()
    fleet.await_mark("lost")
    fleet.server.start()
    fleet.await_end("lost")
    assert fleet.marks("lost") == Counter(["first", "second"])


def test_killed_run_is_reported_and_continues_when_resolved(fleet: Lab) -> None:
    began, again = fleet.folder / "once", fleet.folder / "again"
    slow = f"echo x >> {began}; until test -e {again}; do sleep 0.05; done"
    fleet.chain(
        "broken",
        ("cut", "--cmd", fleet.mark("broken", "first")),
        ("cut", "--cmd", slow),
        ("cut", "--cmd", fleet.mark("broken", "third")),
    )
    fleet.await_mark("once")
    fleet.kill_run("cut", "runner", "worker")
    # The command outlives both, and must not outlive the test.
    again.touch()
    fleet.await_end("broken", "failed")
    actions = fleet.shown("broken")["minions"][0]["actions"]
    assert [action["status"] for action in actions] == ["Completed", "Failed", "Failed"]
    assert actions[1]["reason"] == "interrupted"
    # Nobody knows whether it happened, so it did not happen again by itself.
    assert began.read_text() == "x\n"
    fleet.catena("chain", "resolve", "broken", "--retry")
    fleet.await_end("broken")
    assert fleet.marks("broken") == Counter(["first", "third"])


def test_unknown_chain_fails_the_new_one_and_the_error_names_the_clearing_command(
    fleet: Lab,
) -> None:
    own = fleet.host("odd") / "room/hosts/odd"
    fleet.chain("before", ("odd", "--cmd", "true"))
    fleet.await_end("before")
    point = ResumePoint(
        "actionchains.actionchain_7_x_2", 7, 2, None, "", "b", "", "reboot", "0" * 64
    )
    ResumeFile(own / "conf", own / "pki").write(point)
    fleet.chain("odd", ("odd", "--cmd", fleet.mark("odd", "ran")))
    fleet.await_end("odd", "failed")
    text = fleet.shown("odd")["minions"][0]["actions"][0]["comment"]
    assert "chain 7, which is unknown to this master, waits on odd" in text
    fleet.catena("run", "odd", "mgractionchains.clean")
    assert text.endswith("catena run odd mgractionchains.clean")
    fleet.catena("chain", "retry", "odd")
    fleet.await_end("odd")
    assert fleet.marks("odd") == Counter(["ran"])


def test_chain_waits_for_a_slow_boot_and_a_changed_host_key(
    fleet: Lab,
) -> None:
    home = fleet.host("held")
    (home / "stays").touch()
    fleet.chain(
        "held",
        ("held", "--cmd", fleet.mark("held", "first")),
        ("held", "--reboot"),
        ("held", "--cmd", fleet.mark("held", "second")),
    )
    said = fleet.await_note("held", "held", "the host is going down")
    assert "over SSH: not reached since" in said
    right = fleet.server.known_hosts.read_text()
    other = make_key(fleet.folder / "other_key")
    fleet.server.known_hosts.write_text(right.replace(fleet.server.host_key, other))
    (home / "down").unlink()
    said = fleet.await_note("held", "held", "waits for a person")
    assert "ssh-key trust" in said
    fleet.server.known_hosts.write_text(right)
    fleet.await_end("held")
    assert fleet.marks("held") == Counter(["first", "second"])


def test_cancelled_chain_stops_its_action_and_the_next_chain_begins(fleet: Lab) -> None:
    pid = fleet.folder / "pid"
    fleet.chain("stopped", ("slow", "--cmd", f"echo $$ > {pid}; exec sleep 600"))
    wait_for("the command", lambda: pid.exists() and pid.read_text().strip())
    # It waits behind the first one, and says so.
    fleet.chain("later", ("slow", "--cmd", fleet.mark("later", "ran")))
    fleet.await_note("later", "slow", "waits behind chain 'stopped'")
    fleet.catena("chain", "cancel", "stopped")
    fleet.await_end("later")
    assert fleet.marks("later") == Counter(["ran"])
    gone = Path("/proc", pid.read_text().strip())
    wait_for("the end of the command", lambda: not gone.exists())
    wait_for("nothing of it there", lambda: not fleet.runs("slow"))


def test_other_hosts_do_not_wait_for_an_unseen_host(fleet: Lab) -> None:
    (fleet.host("new") / "down").touch()
    fleet.chain("join", ("new,two", "-L", "--cmd", fleet.mark("join", "ran")))
    wait_for("the other", lambda: fleet.statuses("join")["two"] == ["Completed"])
    assert "not reached since" in fleet.await_note("join", "new", "the host is going down")
    (fleet.host("new") / "down").unlink()
    fleet.await_end("join")
    assert fleet.marks("join") == Counter({"ran": 2})
