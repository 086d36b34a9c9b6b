from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from catena.core.errors import CatenaError
from catena.core.ids import BadNameError
from catena.core.job import JobReturn, JobSpec
from catena.minion.jobs.folder import (
    Claim,
    JobFolder,
    JobFolderError,
    ReturnExtras,
    unpacked_order,
)
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.store import LOGGED_BYTES, NOTED_SECONDS, JobStore
from catena.transport import wire
from catena.transport.messages import JobReturned

A, B, C = (f"2026010100000000000{n}" for n in (1, 2, 3))
ME = Claim(ProcessRef(10, 20, "boot"), "a.scope")


def body(jid: str, value: str = "v") -> bytes:
    return wire.pack_body(JobReturned(JobReturn(jid, "f", (), True, 0, value, 0.0, 0.0)))


def test_orders_come_back_in_the_order_of_their_receipt(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    for jid in (C, A):
        store.add(JobSpec(jid, "test.echo", ("ä", 1, b"raw"), {"k": [None]}))
    again = JobStore(tmp_path)
    found, bad = again.scan()
    assert [stored.spec.jid for stored in found] == [C, A] and bad == []
    assert found[0].spec.args == ("ä", 1, b"raw")
    assert unpacked_order(again.add(JobSpec(B, "f"))).received == 3


def test_job_is_claimed_once(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    store.add(JobSpec(A, "f"))
    folder = store.folder(A)
    assert folder.claimed_by() is None
    assert folder.claim(ME)
    assert not folder.claim(Claim(ProcessRef(11, 21, "boot")))
    assert folder.claimed_by() == ME
    folder.release()
    assert folder.attempts() == 1 and folder.claimed_by() is None
    assert folder.claim(ME)


def test_only_the_first_outcome_is_kept(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    store.add(JobSpec(A, "f"))
    folder = store.folder(A)
    aside = ReturnExtras({"kind": "reboot"}, 7, {"next_chunk": "x"})
    assert folder.finish(body(A), aside)
    assert not folder.finish(body(A, "late"))
    assert folder.read_return(1000).value == "v"
    assert folder.read_aside() == aside
    folder.remove()
    assert not folder.path.exists()


def test_interrupted_removal_is_finished_at_the_next_start_without_a_damage_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JobStore(tmp_path)
    store.add(JobSpec(A, "f"))
    (store.folder(A).path / "output").touch()
    real = os.unlink

    def cut(path: Path) -> None:
        real(path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", cut)
        with pytest.raises(KeyboardInterrupt):
            store.end(A, 9)
    assert JobStore(tmp_path).scan() == ([], [])
    assert list((tmp_path / "jobs").iterdir()) == []


def test_damaged_folders_are_renamed_and_unconfirmed_ones_are_removed(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    store.add(JobSpec(B, "f"))
    for jid in (A, C):
        (tmp_path / "jobs" / jid).mkdir()
    (tmp_path / "jobs" / A / "spec").write_bytes(bytes(100))
    found, bad = JobStore(tmp_path).scan()
    assert [stored.spec.jid for stored in found] == [B] and bad == [A]
    names = sorted(path.name for path in (tmp_path / "jobs").iterdir())
    assert names == [B, f"bad-{A}"]
    assert JobStore(tmp_path).scan()[1] == []


def test_order_in_a_wrong_folder_is_not_run(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    store.add(JobSpec(A, "f"))
    shutil.copytree(store.folder(A).path, tmp_path / "jobs" / B)
    found, bad = JobStore(tmp_path).scan()
    assert [stored.spec.jid for stored in found] == [A] and bad == [B]


@pytest.mark.parametrize("boot", ["boot", "another boot"])
def test_job_folder_lost_in_a_power_failure_is_restored_from_the_log(
    tmp_path: Path, boot: str
) -> None:
    store = JobStore(tmp_path, "boot")
    for jid in (A, B):
        store.add(JobSpec(jid, "f", ("ä", b"raw")))
    aside = ReturnExtras(open_chain=7)
    assert store.folder(A).finish(body(A), aside)
    store.keep_return(store.folder(A))
    shutil.rmtree(store.folder(A).path)
    (store.folder(B).path / "spec").write_bytes(b"\0" * 9)
    again = JobStore(tmp_path, boot)
    assert [stored.spec.jid for stored in again.scan()[0]] == [A, B]
    assert again.folder(A).read_return(1000).value == "v"
    assert again.folder(A).read_aside() == aside
    assert again.folder(B).read_spec().spec.args == ("ä", b"raw")
    assert not again.folder(B).is_claimed()


@pytest.mark.parametrize(
    ("boot", "running", "claimed"),
    [("one", "one", False), ("one", "two", True), ("", "", True)],
)
def test_job_that_may_have_started_before_a_boot_counts_as_started(
    tmp_path: Path, boot: str, running: str, claimed: bool
) -> None:
    store = JobStore(tmp_path, boot)
    store.add(JobSpec(A, "f"), begins=True)
    store.add(JobSpec(B, "f"))
    store.begin(B)
    again = JobStore(tmp_path, running)
    assert len(again.scan()[0]) == 2
    assert again.folder(A).is_claimed() == again.folder(B).is_claimed() == claimed


def test_complete_return_that_was_not_kept_counts(tmp_path: Path) -> None:
    store = JobStore(tmp_path, "boot")
    for jid in (A, B):
        store.add(JobSpec(jid, "f"), begins=True)
        store.folder(jid).finish(body(jid))
    torn = store.folder(B).return_path
    torn.write_bytes(torn.read_bytes()[:-1] + b"\0")
    again = JobStore(tmp_path, "another")
    again.scan()
    assert again.folder(A).read_return(1000).value == "v"
    assert not again.folder(B).has_return() and again.folder(B).is_claimed()


def test_large_return_is_kept_in_its_job_folder(tmp_path: Path) -> None:
    store = JobStore(tmp_path, "boot")
    store.add(JobSpec(A, "f"), begins=True)
    store.folder(A).finish(body(A, "x" * 2 * LOGGED_BYTES))
    store.keep_return(store.folder(A))
    assert (tmp_path / "jobs.log").stat().st_size < LOGGED_BYTES
    again = JobStore(tmp_path, "another")
    again.scan()
    assert len(again.folder(A).read_return(10**6).value) == 2 * LOGGED_BYTES


def test_job_id_can_not_leave_the_folder(tmp_path: Path) -> None:
    with pytest.raises(BadNameError):
        JobStore(tmp_path).folder("../x")


def test_too_large_or_damaged_outcomes_are_errors_not_crashes(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    store.add(JobSpec(A, "f"))
    folder = store.folder(A)
    (folder.path / "process").write_text("{")
    with pytest.raises(CatenaError):
        folder.claimed_by()
    (folder.path / "return").write_bytes(b"\xc1\0")
    (folder.path / "aside").write_text("[]")
    with pytest.raises(JobFolderError):
        folder.read_return(1000)
    assert folder.read_aside() == ReturnExtras()


@pytest.mark.parametrize(
    "writer", ["catena.minion.jobs.log.append", "catena.minion.jobs.folder.write_all"]
)
def test_order_that_cannot_be_stored_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    def full(handle: int, data: bytes) -> None:
        os.write(handle, data[:9])
        raise OSError(28, "No space left on device")

    store = JobStore(tmp_path)
    store.add(JobSpec(A, "f"))
    with monkeypatch.context() as patch:
        patch.setattr(writer, full)
        with pytest.raises(OSError, match="space"):
            store.add(JobSpec(B, "f"))
    store.add(JobSpec(C, "f"))
    assert [stored.spec.jid for stored in JobStore(tmp_path).scan()[0]] == [A, C]
    assert len(list((tmp_path / "jobs").iterdir())) == 2


def test_dispatched_job_is_only_in_the_log_until_its_folder_is_needed(tmp_path: Path) -> None:
    store = JobStore(tmp_path, "boot")
    claim = Claim(ProcessRef(5, 7, "boot"), since=3.0)
    for jid in (A, B, C):
        store.add(JobSpec(jid, "f"), True, claim)
    assert store.knows(A) and store.is_given(A) and not store.folder(A).path.exists()
    assert store.spec(A) == JobSpec(A, "f") and store.claimed_by(A) == claim
    store.keep_given(B, body(B))
    assert store.has_return(B) and store.logged_return(B) == body(B)
    store.end(C, 9)
    assert not store.knows(C)
    # Killed here: the next agent of this boot has the others, and who works on them.
    again = JobStore(tmp_path, "boot")
    found, bad = again.scan()
    assert [stored.spec.jid for stored in found] == [A, B] and bad == []
    assert again.claimed_by(A) == claim and not again.folder(A).has_return()
    assert again.folder(B).read_return(10_000).value == "v" and again.logged_return(B) == body(B)


def test_stored_return_is_noted_in_the_log_without_further_jobs(tmp_path: Path) -> None:
    store = JobStore(tmp_path, "boot")
    store.add(JobSpec(A, "f"), True, Claim(ProcessRef(5, 7, "boot")))
    store.keep_given(A, body(A))
    store.end(A, 9)
    assert store.ended() == {A: 9} and store.scan() == ([], [])
    for moment in (100.0, 100.0 + NOTED_SECONDS / 2):
        store.tick(moment)
        assert JobStore(tmp_path, "boot").ended() == {}
    store.tick(100.0 + NOTED_SECONDS)
    assert JobStore(tmp_path, "boot").ended() == {A: 9}


def test_dispatched_job_of_another_boot_counts_as_claimed(tmp_path: Path) -> None:
    JobStore(tmp_path, "boot").add(JobSpec(A, "f"), True, Claim(ProcessRef(5, 7, "boot")))
    store = JobStore(tmp_path, "next")
    store.scan()
    assert store.claimed_by(A) == Claim(ProcessRef(0, 0, "boot"))


def test_dispatched_job_that_did_not_reach_its_worker_is_an_ordinary_job(tmp_path: Path) -> None:
    store = JobStore(tmp_path, "boot")
    store.add(JobSpec(A, "f"), True, Claim(ProcessRef(5, 7, "boot")))
    store.withdraw(A)
    assert not store.is_given(A) and store.folder(A).read_spec().spec == JobSpec(A, "f")
    again = JobStore(tmp_path, "boot")
    again.scan()
    assert again.claimed_by(A) is None


def test_closed_job_store_has_folders_for_all_dispatched_jobs(tmp_path: Path) -> None:
    store = JobStore(tmp_path, "boot")
    claim = Claim(ProcessRef(5, 7, "boot"))
    for jid in (A, B, C):
        store.add(JobSpec(jid, "f"), True, claim)
    store.keep_given(B, body(B))
    store.end(C, 9)
    store.leave()
    assert store.folder(A).claimed_by() == claim and store.folder(B).has_return()
    assert not store.folder(C).path.exists() and JobStore(tmp_path, "boot").ended() == {C: 9}


def test_dispatched_job_stays_known_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JobStore(tmp_path, "boot")
    claim = Claim(ProcessRef(5, 7, "boot"))
    for jid in (A, B):
        store.add(JobSpec(jid, "f"), True, claim)
    store.keep_given(B, body(B))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(JobFolder, "write", full)
    again = JobStore(tmp_path, "boot")
    assert [stored.spec.jid for stored in again.scan()[0]] == [A, B]
    assert again.claimed_by(A) == claim and again.spec(A) == JobSpec(A, "f")
    assert again.has_return(B) and again.aside(B) == ReturnExtras()
