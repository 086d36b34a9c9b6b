"""Damaged files of an agent are kept aside, reported once, and start no job again."""

from __future__ import annotations

import os
import random
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from catena.core.clock import ManualClock
from catena.core.config.minion import MinionSettings
from catena.core.files import is_misplaced
from catena.core.job import JobSpec
from catena.minion.jobs.seen import SeenJobs
from catena.minion.jobs.store import JobStore
from catena.minion.link.damages import Damages
from catena.minion.log import Log
from catena.minion.start import identity
from catena.runtime import damage
from catena.runtime.damage import Damage
from catena.runtime.resume_file import MalformedResumeFileError, ResumeFile, ResumePoint
from catena.runtime.sealed_results import (
    ResultsDamagedError,
    sealed_results,
    unsealed_results,
)
from catena.transport.messages import EventFired

ONE, TWO = "20260101000000000001", "20260101000000000002"


def reports(cache_dir: Path) -> list[Damage]:
    return damage.known(cache_dir)


def a_damage(number: int) -> Damage:
    return Damage(f"/x/file{number}", "torn", "", "all of it")


def test_damage_report_keeps_the_damaged_bytes_and_is_written_once(tmp_path: Path) -> None:
    for _ in range(3):
        assert damage.report(tmp_path, a_damage(1), b"the bytes")
    (found,) = reports(tmp_path)
    assert Path(found.kept).read_bytes() == b"the bytes"
    assert "/x/file1 is damaged: torn; lost: all of it; kept as" in found.text()


def test_bytes_of_a_damaged_json_file_are_no_report(tmp_path: Path) -> None:
    damage.report(tmp_path, Damage("/x/manifest.json", "torn", "", "all of it"), b"{")
    ((path, found),) = damage.untold(tmp_path)
    damage.told(path)
    assert Path(found.kept).read_bytes() == b"{"
    assert [one.path for one in reports(tmp_path)] == ["/x/manifest.json"]


def test_old_damage_reports_are_deleted_with_their_data(tmp_path: Path) -> None:
    for number in range(damage.LIMIT + 5):
        damage.report(tmp_path, a_damage(number), b"%d" % number)
    assert [one.path for one in reports(tmp_path)] == [
        f"/x/file{number}" for number in range(5, damage.LIMIT + 5)
    ]
    assert len(list((tmp_path / damage.FOLDER).iterdir())) == 2 * damage.LIMIT


def test_report_that_is_damaged_itself_is_named(tmp_path: Path) -> None:
    damage.report(tmp_path, a_damage(1))
    (file,) = (tmp_path / damage.FOLDER).glob("*.json")
    file.write_text("{")
    (found,) = reports(tmp_path)
    assert found.path == str(file)


def test_report_that_cannot_be_written_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / damage.FOLDER).write_text("a file where the folder should be")
    assert damage.report(tmp_path, a_damage(1)) is False


