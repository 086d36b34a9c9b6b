from __future__ import annotations

from pathlib import Path

import pytest

from catena.core.errors import CatenaError
from catena.core.ids import BadNameError
from catena.core.job import JobReturn, JobSpec
from catena.minion.jobs import Aside, Claim, JobFolderError, JobStore
from catena.minion.processes import ProcessRef
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
    assert again.add(JobSpec(B, "f")).received == 3


def test_a_job_is_claimed_once(tmp_path: Path) -> None:
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


def test_the_first_outcome_counts(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    store.add(JobSpec(A, "f"))
    folder = store.folder(A)
    aside = Aside({"kind": "reboot"}, 7, {"next_chunk": "x"})
    assert folder.finish(body(A), aside)
    assert not folder.finish(body(A, "late"))
    assert folder.read_return(1000).value == "v"
    assert folder.read_aside() == aside
    folder.remove()
    assert not folder.path.exists()


def test_a_removal_that_a_cut_stopped_is_ended_at_the_next_start_and_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JobStore(tmp_path)
    store.add(JobSpec(A, "f"))
    (store.folder(A).path / "output").touch()
    real = Path.unlink

    def cut(path: Path, missing_ok: bool = False) -> None:
        real(path, missing_ok)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", cut)
        with pytest.raises(KeyboardInterrupt):
            store.folder(A).remove()
    assert JobStore(tmp_path).scan() == ([], [])
    assert list((tmp_path / "jobs").iterdir()) == []


def test_damaged_folders_are_put_aside_by_name_and_unconfirmed_ones_go(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    store.add(JobSpec(A, "f"))
    store.add(JobSpec(B, "f"))
    spec = store.folder(A).path / "spec"
    spec.write_bytes(spec.read_bytes()[:-3])
    (tmp_path / "jobs" / C).mkdir()
    found, bad = JobStore(tmp_path).scan()
    assert [stored.spec.jid for stored in found] == [B] and bad == [A]
    names = sorted(path.name for path in (tmp_path / "jobs").iterdir())
    assert names == [B, f"bad-{A}"]
    assert JobStore(tmp_path).scan()[1] == []


def test_an_order_in_a_wrong_folder_is_not_run(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    store.add(JobSpec(A, "f"))
    store.folder(A).path.rename(tmp_path / "jobs" / B)
    assert JobStore(tmp_path).scan() == ([], [B])


def test_a_job_id_can_not_leave_the_folder(tmp_path: Path) -> None:
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
    assert folder.read_aside() == Aside()


def test_an_order_that_can_not_be_kept_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    store = JobStore(tmp_path)
    monkeypatch.setattr("catena.minion.jobs.write_durable", full)
    with pytest.raises(OSError, match="space"):
        store.add(JobSpec(A, "f"))
    assert list((tmp_path / "jobs").iterdir()) == []
