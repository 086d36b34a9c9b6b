"""Chains on a booted system that changes by snapshots, which a stand-in program makes."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reboot.machines import Installation, Site, site

pytestmark = [pytest.mark.reboot, pytest.mark.roots("bookworm"), pytest.mark.timeout(600)]

NAME = "micro"
#: What `transactional-update run` does, with overlays in the place of snapshots: /witness is a
#: folder of the test's machine.
STAND_IN = """\
#!/bin/sh
while [ "$1" != run ]; do shift; done
shift
new=/witness/new next=/witness/next
mkdir -p $new/upper $new/work $new/root || exit 2
[ ! -d $next ] || cp -a $next/upper/. $new/upper/ || exit 2
if unshare --mount --propagation private sh -c '
    new=$0
    parts=lowerdir=/,upperdir=$new/upper,workdir=$new/work
    mount -t overlay overlay -o $parts $new/root || exit 2
    for place in dev proc sys opt var/cache witness; do
        mount --rbind /$place $new/root/$place || exit 2
    done
    exec chroot $new/root "$@"' $new "$@"
then
    rm -rf $next
    mv $new $next
else
    rm -rf $new
    exit 1
fi
"""
#: The boot: uses the snapshot. Of the running system it protects /srv; all of / is in use.
BOOT = """\
#!/bin/sh
set -e
if [ -d /witness/next ]; then cp -a /witness/next/upper/. /; rm -rf /witness/next; fi
mount --bind /srv /srv
mount -o remount,bind,ro /srv
"""
UNIT = """\
[Unit]
Before=catena-minion.service
[Service]
Type=oneshot
ExecStart=/usr/sbin/use-snapshot
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture
def fleet() -> Iterator[Site]:
    installed = Path(tempfile.mkdtemp(prefix="catena-installed-"))
    with site(Path(tempfile.mkdtemp(prefix="cat-")), Installation(installed)) as made:
        made.add(NAME, "bookworm")
        machine = made.machines[NAME]
        machine.root.write("/usr/sbin/transactional-update", STAND_IN, 0o755)
        machine.root.write("/usr/sbin/use-snapshot", BOOT, 0o755)
        machine.root.write("/etc/systemd/system/use-snapshot.service", UNIT)
        wants = machine.root.path / "etc/systemd/system/catena-minion.service.requires"
        wants.mkdir()
        (wants / "use-snapshot.service").symlink_to("/etc/systemd/system/use-snapshot.service")
        made.start_master()
        machine.power_on()
        made.wait_up()
        yield made
    shutil.rmtree(installed, ignore_errors=True)


def leave(word: str) -> str:
    """A command that makes a file in the root, and tells the test what it finds there."""
    told = "echo $(cat /proc/sys/kernel/random/boot_id) $(ls /srv | xargs) >> /witness/seen"
    return f"touch /srv/{word}; {told}"


def run(fleet: Site, label: str, *actions: tuple[str, ...]) -> str:
    """Run a chain; return the state in which it ends."""
    fleet.catena("chain", "create", label)
    for action in actions:
        fleet.catena("chain", "add", label, "-t", NAME, *action)
    fleet.catena("chain", "schedule", label)

    def ended() -> str:
        shown = fleet.catena("chain", "show", label, "--out", "json", check=False)
        state: str = json.loads(shown.stdout)["state"] if shown.returncode == 0 else ""
        return state if state in ("done", "failed", "cancelled") else ""

    state: str = fleet.wait_for("the chain's end", ended, 300)
    return state


def seen(fleet: Site) -> list[list[str]]:
    lines = (fleet.folder / "witness/seen").read_text().splitlines()
    boots = list(dict.fromkeys(line.split()[0] for line in lines))
    return [[str(boots.index(line.split()[0])), *line.split()[1:]] for line in lines]


def test_actions_are_in_snapshots_that_the_next_boots_use(fleet: Site) -> None:
    root = fleet.machines[NAME].root.path
    refused = fleet.catena("run", NAME, "cmd.run", "touch /srv/x", check=False)
    assert "Read-only file system" in refused.stdout
    boots = fleet.machines[NAME].boots
    reboot = ("--reboot",)
    one, two, three = (("--cmd", leave(word)) for word in ("one", "two", "three"))
    assert run(fleet, "night", one, two, reboot, three, reboot) == "done"
    assert seen(fleet) == [["0", "one"], ["0", "one", "two"], ["1", "one", "three", "two"]]
    assert fleet.machines[NAME].boots - boots == 2
    assert sorted(path.name for path in (root / "srv").iterdir()) == ["one", "three", "two"]
    assert not (fleet.folder / "witness/next").exists()


def test_failed_action_leaves_neither_snapshot_nor_reboot(fleet: Site) -> None:
    boots = fleet.machines[NAME].boots
    bad = ("--cmd", "touch /srv/bad; false")
    assert run(fleet, "bad", ("--cmd", leave("good")), bad, ("--reboot",)) == "failed"
    upper = fleet.folder / "witness/next/upper"
    assert [path.name for path in (upper / "srv").iterdir()] == ["good"]
    assert not (fleet.folder / "witness/new").exists()
    assert fleet.machines[NAME].boots == boots