def test_each_report_is_logged_once_and_sent_until_it_is_kept(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    log = Log.open(str(tmp_path / "log"), "info", clock)
    fired: list[tuple[EventFired, Any]] = []

    def watch() -> Damages:
        return Damages(tmp_path, "web1", lambda event, told: fired.append((event, told)), log)

    first = watch()
    first.look()
    damage.report(tmp_path, a_damage(1))
    first.look()
    first.look()
    ((event, told),) = fired
    assert (event.tag, event.data["file"]) == ("minion/web1/event/damaged", "file1")
    told(OSError("no room"))
    watch().look()
    assert [one.event_id for one, _ in fired] == [event.event_id] * 2
    fired[-1][1](None)
    watch().look()
    assert len(fired) == 2
    assert (tmp_path / "log").read_text().count("/x/file1 is damaged") == 2
    assert len(reports(tmp_path)) == 1


def ordered(cache_dir: Path, *jids: str, boot: str = "boot-1") -> None:
    store = JobStore(cache_dir, boot)
    for jid in jids:
        store.add(JobSpec(jid, "test.ping"))


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
def test_job_of_a_damaged_log_is_not_begun_again(tmp_path: Path, boot: str) -> None:
    ordered(tmp_path, ONE, TWO)
    log = tmp_path / "jobs.log"
    log.write_bytes(b"\1" + log.read_bytes()[1:])
    store = JobStore(tmp_path, boot)
    found, bad = store.scan()
    assert [one.spec.jid for one in found] == [ONE, TWO] and not bad
    assert store.folder(ONE).is_claimed() and store.folder(TWO).is_claimed()
    (told,) = reports(tmp_path)
    assert told.saved == "1 lines"
    store.add(JobSpec("20260101000000000003", "test.ping"))
    assert not store.folder("20260101000000000003").is_claimed()
    assert len(reports(tmp_path)) == 1
    again = JobStore(tmp_path, boot)
    assert len(again.scan()[0]) == 3
    assert len(reports(tmp_path)) == 1


@pytest.mark.parametrize("left", [0, 1, None])
def test_job_that_its_log_does_not_know_is_not_begun_again(
    tmp_path: Path, left: int | None
) -> None:
    ordered(tmp_path, ONE)
    log = tmp_path / "jobs.log"
    known = log.stat().st_size
    store = JobStore(tmp_path, "boot-1")
    store.add(JobSpec(TWO, "test.ping"))
    store.begin(TWO)
    if left is None:
        log.unlink()
    else:
        log.write_bytes(log.read_bytes()[: known * left])
    # The power failed, too: the folder lost the claim of the process that worked on the job.
    again = JobStore(tmp_path, "boot-2")
    assert [one.spec.jid for one in again.scan()[0]] == [ONE, TWO]
    assert again.folder(TWO).is_claimed()
    assert again.folder(ONE).is_claimed() is (not left)


def test_intact_log_starts_waiting_jobs(tmp_path: Path) -> None:
    ordered(tmp_path, ONE)
    store = JobStore(tmp_path, "boot-2")
    store.scan()
    assert not store.folder(ONE).is_claimed()
    assert reports(tmp_path) == []


def seen(tmp_path: Path) -> SeenJobs:
    return SeenJobs(tmp_path / "seen", 0.0)


@pytest.mark.parametrize("place", range(0, 75, 5))
def test_flipped_bit_in_the_seen_file_is_reported(tmp_path: Path, place: int) -> None:
    for jid in (ONE, TWO):
        seen(tmp_path).add(jid, 0.0, 1.0)
    file = tmp_path / "seen"
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    kept = seen(tmp_path)
    assert [one.path for one in reports(tmp_path)] == [str(file)]
    assert (ONE in kept) + (TWO in kept) >= 1
    seen(tmp_path)
    assert len(reports(tmp_path)) == 1


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"\xfe" * 40, b"\0" * 300, b"\xfe" * 300, b"x\n", b"1" * 5000 + b" x done\n"],
)
def test_missing_seen_file_is_reported(tmp_path: Path, data: bytes) -> None:
    seen(tmp_path).add(ONE, 0.0, 1.0)
    (tmp_path / "seen").write_bytes(data)
    assert ONE not in seen(tmp_path)
    assert len(reports(tmp_path)) == 1


def test_file_of_an_older_agent_is_no_damage(tmp_path: Path) -> None:
    for text in ("", f"9999999999 {ONE} done\n9999999999 {TWO} cancelled\n"):
        (tmp_path / "seen.checked").unlink(missing_ok=True)
        (tmp_path / "seen").write_text(text)
        assert len(seen(tmp_path)) == text.count("\n")
    assert reports(tmp_path) == []


def settings(tmp_path: Path) -> MinionSettings:
    return replace(MinionSettings(), cache_dir=str(tmp_path))


def machine_id(tmp_path: Path) -> str:
    return identity.machine_id(settings(tmp_path), str(tmp_path / "none"))


