"""Findings of `catena doctor` on a minion."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from catena.core import checkup, frozen
from catena.core.checkup import Finding, Level
from catena.core.clock import SystemClock
from catena.core.files import private_folder
from catena.core.job import Boundary, JobSpec
from catena.minion.checkup import check
from catena.minion.daemon import lock
from catena.minion.jobs.folder import Claim
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.store import JobStore
from catena.minion.link.event_log import EventLog
from catena.runtime import chain_manifest, damage
from catena.runtime.chain_store import ChainStore
from catena.runtime.resume_file import NAME, ResumeFile, ResumePoint
from catena.transport.keys import load_or_create
from catena.transport.messages import EventFired
from tests.unit.runtime.manifests import CHUNK, MANIFEST


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    (tmp_path / "minion").write_text("id: web1\nmaster: 127.0.0.1\n")
    return tmp_path


def state(conf: Path) -> Path:
    return conf / "state" / "minion"


def found(conf: Path, part: str) -> list[Finding]:
    return [finding for finding in check(conf) if finding.part == part]


def levels(conf: Path, part: str) -> list[Level]:
    return [finding.level for finding in found(conf, part)]


def test_checkup_of_an_unused_host_finds_and_creates_nothing(conf: Path) -> None:
    before = sorted(conf.rglob("*"))
    assert Level.fault not in {finding.level for finding in check(conf)}
    assert levels(conf, "agent") == [Level.warning]
    assert sorted(conf.rglob("*")) == before


def test_host_without_a_master_is_not_told_to_start_its_minion(conf: Path) -> None:
    (conf / "minion").write_text("id: web1\nfile_client: local\n")
    (agent,) = found(conf, "agent")
    assert agent.level is Level.note and "catena call --local" in agent.what


def test_running_agent_is_seen_by_its_lock(conf: Path) -> None:
    private_folder(state(conf))
    handle = lock(private_folder(state(conf) / "cache"))
    assert levels(conf, "agent") == [Level.ok]
    os.close(handle)
    assert levels(conf, "agent") == [Level.warning]


def test_configuration_that_can_not_be_read_is_the_only_finding(conf: Path) -> None:
    (conf / "minion").write_text("id: web1\nmastr: x\n")
    (only,) = check(conf)
    assert only.level is Level.fault
    assert "master" in only.what


def test_secret_key_that_others_may_read_is_a_fault(conf: Path) -> None:
    load_or_create(private_folder(state(conf) / "pki"))
    assert Level.ok in levels(conf, "keys")
    (state(conf) / "pki" / "curve.key").chmod(0o644)
    assert levels(conf, "keys") == [Level.fault]


def test_folder_that_others_may_write_to_is_a_fault(conf: Path) -> None:
    (state(conf) / "cache").mkdir(parents=True)
    (state(conf) / "cache").chmod(0o777)
    (finding,) = found(conf, "permissions")
    assert "chmod go-w" in finding.advice


def test_damaged_journal_is_named_with_the_command_that_gives_it_up(conf: Path) -> None:
    folder = state(conf) / "cache" / "chains" / "7"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "manifest.json").write_text("{")
    (finding,) = found(conf, "journal")
    assert finding.level is Level.fault
    assert "mgractionchains.clean" in finding.advice


def point(boot_id: str) -> ResumePoint:
    sls = "actionchains.actionchain_5_m_2"
    return ResumePoint(sls, 5, 2, 9, "", boot_id, "s", "reboot", "0" * 64)


def test_resume_file_says_what_it_waits_for(conf: Path) -> None:
    file = ResumeFile(conf, state(conf) / "pki")
    file.write(point(Path("/proc/sys/kernel/random/boot_id").read_text().strip()))
    (waits,) = found(conf, "resume file")
    assert "chunk 2 after the next boot" in waits.what
    file.write(point("another"))
    (due,) = found(conf, "resume file")
    assert "mgractionchains.resume" in due.advice


@pytest.mark.parametrize("state_of_file", ["missing", "a link to nothing"])
def test_waiting_chain_without_its_resume_file_is_a_fault(
    conf: Path, state_of_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ChainStore(state(conf) / "cache", "boot", "session", SystemClock())
    chunks = (frozen.replace(CHUNK, boundary=Boundary.agent_upgrade), CHUNK)
    manifest = frozen.replace(MANIFEST, chunks=chunks)
    monkeypatch.setattr(chain_manifest, "fetch_chunk", lambda *_: b"")
    files: Any = None
    store.receive(manifest, files)
    with store.lock(), store.open(manifest.chain_id) as chain:
        assert chain is not None
        chain.record("chunk", chunk=1)
        assert not found(conf, "resume file")
        chain.record("chunk_end", chunk=1, outcome="waiting")
    if state_of_file != "missing":
        (conf / "minion.d").mkdir()
        (conf / "minion.d" / NAME).symlink_to("nowhere")
    (lost,) = found(conf, "resume file")
    assert lost.level is Level.fault
    assert f"is {state_of_file}, but chain 131 waits for chunk 2" in lost.what
    ResumeFile(conf, state(conf) / "pki").clear()
    ResumeFile(conf, state(conf) / "pki").write(point("x"))
    assert levels(conf, "resume file") == [Level.note]


@pytest.mark.parametrize("spoil", ["file", "key"])
def test_resume_file_that_is_not_ours_is_a_fault(conf: Path, spoil: str) -> None:
    file = ResumeFile(conf, state(conf) / "pki")
    file.write(point("x"))
    if spoil == "key":
        (state(conf) / "pki" / "resume.key").unlink()
    else:
        (conf / "minion.d" / NAME).write_text("next_chunk: evil\n")
    assert levels(conf, "resume file") == [Level.fault]


def test_results_that_wait_for_long_are_a_warning(conf: Path) -> None:
    cache = state(conf) / "cache"
    log = EventLog(cache, time.time)
    log.add(EventFired("1", "a/tag", {}))
    log.commit()
    assert levels(conf, "outbox") == [Level.note]
    log = EventLog(cache, lambda: time.time() - 7200)
    for number in ("2", "3"):
        log.add(EventFired(number, "a/tag", {}))
    log.commit()
    (waits,) = found(conf, "outbox")
    assert waits.level is Level.warning and waits.what.startswith("3 results and events")
    for number in ("2", "3"):
        log.remove(number, 0.0)
    log.close(0.0)
    assert levels(conf, "outbox") == [Level.note]


def test_jobs_blocked_by_a_full_disk_are_named(conf: Path) -> None:
    store = JobStore(private_folder(state(conf)) / "cache", "boot")
    for number in range(1, 5):
        claim = Claim(ProcessRef(1, 1, "boot")) if number == 3 else None
        store.add(JobSpec(f"2026010100000000000{number}", "state.apply"), claim=claim)
    gone, back = (store.folder(f"2026010100000000000{number}") for number in (1, 2))
    gone.remove()
    back.claim(Claim(ProcessRef(1, 1, "boot")))
    back.give_back()
    first, second = found(conf, "jobs")
    assert first.level is second.level is Level.warning
    assert gone.jid in first.what and "begins when the disk has space" in first.what
    assert back.jid in second.what and "the master answers" in second.what


def test_event_of_an_older_agent_that_waits_for_long_is_a_warning(conf: Path) -> None:
    folder = state(conf) / "cache" / "outbox"
    folder.mkdir(parents=True)
    event = folder / "000000000001-abc"
    event.write_bytes(b"x")
    assert levels(conf, "outbox") == [Level.note]
    os.utime(event, (time.time() - 7200,) * 2)
    assert levels(conf, "outbox") == [Level.warning]


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
@pytest.mark.parametrize("name", ["jobs.log", "seen", "outbox/events.log"])
def test_folder_pipe_or_link_in_the_place_of_a_file_is_a_finding(
    conf: Path, name: str, kind: str
) -> None:
    place = state(conf) / "cache" / name
    place.parent.mkdir(parents=True)
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("nowhere")
    (named,) = found(conf, "damage")
    assert named.what == f"{place}: not a regular file"


def test_clock_behind_its_own_files_is_reported() -> None:
    assert checkup.clock(time.time() - 60).level is Level.ok
    assert checkup.clock(time.time() + 86400).level is Level.warning


def test_full_disk_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)
    values = list(real)
    values[4] = 1  # blocks that are free for us
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(values))
    assert checkup.disk(tmp_path / "not" / "there").level is Level.fault


def test_jobs_that_wait_and_damaged_files_are_named(conf: Path) -> None:
    cache = private_folder(state(conf)) / "cache"
    JobStore(cache, "boot").add(JobSpec("20260101000000000001", "test.ping"))
    waiting, first = found(conf, "queue")
    assert waiting.what.startswith("1 jobs wait in the queue")
    assert first.what == "job 20260101000000000001 (test.ping) waits: it begins next"
    damage.report(cache, damage.Damage("/x/jobs.log", "torn", "3 lines", "the others"), b"bytes")
    (damaged,) = found(conf, "damage")
    assert damaged.level is Level.warning
    assert "/x/jobs.log is damaged: torn; saved: 3 lines; lost: the others" in damaged.what
    assert str(cache / "damaged") in damaged.advice
