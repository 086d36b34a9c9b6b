"""Whole hosts over SSH: booted Debian 11, 12 and 13, each with users of three kinds."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.reboot.machines import PYTHONS, Installation
from tests.reboot.ssh_machines import SshSite, ssh_site
from tests.support.debian_roots import Root

pytestmark = [
    pytest.mark.reboot,
    pytest.mark.roots("bullseye-ssh", "bookworm-ssh", "trixie-ssh"),
    pytest.mark.timeout(600),
]

TREE = Path(__file__).parents[1] / "cases/ssh_hosts"
HOSTS = {"old": "bullseye", "mid": "bookworm", "new": "trixie"}
OS_FINGERS = {"old": "Debian-11", "mid": "Debian-12", "new": "Debian-13"}
#: What may differ between two runs of the same thing.
_OF_A_RUN = frozenset(("start_time", "duration", "pid"))
#: Grains that tell of the process that looks, not of the host.
_OF_A_PROCESS = frozenset(
    "pid pythonexecutable pythonpath path saltpath ps systempath shell cwd".split()
)
CONTROL = """\
Package: hello-catena
Version: {version}
Architecture: all
Maintainer: nobody <nobody@example.org>
Description: says hello
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[SshSite]:
    installed = Path(tempfile.mkdtemp(prefix="catena-installed-"))
    installation = Installation(installed)

    def fill(site: SshSite) -> None:
        shutil.copytree(TREE, site.tree, dirs_exist_ok=True)
        for name, suite in HOSTS.items():
            # Of these the host knows nothing: where they lie nothing is looked for.
            own = (
                f"--bind-ro={installation.site(PYTHONS[suite])}:/opt/alone",
                f"--bind-ro={site.tree}:{site.tree}",
            )
            fill_disk(site, name, site.add_bare(name, suite, own))

    try:
        with ssh_site(Path(tempfile.mkdtemp(prefix="cat-")), installation, fill) as made:
            yield made
    finally:
        shutil.rmtree(installed, ignore_errors=True)


def fill_disk(site: SshSite, name: str, root: Root) -> None:
    """Give a host a source of packages, and the configuration of a local run."""
    root.write("/root/hello/DEBIAN/control", CONTROL.format(version="1.0"))
    (root.path / "srv/repo").mkdir(parents=True)
    root.run("dpkg-deb", "--build", "/root/hello", "/srv/repo/hello.deb")
    shutil.rmtree(root.path / "root/hello")
    package = (root.path / "srv/repo/hello.deb").read_bytes()
    entry = (
        f"{CONTROL.format(version='1.0')}Filename: ./hello.deb\nSize: {len(package)}\n"
        f"SHA256: {hashlib.sha256(package).hexdigest()}\n"
    )
    (root.path / "srv/repo/Packages.gz").write_bytes(gzip.compress(entry.encode()))
    root.write("/etc/apt/sources.list", "deb [trusted=yes] file:/srv/repo ./\n")
    alone = {
        "id": name,
        "file_client": "local",
        "file_roots": {"base": [str(site.tree / "states")]},
        "pillar_roots": {"base": [str(site.tree / "pillar")]},
        "root_dir": "/mnt/alone",
    }
    root.write("/mnt/alone/etc/minion", yaml.safe_dump(alone))


def alone(site: SshSite, name: str, *words: str) -> Any:
    """Return what `catena call --local` says inside a host."""
    code = "import sys; sys.path.insert(0, '/opt/alone'); from catena.cli.main import main; main()"
    text = site.inside(
        name, "sh", "-c", 'export PATH="/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root; "$@" || :',
        "sh", "python3", "-I", "-c", code, "call", "--local",
        "--config-dir", "/mnt/alone/etc", *words, "--out", "json",
    )  # fmt: skip
    return json.loads(text)["local"]


def comparable(value: Any) -> Any:
    """Return an answer without what belongs to its run."""
    if isinstance(value, dict):
        return {key: comparable(one) for key, one in value.items() if key not in _OF_A_RUN}
    return [comparable(one) for one in value] if isinstance(value, list) else value


def results(rows: dict[str, Any]) -> dict[str, Any]:
    return {row["__id__"]: row["result"] for row in rows.values()}


def changed(rows: dict[str, Any]) -> set[str]:
    return {row["__id__"] for row in rows.values() if row["changes"]}


def test_every_user_connects_to_every_debian_and_becomes_root(hosts: SshSite) -> None:
    everyone = {f"{name}{kind}" for name in HOSTS for kind in ("", "-free", "-asks")}
    assert hosts.answers("*", "test.ping") == dict.fromkeys(everyone, True)
    said = hosts.answers("*", "cmd.run", "id -un; hostname")
    assert said == {who: f"root\n{who.partition('-')[0]}" for who in everyone}
    raw = hosts.answers("*", "-r", "id -un; cat; echo done")
    assert {found["stdout"] for found in raw.values()} == {"root\ndone\n"}


