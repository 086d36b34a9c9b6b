"""What power failures interrupt: a journal, a resume file, a job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from catena.core.context import FileEntry
from catena.core.digest import sha256
from catena.core.job import (
    ActionKind,
    ActionManifest,
    Boundary,
    ChainManifest,
    ChunkManifest,
)
from catena.runtime.journal import Journal, read_records
from catena.runtime.resume_file import ResumeFile, ResumePoint
from tests.sim.cuts import Bench

JID = "20260101000000000001"


def nothing(root: Path) -> None:
    """Nothing was there before."""


def journals_after_power_cuts(below: Path) -> list[tuple[list[int], list[int], list[int]]]:
    """Cut the power at every step of three appends to a journal.

    Return for each state of the disk the records whose append had returned, those that are read
    then, and those that are read after record 9 was appended.
    """

    def write(root: Path) -> Iterator[int]:
        with Journal(root / "journal") as journal:
            for number in range(3):
                journal.append({"kind": "x", "n": number, "fill": "y" * 40})
                yield number

    def read(root: Path) -> list[int]:
        return [record["n"] for record in read_records(root / "journal")]

    states = []
    for root, appended, _ in Bench(below, nothing, write).states():
        found = read(root)
        with Journal(root / "journal") as journal:
            journal.append({"kind": "x", "n": 9})
        states.append((list(appended), found, read(root)))
    return states


def assert_journal_keeps_appended_records(below: Path) -> None:
    """Fail if a journal loses a record at a power cut, or keeps more than the unfinished one."""
    states = journals_after_power_cuts(below)
    assert len(states) > 30
    for appended, found, after in states:
        assert found[: len(appended)] == appended and len(found) <= len(appended) + 1
        assert after == [*found, 9]


def point(chunk: int) -> ResumePoint:
    return ResumePoint(
        next_chunk=f"actionchains.actionchain_7_mach_{chunk}",
        actionchain_id=7,
        chunk=chunk,
        next_action_id=chunk,
        persist_boot_time="",
        boot_id="boot-1",
        session="one",
        boundary="reboot",
        sha256="0" * 64,
        epoch=1,
        ssh_extra_filerefs="",
    )


def resume_file(root: Path) -> ResumeFile:
    return ResumeFile(root / "conf", root / "pki")


TEXT = b"state:\n  test.nop: []\n"

MANIFEST = ChainManifest(
    7,
    "mach",
    1,
    (
        ChunkManifest(
            1,
            "actionchains.actionchain_7_mach_1",
            sha256(TEXT).hexdigest(),
            len(TEXT),
            Boundary.none,
            (ActionManifest(1, "state", ActionKind.once),),
        ),
    ),
)


class Files:
    """A file server with one chunk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(TEXT)

    def fetch(self, path: str, saltenv: str = "base") -> Path | None:
        """As FileClient."""
        return self._path

    def entry(self, path: str, saltenv: str = "base") -> FileEntry | None:
        """As FileClient."""
        return None
