"""The short cut for test.ping on known hosts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from catena.core.config.master import MasterSettings
from catena.core.ids import minion_id
from catena.core.job import JobSpec
from catena.ssh.connect.cache import cache_of
from catena.ssh.connect.errors import ChannelLostError, PushPhase, SshError
from catena.ssh.connect.link import Completed
from catena.ssh.connect.target import SshTarget
from catena.ssh.push.fast_ping import FastPings
from catena.ssh.push.kept_bundle import kept_bundle
from catena.ssh.push.remembered import Ground, Remembered

TARGET = SshTarget(minion_id("web1"), "10.0.0.1", user="root")
PING = JobSpec("20261122000000000000", "test.ping")


class Host:
    """A connection to this machine, or to one that raises."""

    def __init__(self, fault: SshError | None = None) -> None:
        self.target = TARGET
        self.fault = fault
        self.ran = 0

    def run(self, argv: Sequence[str], *, timeout: float, phase: PushPhase) -> Completed:
        self.ran += 1
        if self.fault is not None:
            raise self.fault
        try:
            done = subprocess.run(argv, capture_output=True, timeout=timeout, check=False)
        except FileNotFoundError:
            return Completed(127, b"", b"not found")
        return Completed(done.returncode, done.stdout, done.stderr)


class Site:
    """A master with one host that it has visited.

    Attributes:
        room: the folder on the host, its bundle in it.
    """

    def __init__(self, folder: Path) -> None:
        self.roots = folder / "roots"
        self.settings = MasterSettings(
            cache_dir=str(folder / "cache"), file_roots={"base": [str(self.roots)]}
        )
        self.room = folder / "room"
        (self.room / "bundles").mkdir(parents=True, mode=0o700)
        self.room.chmod(0o700)
        sha256 = kept_bundle(cache_of(self.settings)).sha256
        self.bundle = self.room / "bundles" / f"{sha256}.zip"
        self.bundle.write_bytes(b"")
        self.bundle.chmod(0o600)
        self.keep(sys.executable)

    def keep(self, python: str) -> None:
        known = Remembered(cache_of(self.settings) / "hosts")
        known.keep(TARGET, Ground(python, str(self.room)))

    def pings(self, spec: JobSpec = PING) -> FastPings:
        return FastPings(self.settings, spec)

    def answered(self, host: Any) -> bool:
        return self.pings().succeeds(host)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_unchanged_host_answers_the_fast_ping(site: Site) -> None:
    host = Host()
    assert site.pings().applies_to(TARGET)
    assert site.answered(host)
    assert host.ran == 1


def _linked(site: Site) -> None:
    site.room.rename(site.room.with_name("other"))
    site.room.symlink_to(site.room.with_name("other"))


@pytest.mark.parametrize(
    "change",
    [
        lambda site: site.bundle.unlink(),
        lambda site: site.bundle.rename(site.bundle.with_name(f"{'0' * 64}.zip")),
        lambda site: site.bundle.chmod(0o622),
        lambda site: site.room.chmod(0o777),
        _linked,
        lambda site: site.keep("/usr/bin/no-such-python"),
    ],
    ids=["no program", "another version", "open program", "open room", "a link", "no Python"],
)
def test_changed_host_is_left_to_the_visit(site: Site, change: Callable[[Site], None]) -> None:
    change(site)
    assert not site.answered(Host())


def test_fast_ping_is_skipped_for_an_unvisited_host(site: Site) -> None:
    Remembered(cache_of(site.settings) / "hosts").forget(TARGET)
    assert not site.pings().applies_to(TARGET)
    host = Host()
    assert not site.answered(host)
    assert host.ran == 0


@pytest.mark.parametrize(
    "spec",
    [
        JobSpec(PING.jid, "test.echo", ("a",)),
        JobSpec(PING.jid, "test.ping", ("more",)),
        JobSpec(PING.jid, "test.ping", (), {"more": 1}),
    ],
    ids=["function", "argument", "keyword"],
)
def test_other_functions_need_a_visit(site: Site, spec: JobSpec) -> None:
    assert not site.pings(spec).applies_to(TARGET)


@pytest.mark.parametrize(
    ("name", "text", "applies"),
    [
        ("test.py", "", False),
        ("other.py", "__virtualname__ = 'test'\n", False),
        ("other.py", "def ping():\n    return 1\n", True),
    ],
)
def test_module_of_the_tree_may_have_another_ping(
    site: Site, name: str, text: str, applies: bool
) -> None:
    folder = site.roots / "_modules"
    folder.mkdir(parents=True)
    (folder / name).write_text(text)
    assert site.pings().applies_to(TARGET) is applies


def test_lost_connection_is_left_to_the_visit_and_silence_is_reported(site: Site) -> None:
    lost = ChannelLostError("web1", PushPhase.start, "the connection ended", waits=True)
    assert not site.answered(Host(lost))
    assert not site.answered(Host(SshError("web1", PushPhase.session, "there is no sudo")))
    with pytest.raises(SshError, match="no answer"):
        site.answered(Host(SshError("web1", PushPhase.start, "no answer in 60 s", waits=True)))