def test_grains_over_ssh_match_the_hosts_own_grains(hosts: SshSite) -> None:
    for name, grains in hosts.answers(",".join(HOSTS), "-L", "grains.items").items():
        assert grains["osfinger"] == OS_FINGERS[name]
        assert ".".join(map(str, grains["pythonversion"][:2])) == PYTHONS[HOSTS[name]]
        assert grains["rack"] == f"rack-of-{name}"
        assert (grains["id"], grains["host"], grains["init"]) == (name, name, "systemd")
        alone(hosts, name, "saltutil.sync_all")
        itself = alone(hosts, name, "grains.items")
        both = [{k: v for k, v in each.items() if k not in _OF_A_PROCESS}
                for each in (grains, itself)]  # fmt: skip
        assert both[0] == both[1]


def test_state_tree_gives_the_same_results_over_ssh_as_on_the_host(hosts: SshSite) -> None:
    names = ",".join(HOSTS)
    hosts.answers(names, "-L", "state.apply", "undo")
    first = hosts.answers(names, "-L", "state.apply", "site", check=False)
    again = hosts.answers(names, "-L", "state.apply", "site", check=False)
    for name in HOSTS:
        wanted = dict.fromkeys(results(first[name]), True) | {"missing": False, "never": False}
        assert results(first[name]) == results(again[name]) == wanted
        assert changed(first[name]) == set(wanted) - {"missing", "never"}
        assert changed(again[name]) == {"colour"}
        disk = hosts.machines[name].root.path
        colour = "grey" if name == "old" else f"{HOSTS[name]}-blue"
        assert (disk / f"srv/site/{name}.conf").read_text() == (
            f"host={name}\nos={OS_FINGERS[name]}\nrack=rack-of-{name}\n"
            f"colour={colour}\npython={PYTHONS[HOSTS[name]]}\n"
        )
    hosts.answers(names, "-L", "state.apply", "undo")
    for name in HOSTS:
        alone(hosts, name, "saltutil.sync_all")
        for over_ssh in (first, again):
            there = alone(hosts, name, "state.apply", "site")
            assert comparable(over_ssh[name]) == comparable(there)


def test_sudo_users_get_the_same_results_as_root(hosts: SshSite) -> None:
    names = ",".join(f"{name}-{kind}" for name in HOSTS for kind in ("free", "asks"))
    hosts.answers(",".join(HOSTS), "-L", "state.apply", "undo")
    # Two users of one host at once: a run of states waits for the one before it.
    found = hosts.answers(names, "-L", "state.apply", "site", check=False)
    for name in HOSTS:
        pair = [found[f"{name}-{kind}"] for kind in ("free", "asks")]
        assert sorted(len(changed(rows)) for rows in pair) == [1, len(pair[0]) - 2]


def test_host_keeps_one_folder_and_no_process_after_a_run(hosts: SshSite) -> None:
    for name in HOSTS:
        hosts.answers(name, "test.ping")
        found = hosts.inside(
            name, "find", "/root", "/home", "/tmp", "/var/tmp", "/run", "-name", "*catena*"
        )
        assert found.split() == ["/root/.cache/catena"]
        room = hosts.machines[name].root.path / "root/.cache/catena"
        assert room.stat().st_mode & 0o777 == 0o700
        assert [*room.glob("runs/*"), *room.glob("incoming/*")] == []
        # The bundle as it came, and once as this interpreter compiled it.
        bundles = Counter(path.name.partition(".")[0] for path in room.glob("bundles/*"))
        assert set(bundles.values()) <= {1, 2}, bundles
        lines = hosts.inside(name, "ps", "-eo", "args").splitlines()
        assert [line for line in lines if "catena" in line] == []
        loaded = hosts.inside(name, "sh", "-c", "python3 -c 'import yaml' || echo none")
        assert loaded == "none\n"


def test_failed_connection_of_a_user_is_explained_in_one_line(hosts: SshSite) -> None:
    wrong = "not this one"
    for name in HOSTS:
        at = {"host": hosts.roster[name]["host"]}
        roster = hosts.folder / "wrong"
        roster.write_text(
            yaml.safe_dump(
                {
                    "login": {**at, "user": "asks", "passwd": wrong},
                    "sudo": {**hosts.roster[f"{name}-free"], "sudo_user": "nobody-there"},
                }
            )
        )
        roster.chmod(0o600)
        done = hosts.catena("ssh", "*", "test.ping", "--roster", str(roster), check=False)
        assert done.returncode in (1, 3)
        said = sorted(done.stderr.splitlines())
        assert len(said) == 2, said
        assert "authenticate" in said[0]
        assert "nobody-there" in said[1]
        assert wrong not in done.stderr
