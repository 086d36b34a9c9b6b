"""No built-in state changes anything in test mode.

Each state function is called with arguments by which it would change something: once in test
mode, and once as a function that never looks at test mode. Both times nothing in the sandbox
changes, and no function that changes something and no command gets past the guard.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.dry_run import TestModeError, refusing_changes
from catena.core.frozen import replace
from catena.core.plugins import BUILT_IN, Plugin, Registry
from catena.core.types import StateResult
from catena.modules import acl, cron, debconf
from catena.modules.npm import program as npm
from catena.modules.npm.program import NodePackage
from catena.modules.pip import program as pip
from catena.modules.pkg.repos import apt
from catena.modules.shared.command import process
from catena.runtime.session import JobSession, state_registry
from catena.states import blockdev
from catena.states import pkg as pkg_states
from tests.unit.runtime.dry_run_examples import (
    LANGUAGE_ANSWERS,
    LANGUAGE_EXAMPLES,
    Example,
    does,
    looks,
)
from tests.unit.runtime.state_calls import ANSWERS, EXAMPLES, Example

REFUSED = "test mode refused to"


EXAMPLES = (
    does("acl.present", "{s}/file", acl_type="user", acl_name="daemon", perms="r"),
    does("acl.absent", "{s}/file", acl_type="user", acl_name="bin"),
    does("acl.list_present", "{s}/file", acl_type="user", acl_names=["daemon"], perms="r"),
    does("acl.list_absent", "{s}/file", acl_type="user", acl_names=["bin"]),
    does("alias.present", "new", target="root"),
    does("alias.absent", "old"),
    does("alternatives.install", "tool", link="/usr/bin/tool", path="{s}/new", priority=1),
    does("alternatives.remove", "tool", path="/opt/old"),
    does("alternatives.auto", "tool"),
    does("alternatives.set", "tool", path="/opt/other"),
    does("apache_conf.enabled", "new"),
    does("apache_conf.disabled", "old"),
    does("apache_module.enabled", "new"),
    does("apache_module.disabled", "old"),
    does("apache_site.enabled", "new"),
    does("apache_site.disabled", "old"),
    does("archive.extracted", "{s}/out", source="{s}/a.tar", enforce_toplevel=False),
    does("archive.extracted", "{s}/deep/out", source="{s}/a.tar", enforce_toplevel=False),
    does("blockdev.formatted", "{s}/file", fs_type="ext4"),
    does("blockdev.tuned", "/dev/loop0", **{"read-ahead": 1}),
    does("cmd.call", "c", func=lambda: Path(os.environ["SANDBOX"], "called").touch()),
    does("cmd.run", "touch {s}/ran"),
    does("cmd.run", "touch {s}/ran", cwd="{s}", stateful=False),
    does("cmd.script", "{s}/script.sh"),
    does("cmd.mod_watch", "touch {s}/ran", sfun="run"),
    looks("cmd.wait", "touch {s}/ran"),
    looks("cmd.wait_call", "c"),
    looks("cmd.wait_script", "{s}/script.sh"),
    looks("cmd.watch", "touch {s}/ran"),
    does("cron.present", "true"),
    does("cron.absent", "old"),
    does("cron.env_present", "NEW", value="1"),
    does("cron.env_absent", "OLD"),
    does("debconf.set", "mail", data={"mail/name": {"type": "string", "value": "x"}}),
    does("debconf.set_file", "mail", source="{s}/file"),
    does("environ.setenv", "CATENA_NEW_VARIABLE", value="1"),
    does("environ.setenv", "SANDBOX", value=False, false_unsets=True),
    does("event.send", "some/tag"),
    does("event.fire_master", "some/tag", data={"a": 1}),
    does("event.mod_watch", "some/tag"),
    looks("event.wait", "some/tag"),
    does("file.absent", "{s}/file"),
    does("file.absent", "{s}/folder"),
    looks("file.accumulated", "acc", filename="{s}/file", text="t"),
    does("file.append", "{s}/file", text="more"),
    does("file.append", "{s}/deep/new", text="more", makedirs=True),
    does("file.prepend", "{s}/file", text="more"),
    does("file.blockreplace", "{s}/file", marker_start="#a", marker_end="#b", content="c",
         append_if_not_found=True),
    does("file.blockreplace", "{s}/file", marker_start="#a", marker_end="#b", content="c",
         append_if_not_found=True, backup="minion"),
    looks("file.cached", "{s}/file"),
    does("file.comment", "{s}/file", regex="^b"),
    does("file.uncomment", "{s}/file", regex="c = 3"),
    does("file.copy", source="{s}/file"),
    does("file.copy", "{s}/copied", source="{s}/folder"),
    does("file.copy", "{s}/deep/new", source="{s}/file", makedirs=True, preserve=True),
    does("file.decode", encoded_data="YQ=="),
    does("file.directory", "{s}/deep/new", makedirs=True),
    does("file.directory", "{s}/folder", clean=True),
    does("file.directory", "{s}/folder", dir_mode="0711", file_mode="0600", recurse=["mode"]),
    looks("file.exists"),
    does("file.hardlink", target="{s}/file"),
    does("file.hardlink", "{s}/script.sh", target="{s}/file", force=True),
    does("file.keyvalue", "{s}/file", key="b", value="9", separator=" = "),
    does("file.line", "{s}/file", content="z = 26", mode="insert", location="end"),
    does("file.managed", contents="c"),
    does("file.managed", "{s}/file", contents="c", mode="0600", backup="minion"),
    does("file.managed", "{s}/deep/new", source="{s}/file", makedirs=True),
    does("file.managed", source="{s}/file", template="jinja"),
    does("file.managed", "{s}/file", replace=False, mode="0600"),
    does("file.managed", "{s}/file", contents="c", check_cmd="touch {s}/checked; true"),
    looks("file.missing", "{s}/none"),
    does("file.mknod", ntype="p"),
    does("file.mknod", "{s}/deep/new", ntype="c", major=1, minor=3),
    does("file.patch", "{s}/file", source="{s}/a.patch"),
    does("file.pruned", "{s}/empty"),
    does("file.recurse", "{s}/copied", source="salt://tree"),
    does("file.recurse", "{s}/folder", source="salt://tree", clean=True),
    does("file.rename", source="{s}/file"),
    does("file.replace", "{s}/file", pattern="b", repl="x"),
    does("file.retention_schedule", "{s}/folder", retain={"most_recent": 1}),
    does("file.serialize", dataset={"a": 1}, serializer="json"),
    does("file.serialize", "{s}/data.json", dataset={"a": 1}, merge_if_exists=True,
         serializer="json"),
    does("file.symlink", target="{s}/file"),
    does("file.symlink", "{s}/script.sh", target="{s}/file", force=True),
    does("file.symlink", "{s}/link", target="{s}/script.sh"),
    does("file.tidied", "{s}/folder", matches=[".*"], age=0),
    does("file.touch"),
    does("file.touch", "{s}/file", mtime=1),
    does("firewalld.present", "public", ports=["80/tcp"]),
    does("firewalld.service", "own", ports=["80/tcp"]),
    does("git.cloned", "{s}/origin", target="{s}/cloned"),
    does("git.latest", "{s}/origin", target="{s}/cloned"),
    does("git.latest", "{s}/origin", target="{s}/behind"),
    does("git.latest", "{s}/origin", target="{s}/folder", force_clone=True),
    does("git.detached", "{s}/origin", target="{s}/cloned", rev="main"),
    does("git.config", "user.name", value="x", repo="{s}/behind"),
    does("git.config_set", "user.name", value="x", repo="{s}/behind"),
    does("git.config_unset", "core.bare", repo="{s}/behind"),
    does("git.present", "{s}/bare"),
    does("grains.present", "new", value=1),
    does("grains.absent", "os"),
    does("grains.append", "many", value="z"),
    looks("grains.exists", "os"),
    does("grains.list_present", "many", value="z"),
    does("grains.list_absent", "many", value="x"),
    does("group.present", "catena-none"),
    does("group.absent", "nogroup"),
    does("host.present", "new.example.org", ip="192.0.2.9"),
    does("host.present", "old.example.org", ip="192.0.2.1", comment="c"),
    does("host.absent", "old.example.org", ip="192.0.2.1"),
    does("host.only", "192.0.2.1", hostnames=["x.example.org"]),
    does("ini.options_present", "{s}/a.ini", sections={"s": {"k": "2"}}),
    does("ini.options_absent", "{s}/a.ini", sections={"s": ["k"]}),
    does("ini.sections_present", "{s}/a.ini", sections={"t": {"k": "2"}}),
    does("ini.sections_absent", "{s}/a.ini", sections=["s"]),
    does("lvm.pv_present", "/dev/new"),
    does("lvm.pv_absent", "/dev/old"),
    does("lvm.vg_present", "new", devices=["/dev/old"]),
    does("lvm.vg_absent", "old"),
    does("lvm.lv_present", "new", vgname="old", size="1G"),
    does("lvm.lv_present", "data", vgname="old", size="1G"),
    does("lvm.lv_absent", "data", vgname="old"),
    does("mgrcompat.module_run", "file.touch", m_name="{s}/touched"),
    does("mgrcompat.module_run", "state.single", fun="file.touch", m_name="{s}/touched"),
    does("mount.mounted", "{s}/folder", device="tmpfs", fstype="tmpfs", config="{s}/file"),
    does("mount.mounted", "{s}/new", device="tmpfs", fstype="tmpfs", mount=False, mkmnt=True,
         config="{s}/file"),
    does("mount.mounted", "{s}/folder", device="/dev/none", fstype="ext4", mount=False,
         config="{s}/file"),
    does("mount.unmounted", "/proc", config="{s}/file"),
    does("mount.unmounted", "{s}/mnt", persist=True, config="{s}/fstab"),
    does("mount.swap", "{s}/file", config="{s}/file"),
    does("mount.mod_watch", "{s}/folder", device="tmpfs", fstype="tmpfs", sfun="mounted"),
    does("mount.fstab_present", "/dev/none", fs_file="{s}/mnt2", fs_vfstype="ext4",
         config="{s}/fstab"),
    does("mount.fstab_absent", "/dev/old", fs_file="{s}/mnt", config="{s}/fstab"),
    does("module.run", "file.touch", m_name="{s}/touched"),
    does("module.run", "m", **{"file.touch": ["{s}/touched"]}),
    does("module.run", "cmd.run", cmd="touch {s}/touched"),
    does("module.mod_watch", "file.touch", m_name="{s}/touched", sfun="wait"),
    looks("module.wait", "file.touch"),
    does("nftables.append", table="filter", chain="input", jump="accept"),
    does("nftables.insert", table="filter", chain="input", jump="accept"),
    does("nftables.delete", table="filter", chain="old", jump="accept"),
    does("nftables.table_present", "new"),
    does("nftables.table_absent", "old"),
    does("nftables.chain_present", "new"),
    does("nftables.chain_absent", "old"),
    does("nftables.set_policy", chain="input", policy="drop"),
    does("nftables.flush", table="old", chain="old"),
    does("pkg.installed", "absent"),
    does("pkg.installed", "present", hold=True),
    does("pkg.latest", "present"),
    does("pkg.mod_watch", "absent", sfun="installed"),
    does("pkg.held", "present"),
    does("pkg.held", "locked", replace=True, pkgs=["present"]),
    does("pkg.downloaded", "absent"),
    does("pkg.patch_installed", "PATCH-1"),
    does("pkg.patch_downloaded", "all", advisory_ids=["PATCH-1"]),
    does("pkg.unheld", "locked"),
    does("pkg.removed", "present"),
    does("pkg.purged", "present"),
    does("pkg.uptodate", "all"),
    does("pkgrepo.managed", "deb http://new.example/x y main", file="{s}/new.list"),
    does("pkgrepo.absent", "deb http://old.example/x y main"),
    does("postgres_database.present", "new", owner="o"),
    does("postgres_database.present", "old", owner="o"),
    does("postgres_database.absent", "old"),
    does("postgres_group.present", "new"),
    does("postgres_group.absent", "old"),
    does("postgres_user.present", "new", password="p"),
    does("postgres_user.present", "old", password="p", createdb=True, valid_until="2030-01-01"),
    does("postgres_user.absent", "old"),
    does("service.running", "down", enable=True),
    does("service.running", "up", enable=False),
    does("rsync.synchronized", "{s}/out", source="{s}/folder", prepare=True),
    does("service.dead", "up", enable=False),
    does("service.enabled", "down"),
    does("service.disabled", "up"),
    does("service.masked", "down"),
    does("service.unmasked", "up"),
    does("service.mod_watch", "up", sfun="running"),
    looks("stateconf.context", "x"),
    looks("stateconf.set", "x"),
    looks("test.check_pillar", "x", present="k"),
    Example("test.configurable_test_state", "x", False, {"changes": False}),
    looks("test.fail_with_changes", "x"),
    looks("test.fail_without_changes", "x"),
    looks("test.mod_watch", "x"),
    looks("test.nop", "x"),
    looks("test.show_notification", "x", text="t"),
    looks("test.succeed_with_changes", "x"),
    looks("test.succeed_without_changes", "x"),
    does("iptables.append", chain="INPUT", jump="ACCEPT"),
    does("iptables.insert", chain="INPUT", jump="ACCEPT", position=1),
    does("iptables.delete", chain="FORWARD", jump="ACCEPT"),
    does("iptables.chain_present", "NEW"),
    does("iptables.chain_absent", "OLD"),
    does("iptables.set_policy", chain="INPUT", policy="DROP"),
    does("iptables.flush"),
    does("kmod.present", "new_one"),
    does("kmod.absent", "old_one"),
    does("locale.present", "xx_XX.UTF-8"),
    does("locale.system", "xx_XX.UTF-8"),
    does("ssh_auth.present", "AAAAB3Nz", user="root", config="{s}/keys"),
    does("ssh_auth.absent", "AAAAC3Nz", user="root", config="{s}/keys"),
    does("ssh_auth.manage", "m", user="root", config="{s}/keys", ssh_keys=["AAAAB3Nz"]),
    does("ssh_known_hosts.present", "web1", config="{s}/known", key="AAAAC3Nz", enc="ed25519"),
    does("ssh_known_hosts.absent", "old", config="{s}/known"),
    does("sysctl.present", "kernel.ostype", value="Plan 9", config="{s}/file"),
    does("timezone.system", "Pacific/Pitcairn"),
    does("user.present", "catena-none", password="p", hash_password=True),
    does("user.present", "nobody", shell="/bin/other"),
    does("user.absent", "nobody"),
    *LANGUAGE_EXAMPLES,
)  # fmt: skip

#: Called by the run itself, before any state; it gets low states and no name.
_NOT_STATES = {"iptables.mod_aggregate", "pkg.mod_aggregate"}
#: What it removes lies in the agent's own cache, which the guard leaves to the agent.
_OWN_CACHE = {"file.not_cached"}


def _label(example: Example) -> str:
    return f"{example.fun}-{EXAMPLES.index(example)}"


@dataclass
class FakeTool:
    """A package manager that answers questions, and runs a command to fetch its indexes."""

    context: Context

    name = "fake"

    def installed(self) -> dict[str, list[str]]:
        return {"present": ["1"], "locked": ["1"]}

    def candidates(self, names: list[str]) -> dict[str, str]:
        return dict.fromkeys(names, "2")

    def compare(self, left: str, right: str) -> int:
        return (left > right) - (left < right)

    def refresh(self) -> None:
        self.context.call("cmd.run_all", ["apt-get", "update"], python_shell=False)


def _up(context: Context, name: str) -> bool:
    return name == "up"


#: Attributes of a database that can't be changed.
_FIXED = ("Encoding", "Collate", "Ctype", "Tablespace")
#: A role as postgres.role_get shows it.
_ROLE = {"can create databases": False, "password": "", "expiry time": None, "groups": []}
#: What the functions say by which states look at services, packages and passwords.
_ANSWERS: dict[str, Callable[..., Any]] = {
    **LANGUAGE_ANSWERS,
    "acl.getfacl": lambda context, path, **more: acl.parse(
        f"# file: {path}\n# owner: root\nuser::rw-\nuser:bin:r--\n"
    ),
    "disk.fstype": lambda context, device: "xfs",
    "disk.dump": lambda context, device: {"getra": "256"},
    "alternatives.check_exists": lambda context, name, path: path.startswith("/opt/"),
    "alternatives.display": lambda context, name: f"{name} - manual mode",
    "alternatives.show_current": lambda context, name: "/opt/old",
    "apache.check_conf_enabled": lambda context, name: name == "old",
    "apache.check_mod_enabled": lambda context, name: name == "old",
    "apache.check_site_enabled": lambda context, name: name == "old",
    "firewalld.list_zones": lambda context: {"public": {}},
    "firewalld.get_services": lambda context: [],
    "iptables.build_rule": lambda context, **options: "-j ACCEPT",
    "iptables.check": lambda context, table, chain, rule, family: chain == "FORWARD",
    "iptables.check_chain": lambda context, table, chain, family: chain == "OLD",
    "iptables.get_policy": lambda context, table, chain, family: "ACCEPT",
    "iptables.get_rules": lambda context, family: {"filter": {"INPUT": {"rules": [{}]}}},
    "kmod.mod_list": lambda context, only_persist=False: ["old_one"],
    "kmod.available": lambda context: ["new_one"],
    "nftables.check": lambda context, table, chain, rule, family: {"result": chain == "old"},
    "nftables.check_chain": lambda context, table, chain, family: {"result": chain == "old"},
    "nftables.check_table": lambda context, table, family: {"result": table == "old"},
    "nftables.get_policy": lambda context, table, chain, family: "accept",
    "nftables.get_rules_json": lambda context, family: [
        {"rule": {"table": "old", "chain": "old"}}
    ],
    "lvm.pvdisplay": lambda context, name="", **more: {name: {}} if name == "/dev/old" else {},
    "lvm.vgdisplay": lambda context, name, **more: {name: {}} if name == "old" else {},
    "lvm.lvdisplay": lambda context, path, **more: (
        {path: {"Current Logical Extents Associated": "1", "Logical Volume Size": "8192"}}
        if path == "/dev/old/data"
        else {}
    ),
    "locale.avail": lambda context, locale: False,
    "postgres.db_exists": lambda context, name, **server: name == "old",
    "postgres.db_list": lambda context, **server: {"old": dict.fromkeys(("Owner", *_FIXED), "")},
    "postgres.moment": lambda context, text, **server: text,
    "postgres.role_get": lambda context, name, **server: _ROLE if name == "old" else None,
    "postgres.user_exists": lambda context, name, **server: name == "old",
    "service.available": lambda context, name: True,
    "service.status": _up,
    "service.enabled": lambda context, name: name == "up",
    "service.masked": lambda context, name, runtime: name == "up",
    "pkg.list_upgrades": lambda context, refresh=False: {"present": "2"},
    "pkg.list_holds": lambda context: ["locked"],
    "pkg.list_downloaded": lambda context: {},
    "pkg.list_installed_patches": lambda context: {},
    "shadow.info": lambda context, name: {"passwd": "!"},
    "git.version": lambda context: "2.39",
}


class Watched(Registry):
    """The built-in functions; one that changes something is not called, but written down."""

    def __init__(self, real: Registry, passed: list[str]) -> None:
        super().__init__("function", {}, type(None))
        self._real = real
        self._passed = passed

    def module(self, prefix: str) -> Mapping[str, Plugin]:
        return self._real.module(prefix)

    def refusal(self, prefix: str) -> str:
        return self._real.refusal(prefix)

    def __getitem__(self, name: str) -> Plugin:
        plugin = self._real[name]
        assert plugin.origin == BUILT_IN
        if name in ANSWERS:
            assert plugin.mark.reads
            return replace(plugin, call=ANSWERS[name])
        if plugin.mark.reads or name == "cmd.run_all":
            return plugin

        def call(*args: Any, **kwargs: Any) -> Any:
            self._passed.append(name)
            return True

        return replace(plugin, call=call)


@dataclass
class Sandbox:
    """A folder with something of everything, and what got past the guard."""

    folder: Path
    context: Context
    passed: list[str]

    def filled(self, value: Any) -> Any:
        """Return *value* with the sandbox's path in its texts."""
        if isinstance(value, str):
            return value.replace("{s}", str(self.folder))
        if isinstance(value, dict):
            return {self.filled(key): self.filled(each) for key, each in value.items()}
        return [self.filled(each) for each in value] if isinstance(value, list) else value

    def prepare(self, example: Example) -> None:
        if example.fun.startswith("git."):
            _clone(self.folder)

    def call(self, example: Example, context: Context) -> StateResult:
        state = state_registry()[example.fun]
        found: StateResult = state.call(
            context, self.filled(example.name), **self.filled(dict(example.args))
        )
        return found

    def tree(self) -> dict[str, tuple[Any, ...]]:
        """Return what is there: mode, owner, links, time, content, target."""
        found: dict[str, tuple[Any, ...]] = {}
        for path in [self.folder, *sorted(self.folder.rglob("*"))]:
            status = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            target = str(path.readlink()) if path.is_symlink() else ""
            found[str(path)] = (
                *(status.st_mode, status.st_uid, status.st_nlink, status.st_mtime_ns),
                *(content, target),
            )
        return found


