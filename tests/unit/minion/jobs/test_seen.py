from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from catena.minion.jobs.seen import KEEP_SECONDS, MARGIN_SECONDS, SeenJobs

A, B = "20260101000000000001", "20260101000000000002"


def test_seen_jobs_are_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "seen"
    seen = SeenJobs(path, 1000.0)
    seen.add(A, 2000.0, 1000.0)
    seen.add(B, 0.0, 1000.0, "cancelled")
    again = SeenJobs(path, 1001.0)
    assert (again.why(A), again.why(B), again.why("20260101000000000003")) == (
        "done",
        "cancelled",
        "",
    )


def test_seen_job_is_forgotten_when_its_order_can_no_longer_arrive(tmp_path: Path) -> None:
    path = tmp_path / "seen"
    seen = SeenJobs(path, 1000.0)
    seen.add(A, 2000.0, 1000.0)
    seen.add(B, 0.0, 1000.0)
    seen.expire(2000.0 + MARGIN_SECONDS + 1)
    assert A not in seen and B in seen
    assert len(SeenJobs(path, 1000.0 + KEEP_SECONDS + 1)) == 0


def test_torn_last_record_harms_neither_earlier_nor_later_ones(
    tmp_path: Path,
) -> None:
    path = tmp_path / "seen"
    SeenJobs(path, 1000.0).add(A, 0.0, 1000.0)
    with path.open("ab") as stream:
        stream.write(b"99999999 2026")
    again = SeenJobs(path, 1000.0)
    again.add(B, 0.0, 1000.0)
    assert {A, B} <= set(SeenJobs(path, 1000.0)._seen)


def test_record_truncated_by_a_full_disk_does_not_corrupt_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "seen"
    seen = SeenJobs(path, 1000.0)

    def full(handle: int, data: bytes) -> None:
        os.write(handle, data[:9])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("catena.minion.jobs.seen.write_all", full)
        with pytest.raises(OSError, match="No space"):
            seen.add(A, 0.0, 1000.0)
    assert A not in seen
    seen.add(B, 0.0, 1000.0)
    assert set(SeenJobs(path, 1000.0)._seen) == {B}


def test_garbage_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "seen"
    path.write_bytes(b"\0" * 100 + b"\n" + b"x y z\n" + f"99999 {A} done\n".encode())
    assert A in SeenJobs(path, 1000.0)


def test_seen_file_of_a_running_agent_does_not_grow_without_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catena.minion.jobs.seen._LOOK_LINES", 10)
    path = tmp_path / "seen"
    seen = SeenJobs(path, 0.0)
    for number in range(200):
        # One job a day: a week of them is remembered.
        seen.add(str(20260101000000000000 + number), 0.0, number * 86400.0)
        assert len(path.read_bytes().splitlines()) < 60
    assert len(SeenJobs(path, 199 * 86400.0)) == 8


def test_seen_file_does_not_grow_without_limit(tmp_path: Path) -> None:
    path = tmp_path / "seen"
    lines = [f"1 {20260101000000000000 + number} done\n" for number in range(500)]
    path.write_text("".join(lines))
    SeenJobs(path, 1000.0)
    assert path.read_bytes() == b"#0 00000000\n"
