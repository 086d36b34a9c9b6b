"""Modes of all files and sockets of the daemons, under any umask."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import Fleet, wait_for

from tests.acceptance.conftest import make_fleet, running

USER = "nobody"
GROUP = grp.getgrgid(pwd.getpwnam(USER).pw_gid).gr_name
TREE = {
    "_modules/mine_too.py": "def hi():\n    return 'hi'\n",
    "files.sls": (
        "{{ opts['root_dir'] }}/made.txt:\n  file.managed:\n  - source: salt://data/a.txt\n"
        "{{ opts['root_dir'] }}/made:\n  file.directory: []\n"
    ),
    "data/a.txt": "x" * 5000,
}
#: Runs a command twice: as root, since USER may not be able to read this interpreter's modules,
#: and then, with all of them loaded, as USER.
AS_USER = """
import contextlib, io, os, sys
from catena.cli.commands import run
from catena.client import refusal
uid, gid, words = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
with contextlib.redirect_stdout(io.StringIO()):
    assert run(words) == 0
os.setgroups([])
os.setgid(gid)
os.setuid(uid)
sys.exit(run(words))
"""
CHAIN = """\
label: night
actions:
- cmd: touch @HOME@/from_chain
  target: web1
- reboot: true
  target: web1
- cmd: touch @HOME@/after_boot
  target: web1
"""


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    before = os.umask(0)
    made = make_fleet({"web1": {}}, cli_users=[USER], cli_group=GROUP)
    made.folder.chmod(0o755)
    for name, text in TREE.items():
        path = made.folder / "states" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    try:
        yield from running(made)
    finally:
        os.umask(before)


def ask_as(fleet: Fleet, *words: str, member: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command as USER in a folder that USER may not read."""
    home = fleet.folder / "unreadable"
    home.mkdir(mode=0o700, exist_ok=True)
    group = grp.getgrnam(GROUP).gr_gid if member else 60_000
    place = ("-c", str(fleet.config))
    return subprocess.run(
        [
            sys.executable,
            "-c",
            AS_USER,
            str(pwd.getpwnam(USER).pw_uid),
            str(group),
            *place,
            *words,
        ],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def open_to_others(folder: Path) -> dict[str, str]:
    """Return what below *folder* has bits for group or others, with its mode."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_IMODE(mode) & 0o077 and not stat.S_ISLNK(mode):
            found[str(path.relative_to(folder))] = f"{stat.S_IMODE(mode):o}"
    return found


def exercise(fleet: Fleet) -> None:
    """Let master and minion write each kind of file that they keep."""
    home = fleet.home("web1")
    for words in (
        ("saltutil.sync_all",),
        ("mine_too.hi",),
        ("state.apply", "files"),
        ("cmd.run", f"touch {home}/by_command"),
        ("grains.setval", "colour", "red"),
        ("event.send", "some/tag"),
        ("cp.cache_file", "salt://data/a.txt"),
        ("mine.send", "test.ping"),
    ):
        fleet.catena("run", "web1", *words)
    file = fleet.folder / "chain.yaml"
    file.write_text(CHAIN.replace("@HOME@", str(home)))
    fleet.catena("chain", "apply", str(file), "--watch")
    fleet.catena("store", "backup")
    fleet.stop_master()
    fleet.start_master()
    ping = ("run", "web1", "test.ping")
    wait_for("an answer", lambda: fleet.catena(*ping, check=False).returncode == 0)


#: Public keys, the reason why there is a group, folders that only hold private ones, and the
#: configuration, which the test itself has written.
MEANT_MASTER = {
    "etc": "777", "etc/catena": "777", "etc/catena/master": "666",
    "etc/catena/pki/master/curve.pub": "644",
    "run": "755", "run/catena": "755", "run/catena/master": "750",
    "run/catena/master/master.sock": "660",
    "var": "755", "var/lib": "755", "var/lib/catena": "755",
    "var/cache": "755", "var/cache/catena": "755",
}  # fmt: skip


def test_files_of_daemons_are_private_and_those_of_jobs_are_not(fleet: Fleet) -> None:
    exercise(fleet)
    assert open_to_others(fleet.folder / "master") == MEANT_MASTER
    home = fleet.home("web1")
    found = open_to_others(home)
    made = {name: found.pop(name) for name in list(found) if "/" not in name}
    assert {made[name] for name in ("made.txt", "by_command", "from_chain", "after_boot")} == {
        "644"
    }
    assert made["made"] == "755"
    assert {name: mode for name, mode in found.items() if name not in MEANT_MINION} == {}


MEANT_MINION = {
    "etc/catena", "etc/catena/minion", "etc/catena/minion.d", "etc/catena/grains",
    "etc/catena/pki/minion/curve.pub", "run/catena", "var/cache",
    "var/cache/catena", "var/lib", "var/lib/catena",
}  # fmt: skip


def test_member_of_cli_users_runs_commands_in_an_unreadable_folder(fleet: Fleet) -> None:
    done = ask_as(fleet, "run", "web1", "test.ping")
    assert (done.returncode, done.stderr) == (0, "")
    assert "True" in done.stdout
    assert ask_as(fleet, "minion", "list").returncode == 0


def test_refusal_names_the_missing_group(fleet: Fleet) -> None:
    done = ask_as(fleet, "minion", "list", member=False)
    assert done.returncode != 0
    assert f"usermod -aG {GROUP} {USER}" in done.stderr
    assert "cli_users" in done.stderr


def test_doctor_confirms_the_setup_of_cli_users(fleet: Fleet) -> None:
    shown = fleet.catena("doctor", "master").stdout
    assert f"{USER}: members of the group {GROUP}" in shown


def test_master_without_the_cli_users_group_warns_and_starts(fleet: Fleet) -> None:
    fleet.stop_master()
    text = (fleet.config / "master").read_text()
    (fleet.config / "master").write_text(text.replace(GROUP, "nogroupofthatname"))
    fleet.start_master()
    try:
        shown = fleet.catena("doctor", "master", check=False).stdout
        assert "this host has no group 'nogroupofthatname'" in shown
        assert "groupadd --system nogroupofthatname" in shown
        log = (fleet.folder / "master.log").read_text()
        assert "cli_users can't connect: this host has no group" in log
        refused = ask_as(fleet, "minion", "list")
        assert "open to root and the master's user only" in refused.stderr
    finally:
        fleet.stop_master()
        (fleet.config / "master").write_text(text)
        fleet.start_master()
        wait_for("the master", lambda: fleet.catena("minion", "list", check=False))