def _git(*words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(["git", *identity, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _clone(folder: Path) -> None:
    """Make a repository and a clone that lacks its last commit."""
    _git("init", "-q", "-b", "main", str(folder / "origin"))
    _git("-C", str(folder / "origin"), "commit", "-q", "--allow-empty", "-m", "one")
    _git("clone", "-q", str(folder / "origin"), str(folder / "behind"))
    _git("-C", str(folder / "origin"), "commit", "-q", "--allow-empty", "-m", "two")


_CRONTAB = "# Lines below here are managed by Salt, do not edit\nOLD=1\n* * * * * old\n"
_PATCH = "--- a\n+++ b\n@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 3\n #c = 3\n"


def _furnish(folder: Path) -> None:
    for name in ("folder", "empty"):
        (folder / name).mkdir()
    for number in range(3):
        (folder / "folder" / f"backup{number}").write_text("x")
    (folder / "file").write_text("a = 1\nb = 2\n#c = 3\n")
    (folder / "script.sh").write_text(f"#!/bin/sh\ntouch {folder}/scripted\n")
    (folder / "script.sh").chmod(0o755)
    (folder / "link").symlink_to(folder / "file")
    (folder / "a.ini").write_text("[s]\nk = 1\n")
    (folder / "data.json").write_text("{}\n")
    (folder / "keys").write_text("ssh-rsa AAAAC3Nz old\n")
    (folder / "apt" / "sources.list.d").mkdir(parents=True)
    (folder / "apt" / "sources.list").write_text("deb http://old.example/x y main\n")
    (folder / "rotate").write_text("rotate 4\n")
    (folder / "aliases").write_text("old: root\n")
    (folder / "fstab").write_text(f"/dev/old {folder}/mnt ext4 defaults 0 0\n")
    (folder / "known").write_text("old ssh-rsa AAAAC3Nz\n")
    (folder / "hosts").write_text("192.0.2.1 old.example.org\n")
    (folder / "a.patch").write_text(
        "--- a\n+++ b\n@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 3\n #c = 3\n"
    )
    with tarfile.open(folder / "a.tar", "w") as archive:
        entry = tarfile.TarInfo("inside.txt")
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"x"))
    old = time.time() - 3 * 86400
    for path in folder.rglob("*"):
        os.utime(path, (old, old), follow_symlinks=False)


@pytest.fixture
def sandbox(
    session: JobSession, roots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sandbox]:
    folder = tmp_path / "sandbox"
    folder.mkdir()
    _furnish(folder)
    (roots / "tree").mkdir()
    (roots / "tree" / "one").write_text("1")
    monkeypatch.setenv("SANDBOX", str(folder))
    passed: list[str] = []
    start = process._start

    def started(command: process.Command) -> Any:
        # The guard's event, before a command that it lets through can do any harm here.
        sys.audit("subprocess.Popen", command.argv[0], list(command.argv), None, None)
        if command.argv[0] not in ("git", "openssl") and "--dry-run" not in command.argv:
            passed.append(" ".join(command.argv))
        return start(command)

    monkeypatch.setattr(process, "_start", started)
    monkeypatch.setattr(pkg_states, "provider", lambda context: FakeTool(context))
    present = {"present": NodePackage("present", "1.0.0")}
    monkeypatch.setattr(npm, "installed", lambda context, made, fresh=False: present)
    monkeypatch.setattr(pip, "installed", lambda context, made, fresh=False: {})
    monkeypatch.setattr(apt, "FOLDER", folder / "apt")
    monkeypatch.setattr(debconf, "selections", dict)
    monkeypatch.setattr(blockdev, "_is_block", lambda name: True)
    monkeypatch.setattr(cron, "load", lambda context, user: cron.parse(_CRONTAB))
    monkeypatch.setattr(shutil, "which", lambda name, **path: f"{folder}/script.sh")
    context = session.context
    grains = {**context.grains, "many": ["x", "y"]}
    made = context.with_(
        functions=Watched(context.functions, passed),
        grains=grains,
        opts={
            **context.opts,
            "hosts.file": str(folder / "hosts"),
            "aliases.file": str(folder / "aliases"),
        },
    )
    yield Sandbox(folder, made, passed)


def test_there_is_an_example_of_every_state_function() -> None:
    known = {example.fun for example in EXAMPLES}
    assert known | _NOT_STATES | _OWN_CACHE == set(state_registry().names())


@pytest.mark.parametrize("example", EXAMPLES, ids=_label)
def test_state_changes_nothing_in_test_mode(sandbox: Sandbox, example: Example) -> None:
    sandbox.prepare(example)
    before, variables = sandbox.tree(), dict(os.environ)
    context = sandbox.context.with_(test=True)
    with context.state_guard(BUILT_IN):
        found = sandbox.call(example, context)
    assert REFUSED not in found.comment
    assert sandbox.passed == []
    assert sandbox.tree() == before
    assert dict(os.environ) == variables
    if example.changes:
        assert found.result is None, found


@pytest.mark.parametrize("example", EXAMPLES, ids=_label)
def test_guard_holds_back_a_state_that_never_asks_for_test_mode(
    sandbox: Sandbox, example: Example
) -> None:
    sandbox.prepare(example)
    before, variables = sandbox.tree(), dict(os.environ)
    with refusing_changes((str(sandbox.context.host.cache_dir),)):
        try:
            found = sandbox.call(example, sandbox.context)
            told = found.comment
        except TestModeError as error:
            told = str(error)
    assert sandbox.passed == []
    assert sandbox.tree() == before
    assert dict(os.environ) == variables
    if example.changes:
        assert REFUSED in told
