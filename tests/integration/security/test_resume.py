"""Resume files that are copied, edited or replaced are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from catena.core.job import ActionKind
from tests.integration.runtime.conftest import PretendedHost

REBOOT, ONCE = ActionKind.reboot, ActionKind.once


@pytest.fixture
def host(tmp_path: Path) -> Iterator[PretendedHost]:
    """A host that waits for its first boot of two, in a chain of three chunks."""
    host = PretendedHost(tmp_path / "host")
    a = host.action
    host.render([a(1, ONCE), a(2, REBOOT)], [a(3, ONCE), a(4, REBOOT)], [a(5, ONCE)])
    host.do(host.start().after)
    yield host


def resume_file(host: PretendedHost) -> Path:
    return host.folder / "conf/minion.d/_mgractionchains.conf"


def finish(host: PretendedHost) -> None:
    host.do(host.resume().after)
    assert host.resume().ret.success
    assert host.actions_witnessed() == [1, 3, 5]


def test_older_copy_of_a_resume_file_repeats_no_action_during_the_chain(
    host: PretendedHost,
) -> None:
    old = resume_file(host).read_bytes()
    host.do(host.resume().after)
    assert host.actions_witnessed() == [1, 3]
    # Chunk 2 waits for its boot; the file of chunk 1 comes back from a backup.
    resume_file(host).write_bytes(old)
    host.resume()
    host.reboot()
    host.resume()
    assert [n for n in host.actions_witnessed() if n != 5] == [1, 3]


def test_older_copy_of_a_resume_file_runs_nothing_after_the_chain(host: PretendedHost) -> None:
    old = resume_file(host).read_bytes()
    finish(host)
    for name in ("", ".running"):
        path = resume_file(host).with_name(resume_file(host).name + name)
        path.write_bytes(old)
        host.reboot()
        host.resume()
        assert host.actions_witnessed() == [1, 3, 5]
        assert not path.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"chunk: 2", b"chunk: 3"),
        lambda data: data.replace(b"_2", b"_3"),
        lambda data: data + b"test: true\n",
        lambda data: b"x: !!python/object/apply:os.system ['true']\n" + data,
        lambda data: b"%TAG ! tag:x,\n---\n" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data + data,
        lambda data: data[:-70],
        lambda data: data.partition(b"hmac")[0],
        lambda data: b"",
        lambda data: b"\0" * 70_000,
    ],
)
def test_changed_resume_file_stops_the_chain_with_the_clearing_command(
    host: PretendedHost, change: object
) -> None:
    assert callable(change)
    path = resume_file(host)
    path.write_bytes(change(path.read_bytes()))
    outcome = host.resume()
    assert not outcome.ret.success
    assert "mgractionchains.clean" in str(outcome.ret.value)
    assert host.actions_witnessed() == [1]


def test_chunk_changed_on_disk_does_not_run(host: PretendedHost) -> None:
    chunks = [p for p in (host.folder / "cache/chains").rglob("*.sls") if p.stem.endswith("_2")]
    assert chunks
    for path in chunks:
        path.chmod(0o600)
        path.write_text(path.read_text().replace("action: 3", "action: 99"))
    host.resume()
    assert 99 not in host.actions_witnessed()


@pytest.mark.parametrize("target", ["/etc/shadow", "/dev/zero", "/proc/kmsg", "loop", "folder"])
def test_link_in_place_of_the_resume_file_is_not_read(host: PretendedHost, target: str) -> None:
    path = resume_file(host)
    path.unlink()
    if target == "folder":
        path.mkdir()
    else:
        path.symlink_to(path if target == "loop" else target)
    outcome = host.resume()
    assert not outcome.ret.success and "malformed resume file" in str(outcome.ret.value)
    assert "root:" not in str(outcome.ret.value)
    assert host.actions_witnessed() == [1]
