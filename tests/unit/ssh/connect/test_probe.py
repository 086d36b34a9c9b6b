"""Valid and invalid answers of the probe of a host."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from catena.core.ids import minion_id
from catena.ssh.connect.errors import PushPhase, SshError
from catena.ssh.connect.link import Completed, Probed
from catena.ssh.connect.probe import probe, understood
from catena.ssh.connect.target import SshTarget

ROOM = {
    "path": "/home/a/.cache/catena",
    "at": "/home/a",
    "writable": True,
    "readonly": False,
    "noexec": False,
    "free": 1 << 30,
    "inodes": 1000,
}
FOUND: dict[str, Any] = {
    "python": "/usr/bin/python3",
    "version": [3, 9, 2],
    "euid": 1000,
    "home": "/home/a",
    "boot_id": "2eae8dcd-b914-4efa-a918-1198e7284cac",
    "rooms": [ROOM, {**ROOM, "path": "/var/tmp/.catena-ab", "at": "/var/tmp"}],
}


def answered(found: object, code: int = 0, word: str = "found") -> Probed:
    text = f"{word} {found if isinstance(found, str) else json.dumps(found)}\n"
    return understood(SshTarget(minion_id("a"), "a"), Completed(code, text.encode(), b"said\n"))


def test_answer_is_understood() -> None:
    found = answered(FOUND)
    assert found.version == (3, 9, 2)
    assert (found.room, found.notes) == ("/home/a/.cache/catena", ())


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"writable": False}, "can't be written"),
        ({"readonly": True}, "read-only"),
        ({"free": 1024}, "full"),
        ({"inodes": 0}, "inodes"),
        ({"fault": "Permission denied"}, "Permission denied"),
    ],
)
def test_next_folder_is_used_when_home_is_unusable(change: dict[str, Any], note: str) -> None:
    found = answered({**FOUND, "rooms": [{**ROOM, **change}, FOUND["rooms"][1]]})
    assert found.room == "/var/tmp/.catena-ab"
    assert note in found.notes[0]


def test_noexec_folder_is_used_and_noted() -> None:
    found = answered({**FOUND, "rooms": [{**ROOM, "noexec": True}]})
    assert found.room == ROOM["path"]
    assert "noexec" in found.notes[0]


def test_nowhere_to_write_names_every_place_and_the_way_out() -> None:
    with pytest.raises(SshError, match=r"full .*thin_dir") as caught:
        answered({**FOUND, "rooms": [{**ROOM, "free": 0}]})
    assert caught.value.phase is PushPhase.probe


@pytest.mark.parametrize(
    "found",
    [
        "{",
        "[]",
        "[" * 50_000,
        {},
        {**FOUND, "python": "/bin/sh -c 'touch X'"},
        {**FOUND, "python": "$(touch X)"},
        {**FOUND, "version": "abc"},
        {**FOUND, "version": [3, 6, 8]},
        {**FOUND, "version": [3]},
        {**FOUND, "euid": None},
        {**FOUND, "rooms": None},
        {**FOUND, "rooms": [1]},
        {**FOUND, "rooms": [{**ROOM, "path": "/tmp/$(touch X)"}]},
        {**FOUND, "rooms": [{**ROOM, "path": "/a/../etc"}]},
        {**FOUND, "rooms": [{**ROOM, "free": "much"}]},
    ],
)
def test_invalid_probe_answer_is_a_one_line_error_of_its_phase(found: object) -> None:
    with pytest.raises(SshError) as caught:
        answered(found)
    assert caught.value.phase is PushPhase.probe
    assert "\n" not in str(caught.value)


def test_old_interpreters_are_named() -> None:
    with pytest.raises(SshError, match=r"/usr/bin/python3 is 3\.6\.8.*python: in the roster"):
        answered({"python": "/usr/bin/python3", "version": [3, 6, 8]}, 3, "old")


def test_missing_interpreter_is_reported() -> None:
    with pytest.raises(SshError, match=r"no Python of at least 3\.9: looked for python3"):
        understood(SshTarget(minion_id("a"), "a"), Completed(3, b"", b""))


class Here:
    """Runs the probe on this machine, with a PATH of the test's."""

    def __init__(self, path: Path, **fields: Any) -> None:
        self.target = SshTarget(minion_id("a"), "a", **fields)
        self._path = path

    def run(self, argv: Sequence[str], *, timeout: float, phase: PushPhase) -> Completed:
        env = {"PATH": f"{self._path}:/usr/bin:/bin"}
        done = subprocess.run(list(argv), capture_output=True, env=env, timeout=timeout)
        return Completed(done.returncode, done.stdout, done.stderr)


def interpreter(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


OLD = 'echo \'old {"python": "/usr/bin/python3", "version": [3, 6, 8]}\'; exit 3'


def test_first_interpreter_that_is_new_enough_is_taken(tmp_path: Path) -> None:
    import sys

    interpreter(tmp_path, "python3", OLD)
    interpreter(tmp_path, "python3.15", f'exec {sys.executable} "$@"')
    found = probe(Here(tmp_path), 60)
    assert found.version[:2] == sys.version_info[:2]
    assert found.euid == os.geteuid()


def test_named_interpreter_is_the_only_one(tmp_path: Path) -> None:
    interpreter(tmp_path, "python3.6", OLD)
    with pytest.raises(SshError, match=r"3\.6\.8"):
        probe(Here(tmp_path, python=str(tmp_path / "python3.6")), 60)
    with pytest.raises(SshError, match="is not there"):
        probe(Here(tmp_path, python="/nowhere/python3"), 60)


def test_configured_folder_is_the_only_candidate(tmp_path: Path) -> None:
    import sys

    room = tmp_path / "deep" / "room"
    found = probe(Here(tmp_path, python=sys.executable, thin_dir=str(room)), 60)
    assert found.room == str(room)
    assert not room.exists()
