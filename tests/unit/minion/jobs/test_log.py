from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from catena.minion.jobs import log as job_log
from catena.minion.jobs.log import JobLog, JobLogRecord
from catena.minion.records.sealed import seal

A, B = "20260101000000000001", "20260101000000000002"


def test_log_records_of_a_job_are_merged(tmp_path: Path) -> None:
    log = JobLog(tmp_path / "jobs.log")
    log.add(JobLogRecord(A, "one", order=b"a"))
    log.add(JobLogRecord(B, "one", order=b"b"))
    log.add(JobLogRecord(A, "two", begun=True))
    log.add(JobLogRecord(A, "two", ret=b"r", aside=b"s"))
    log.add(JobLogRecord(A, "two", until=9), durable=False)
    again = JobLog(tmp_path / "jobs.log").read()
    assert list(again.values()) == [
        JobLogRecord(A, "two", True, b"a", b"r", b"s", 9),
        JobLogRecord(B, "one", order=b"b"),
    ]


def test_torn_end_is_cut_off_at_every_length(tmp_path: Path) -> None:
    path = tmp_path / "jobs.log"
    log = JobLog(path)
    log.add(JobLogRecord(A, "one", order=b"a"))
    whole = path.stat().st_size
    log.add(JobLogRecord(B, "one", order=b"b"))
    data = path.read_bytes()
    for end in range(whole, len(data)):
        for tail in (b"", b"\1" * 20):
            path.write_bytes(data[:end] + tail)
            again = JobLog(path)
            assert list(again.read()) == [A] and path.stat().st_size == whole
    again.add(JobLogRecord(B, "one", order=b"c"))
    assert list(JobLog(path).read()) == [A, B]


def test_noted_record_is_written_with_the_next_record_or_at_the_flush(tmp_path: Path) -> None:
    path = tmp_path / "jobs.log"
    log = JobLog(path)
    log.add(JobLogRecord(A, "one", order=b"a"))
    log.note(JobLogRecord(A, "one", until=9))
    assert log.read()[A].until == 9
    assert JobLog(path).read()[A].until == 0
    log.add(JobLogRecord(B, "one", order=b"b"))
    assert JobLog(path).read()[A].until == 9
    log.note(JobLogRecord(B, "one", until=8))
    log.flush()
    assert JobLog(path).read()[B].until == 8


def test_return_is_read_from_the_log_also_after_the_log_was_compacted(tmp_path: Path) -> None:
    path = tmp_path / "jobs.log"
    log = JobLog(path)
    for jid in (A, B):
        log.add(JobLogRecord(jid, "one", order=b"x" * 99))
        log.add(JobLogRecord(jid, "one", ret=jid.encode()))
    log.note(JobLogRecord(A, "one", until=9))
    log.shrink()
    again = JobLog(path)
    again.read()
    for one in (log, again):
        assert not one.has_return(A) and one.read_return(B) == B.encode()
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(ValueError, match="damaged"):
        log.read_return(B)


def test_claim_is_known_until_the_job_begins_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "jobs.log"
    log = JobLog(path)
    log.add(JobLogRecord(A, "one", begun=True, order=b"a", claim={"since": 1}))
    assert JobLog(path).read()[A] == JobLogRecord(A, "one", True, b"a", claim={"since": 1})
    log.add(JobLogRecord(A, "one", begun=True))
    assert JobLog(path).read()[A] == JobLogRecord(A, "one", True, b"a")


def as_an_older_agent(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, JobLogRecord]:
    """Read a log as one that passes over what it does not know."""

    def decoded(
        body: bytes, real: Callable[[bytes], JobLogRecord | None] = job_log._decoded
    ) -> JobLogRecord | None:
        line = real(body)
        return None if line is None or line.claim or line.begin_by else line

    with monkeypatch.context() as patch:
        patch.setattr(job_log, "_decoded", decoded)
        return JobLog(path).read()


def test_older_agent_takes_a_dispatched_job_as_started_in_another_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.log"
    log = JobLog(path)
    log.add(JobLogRecord(A, "one", True, b"a", claim={"since": 1}))
    for _ in range(2):
        assert as_an_older_agent(path, monkeypatch)[A] == JobLogRecord(A, "", True, b"a")
        assert JobLog(path).read()[A] == JobLogRecord(A, "one", True, b"a", claim={"since": 1})
        log.shrink()


def test_how_long_a_job_may_wait_is_known_in_the_same_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.log"
    log = JobLog(path)
    log.add(JobLogRecord(A, "one", order=b"a", begin_by=5.5))
    for _ in range(2):
        assert as_an_older_agent(path, monkeypatch)[A] == JobLogRecord(A, "one", order=b"a")
        assert JobLog(path).read()[A].begin_by == 5.5
        log.shrink()
    log.add(JobLogRecord(A, "one", begun=True))
    assert JobLog(path).read()[A].begin_by == 5.5
    log.add(JobLogRecord(A, "two", begun=True))
    assert JobLog(path).read()[A].begin_by == 0.0


def test_withdrawn_record_is_never_read_again(tmp_path: Path) -> None:
    path = tmp_path / "jobs.log"
    log = JobLog(path)
    log.add(JobLogRecord(A, "one", order=b"a"))
    size = path.stat().st_size
    log.add(JobLogRecord(B, "one", order=b"b", begin_by=5.5))
    log.take_back()
    assert path.stat().st_size == size and list(JobLog(path).read()) == [A]


def test_take_back_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = JobLog(tmp_path / "jobs.log")
    log.add(JobLogRecord(A, "one", order=b"a"))
    log.add(JobLogRecord(B, "one", order=b"b"))
    sizes: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: sizes.append(os.fstat(fd).st_size))
    log.take_back()
    assert sizes == [(tmp_path / "jobs.log").stat().st_size]


def test_job_log_does_not_grow_without_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_log, "SHRINK_BYTES", 2000)
    log = JobLog(tmp_path / "jobs.log")
    log.add(JobLogRecord(A, "one", order=b"a"))
    for number in range(200):
        jid = str(20260101000000000100 + number)
        log.add(JobLogRecord(jid, "one", order=b"x" * 100))
        log.add(JobLogRecord(jid, "one", until=9), durable=False)
        if log.is_long:
            log.shrink()
        assert (tmp_path / "jobs.log").stat().st_size < 3000
    assert JobLog(tmp_path / "jobs.log").read()[A] == JobLogRecord(A, "one", order=b"a")


def test_record_of_a_later_version_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "jobs.log"
    path.write_bytes(seal(b"\x81\xa3new\x01"))
    log = JobLog(path)
    assert log.read() == {}
    log.add(JobLogRecord(A, "one", order=b"a"))
    assert list(JobLog(path).read()) == [A]
