"""Cached facts about hosts, which are never trusted."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from catena.core.ids import minion_id
from catena.ssh.connect.errors import ChannelLostError, PushPhase, SshError
from catena.ssh.connect.link import Probed
from catena.ssh.connect.target import SshTarget
from catena.ssh.push.bundle import Bundle
from catena.ssh.push.program import Program
from catena.ssh.push.remembered import Ground, Remembered

TARGET = SshTarget(minion_id("web1"), "10.0.0.1", user="root")
GROUND = Ground("/usr/bin/python3", "/root/.cache/catena")
BUNDLE = Bundle(b"", "0" * 64)


def test_cached_result_is_used_only_for_the_same_target(tmp_path: Path) -> None:
    known = Remembered(tmp_path / "hosts")
    assert known.recall(TARGET) is None
    known.keep(TARGET, GROUND)
    assert Remembered(tmp_path / "hosts").recall(TARGET) == GROUND
    for other in ({"user": "ann"}, {"sudo": True}, {"thin_dir": "/srv/c"}, {"host": "10.0.0.2"}):
        assert known.recall(dataclasses.replace(TARGET, **other)) is None
    known.forget(TARGET)
    assert known.recall(TARGET) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"python": "/usr/bin/python3"}', '{"python": "a b", "room": "/"}']
)
def test_damaged_cache_file_is_ignored(tmp_path: Path, text: str) -> None:
    known = Remembered(tmp_path / "hosts")
    known.keep(TARGET, GROUND)
    for path in (tmp_path / "hosts").iterdir():
        path.write_text(text)
    assert known.recall(TARGET) is None


class _Host:
    """A connection to a host whose program begins from *ground* alone."""

    def __init__(self, ground: Ground, fault: SshError) -> None:
        self.target = TARGET
        self.ground = ground
        self.fault = fault
        self.did: list[str] = []

    def probe(self) -> Probed:
        self.did.append("probe")
        return Probed(self.ground.python, (3, 11, 2), 0, "/root", self.ground.room, "")

    def open_channel(self, argv: list[str], **_: Any) -> str:
        self.did.append(argv[0])
        if argv[0] != self.ground.python:
            raise self.fault
        return "channel"


def _lost() -> SshError:
    return ChannelLostError("web1", PushPhase.session, "it ended with code 127", waits=True)


def test_known_host_is_not_probed_again(tmp_path: Path) -> None:
    known = Remembered(tmp_path)
    host: Any = _Host(GROUND, _lost())
    Program.start(host, BUNDLE, remembered=known)
    assert host.did == ["probe", GROUND.python]
    Program.start(host, BUNDLE, remembered=known)
    assert host.did == ["probe", GROUND.python, GROUND.python]


@pytest.mark.parametrize(
    "fault", [_lost(), SshError("web1", PushPhase.install, "it belongs to another user")]
)
def test_host_is_probed_again_when_the_cached_result_is_wrong(
    tmp_path: Path, fault: SshError
) -> None:
    known = Remembered(tmp_path)
    known.keep(TARGET, Ground("/usr/bin/python3.9", GROUND.room))
    host: Any = _Host(GROUND, fault)
    Program.start(host, BUNDLE, remembered=known)
    assert host.did == ["/usr/bin/python3.9", "probe", GROUND.python]
    assert known.recall(TARGET) == GROUND


def test_silent_host_is_not_probed_twice(tmp_path: Path) -> None:
    known = Remembered(tmp_path)
    known.keep(TARGET, Ground("/usr/bin/python3.9", GROUND.room))
    host: Any = _Host(GROUND, SshError("web1", PushPhase.session, "no answer in 60 s", waits=True))
    with pytest.raises(SshError, match="no answer"):
        Program.start(host, BUNDLE, remembered=known)
    assert host.did == ["/usr/bin/python3.9"]


def test_host_is_probed_each_time_when_the_cache_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    known = Remembered(tmp_path / "file" / "hosts")
    host: Any = _Host(GROUND, _lost())
    Program.start(host, BUNDLE, remembered=known)
    Program.start(host, BUNDLE, remembered=known)
    assert host.did == ["probe", GROUND.python] * 2