@pytest.mark.parametrize("name", ["machine_id", "machine_id.copy"])
@pytest.mark.parametrize("data", [b"", b"\0" * 33, b"\xff\xfe", b"0" * 32 + b"\n"])
def test_machine_id_is_repaired_from_its_copy(tmp_path: Path, name: str, data: bytes) -> None:
    made = machine_id(tmp_path)
    (tmp_path / name).write_bytes(data)
    assert machine_id(tmp_path) == made
    assert [one.path for one in reports(tmp_path)] == [str(tmp_path / name)]
    assert machine_id(tmp_path) == made
    assert len(reports(tmp_path)) == 1


@pytest.mark.parametrize("name", ["machine_id", "machine_id.copy"])
@pytest.mark.parametrize("data", [b"\0" * 65536, b"\xfe" * 300, None])
def test_machine_id_stays_when_a_file_of_it_is_too_large_or_a_folder(
    tmp_path: Path, name: str, data: bytes | None
) -> None:
    made = machine_id(tmp_path)
    (tmp_path / name).unlink()
    if data is None:
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_bytes(data)
    assert machine_id(tmp_path) == made
    assert [one.path for one in reports(tmp_path)] == [str(tmp_path / name)]
    assert machine_id(tmp_path) == made


def test_machine_id_of_an_older_agent_stays(tmp_path: Path) -> None:
    (tmp_path / "machine_id").write_text("ab" * 16 + "\n")
    assert machine_id(tmp_path) == "ab" * 16
    assert reports(tmp_path) == []
    checksum = f"{zlib.crc32(b'ab' * 16):08x}"
    assert (tmp_path / "machine_id.copy").read_text() == f"{'ab' * 16} {checksum}\n"


@pytest.mark.parametrize("data", [b"", b"\0" * 32, b"\7" * 32, b"short", b"long" * 20])
def test_invalid_resume_key_is_replaced_and_reported(tmp_path: Path, data: bytes) -> None:
    pki = tmp_path / "pki"
    pki.mkdir()
    (pki / "resume.key").write_bytes(data)
    key = ResumeFile(tmp_path, pki, "web1", tmp_path / "cache")._key()
    assert len(key) == 32 and len(set(key)) > 1
    (found,) = reports(tmp_path / "cache")
    assert found.path == str(pki / "resume.key")


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_folder_or_pipe_in_the_place_of_the_resume_key_is_moved_aside_and_reported(
    tmp_path: Path, kind: str
) -> None:
    key = tmp_path / "pki" / "resume.key"
    key.parent.mkdir()
    for number in range(1, 3):
        key.mkdir() if kind == "folder" else os.mkfifo(key)
        with pytest.raises(MalformedResumeFileError, match="holds no key"):
            ResumeFile(tmp_path, key.parent)._key()
        assert len(ResumeFile(tmp_path, key.parent, "web1", tmp_path / "cache")._key()) == 32
        assert key.is_file()
        found = reports(tmp_path / "cache")
        assert [one.path for one in found] == [str(key)] * number
        assert is_misplaced(found[-1].kept)
        key.unlink()


def test_resume_file_whose_key_was_replaced_is_reported_each_time(tmp_path: Path) -> None:
    cache, pki = tmp_path / "cache", tmp_path / "pki"
    file = ResumeFile(tmp_path, pki, "web1", cache)
    point = ResumePoint("sls", 7, 2, None, "2026", "boot", "session", "reboot", "0" * 64)
    for number in range(1, 3):
        file.write(point)
        (pki / "resume.key").write_bytes(random.Random(number).randbytes(32))
        for _ in range(2):
            with pytest.raises(MalformedResumeFileError, match="signature"):
                file.waiting()
        assert [one.path for one in reports(cache)] == [str(file.path)] * number


@pytest.mark.parametrize("place", range(0, 60, 3))
def test_changed_results_are_refused(tmp_path: Path, place: int) -> None:
    data = bytearray(sealed_results({"a_|-b": {"result": True}}))
    assert unsealed_results(tmp_path, bytes(data)) == {"a_|-b": {"result": True}}
    assert unsealed_results(tmp_path, b'{"of": "an older agent"}')
    data[place] ^= 1
    with pytest.raises(ResultsDamagedError):
        unsealed_results(tmp_path, bytes(data))
