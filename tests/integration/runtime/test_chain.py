from __future__ import annotations

import dataclasses
import errno
import fcntl
import os
import select
import signal
from pathlib import Path
from typing import Any, cast

import pytest

from catena.core.errors import InvalidStateError
from catena.core.job import ActionKind, Boundary
from catena.runtime import chain_run
from catena.runtime.host import AfterKind, BaseHost
from catena.runtime.journal import Journal
from catena.runtime.resume_file import ResumeFile

IDEMPOTENT, ONCE = ActionKind.idempotent, ActionKind.once
REBOOT, UPGRADE = ActionKind.reboot, ActionKind.agent_upgrade


def reported_actions(host: Any, event: str) -> list[tuple[int, str]]:
    return [
        (data["action_id"], str(data.get("outcome", "")))
        for kind, data in host.steps
        if kind == "action" and data["event"] == event
    ]


def reference(host: Any) -> None:
    """Script, reboot, highstate: the third example of the reference."""
    host.render([host.action(1, ONCE), host.action(2, REBOOT)], [host.action(3)])


def test_chain_of_one_chunk_runs_its_actions_in_order(host: Any) -> None:
    host.render([host.action(1, ONCE), host.action(2)])
    outcome = host.start()
    assert outcome.ret.success, outcome.ret.value
    assert host.actions_witnessed() == [1, 2]
    assert list(outcome.ret.value) == [
        "mgrcompat_|-mgr_actionchain_131_action_1_chunk_1_|-witness.mark_|-module_run",
        "mgrcompat_|-mgr_actionchain_131_action_2_chunk_1_|-witness.mark_|-module_run",
    ]
    assert outcome.after is None
    assert host.chain_state() == "done"


def test_begin_and_end_of_each_action_are_reported(host: Any) -> None:
    reference(host)
    host.start()
    assert reported_actions(host, "begin") == [(1, ""), (2, "")]
    assert reported_actions(host, "end") == [(1, "done"), (2, "armed")]


def test_reboot_follows_the_chunk_and_the_next_chunk_waits_for_it(
    host: Any,
) -> None:
    reference(host)
    outcome = host.start()
    assert outcome.ret.success, outcome.ret.value
    assert outcome.after is not None
    assert outcome.after.kind is AfterKind.reboot
    assert outcome.after.command == ("/bin/true",)
    assert outcome.after.delay_seconds == 60
    assert host.actions_witnessed() == [1]
    assert host.chain_state() == "waiting"
    assert host.resume().ret.value["not_resumed"].startswith("chain 131 waits for a reboot")
    assert host.actions_witnessed() == [1]


def test_next_chunk_runs_after_a_boot_and_the_resume_file_is_removed(host: Any) -> None:
    reference(host)
    host.start()
    pending = host.call("mgractionchains.get_pending_resume").ret.value
    assert pending["next_chunk"].endswith("_2")
    assert (pending["actionchain_id"], pending["next_action_id"]) == (131, 3)
    host.reboot()
    outcome = host.resume()
    assert outcome.ret.success
    assert list(outcome.ret.value) == [
        "mgrcompat_|-mgr_actionchain_131_action_3_chunk_2_|-witness.mark_|-module_run"
    ]
    assert host.witnessed() == ["1 boot-1", "3 boot-2"]
    assert (2, "done") in reported_actions(host, "end")
    assert host.chain_state() == "done"
    assert list((host.folder / "conf/minion.d").iterdir()) == []


def test_second_start_event_resumes_nothing(host: Any) -> None:
    reference(host)
    host.start()
    host.reboot()
    host.resume()
    assert host.resume().ret.value == {}
    assert host.actions_witnessed() == [1, 3]


def test_resume_without_a_resume_file_does_nothing(host: Any) -> None:
    assert host.resume().ret.value == {}
    assert host.call("mgractionchains.get_pending_resume").ret.value == {}


def test_second_start_of_a_chain_returns_the_recorded_results(host: Any) -> None:
    reference(host)
    first = host.start()
    again = host.start()
    assert again.ret.value == first.ret.value
    assert host.actions_witnessed() == [1]


def test_failed_action_fails_the_chain_and_prevents_the_armed_reboot(host: Any) -> None:
    host.render([host.action(1, ONCE, True), host.action(2, REBOOT)], [host.action(3)])
    outcome = host.start()
    assert (outcome.ret.success, outcome.ret.retcode) == (False, 2)
    assert outcome.after is None
    assert host.chain_state() == "failed"
    host.reboot()
    assert host.resume().ret.value == {}
    assert host.actions_witnessed() == [1]


def test_reboot_is_cancelled_and_shown_as_failed_when_its_chunk_fails_later(host: Any) -> None:
    reference(host)
    folder = host.folder / "conf/minion.d"
    folder.mkdir()
    (folder / "_mgractionchains.conf").mkdir()  # the resume file can't be written
    outcome = host.start()
    assert outcome.ret.retcode != 0
    assert outcome.after is None


def test_cancelled_reboot_names_the_failed_action_and_the_reason(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "_mgractionchains.conf")

    monkeypatch.setattr(ResumeFile, "write", write)
    reference(host)
    outcome = host.start()
    assert outcome.after is None
    comments = [row["comment"] for row in outcome.ret.value.values()]
    (called_off,) = [text for text in comments if "called off" in text]
    assert "schedule_next_chunk failed: " in called_off and "Read-only file system" in called_off


def test_final_reboot_closes_the_chain_when_it_has_happened(
    host: Any,
) -> None:
    host.render([host.action(1), host.action(2, REBOOT)])
    outcome = host.start()
    assert outcome.after is not None
    assert outcome.after.kind is AfterKind.reboot
    assert chain_run.open_chain(host.place) is not None
    host.reboot()
    assert chain_run.open_chain(host.place) is None
    assert host.resume().ret.value == {}
    assert host.chain_state() == "done"


def test_two_reboots_make_three_chunks(host: Any) -> None:
    a = host.action
    host.render([a(1), a(2, REBOOT)], [a(3, ONCE), a(4, REBOOT)], [a(5)])
    host.do(host.start().after)
    host.do(host.resume().after)
    assert host.resume().ret.success
    assert host.witnessed() == ["1 boot-1", "3 boot-2", "5 boot-3"]
    assert host.chain_state() == "done"


def test_agent_upgrade_continues_only_in_the_new_agent(host: Any) -> None:
    host.render([host.action(1), host.action(2, UPGRADE)], [host.action(3)])
    outcome = host.start()
    assert outcome.after is not None
    assert outcome.after.kind is AfterKind.restart_agent
    assert "old one" in host.resume().ret.value["not_resumed"]
    host.restart_agent()
    assert host.resume().ret.success
    assert host.actions_witnessed() == [1, 2, 3]


def test_chain_with_a_chunk_behind_no_boundary_is_refused_before_its_first_action(
    host: Any,
) -> None:
    host.render([host.action(1), host.action(2, REBOOT)], [host.action(3)])
    first, second = host.manifest.chunks
    first = dataclasses.replace(first, boundary=Boundary.none)
    host.manifest = dataclasses.replace(host.manifest, chunks=(first, second))
    outcome = host.start()
    assert "chunk 1 ends without a boundary" in outcome.ret.value
    assert (outcome.after, host.actions_witnessed()) == (None, [])


def test_resume_file_is_not_written_for_a_chunk_without_a_boundary_before_it(host: Any) -> None:
    host.render([host.action(1)])
    host.start()
    assert "no chunk 0" in host.call("mgractionchains.next", 131, 1).ret.value
    assert "no chunk 2" in host.call("mgractionchains.next", 131, 2).ret.value
    assert host.call("mgractionchains.get_pending_resume").ret.value == {}


def test_unknown_boundary_is_refused_instead_of_being_taken_for_a_reboot(host: Any) -> None:
    reference(host)
    host.start()
    bare = BaseHost(host.place, cast(Any, None))
    chain = chain_run.ChainHost(bare).store.look(131)
    assert chain is not None
    after = chain_run._boundary_after(chain, bare)
    assert after is not None and after.kind is AfterKind.reboot
    first, second = chain.manifest.chunks
    first = dataclasses.replace(first, boundary=cast(Any, "kernel"))
    chain.manifest = dataclasses.replace(chain.manifest, chunks=(first, second))
    with pytest.raises(InvalidStateError, match="no task for the boundary 'kernel' of chunk 1"):
        chain_run._boundary_after(chain, bare)


def test_new_agent_that_does_not_start_fails_the_upgrade(host: Any) -> None:
    host.render([host.action(1), host.action(2, UPGRADE)], [host.action(3)])
    host.start()
    assert chain_run.refuse_boundary(host.place, "Version 2 did not start; back on version 1.")
    host.restart_agent()
    outcome = host.resume()
    (row,) = outcome.ret.value.values()
    assert row["result"] is False
    assert row["comment"] == "Version 2 did not start; back on version 1."
    assert row["__id__"] == "mgr_actionchain_131_action_2_chunk_1"
    assert host.chain_state() == "failed"
    assert host.actions_witnessed() == [1, 2]


def test_second_chain_is_refused_with_the_command_that_clears_the_first(host: Any) -> None:
    reference(host)
    host.start()
    outcome = host.call("mgractionchains.start", 7)
    assert "chain 131 waits" in outcome.ret.value
    assert "mgractionchains.clean" in outcome.ret.value


def test_clean_removes_the_waiting_chain(host: Any) -> None:
    reference(host)
    host.start()
    assert host.call("mgractionchains.clean").ret.value["removed"] is True
    assert host.chain_state() == "cancelled"
    host.reboot()
    assert host.resume().ret.value == {}
    assert host.call("mgractionchains.clean").ret.value["removed"] is False


def test_clean_cancels_the_reboot_requested_by_the_chain(host: Any) -> None:
    reference(host)
    host.start()
    after = host.call("mgractionchains.clean").after
    assert (after.kind, after.chain_id) == (AfterKind.call_off, 131)
    assert host.call("mgractionchains.clean").after is None


@pytest.mark.parametrize("goes_on", ["start", "resume", "clean", "agent"])
def test_files_of_an_interrupted_chain_receipt_are_removed_by_the_next_call(
    host: Any, goes_on: str
) -> None:
    host.render([host.action(1), host.action(2, REBOOT)], [host.action(3)])
    host.start()
    left = host.place.cache_dir / "chains" / ".new-7"
    left.mkdir()
    (left / "actionchain_7_m_1.sls").touch()
    if goes_on == "agent":
        chain_run.pending_after(host.place)
    else:
        host.call(f"mgractionchains.{goes_on}", *([1] if goes_on == "start" else []))
    assert not left.exists()


def test_clean_of_another_chain_keeps_the_waiting_one(host: Any) -> None:
    reference(host)
    host.start()
    assert host.call("mgractionchains.clean", 7).ret.value["removed"] is False
    assert host.chain_state() == "waiting"


def test_changed_chunk_is_refused_before_the_first_action(host: Any) -> None:
    reference(host)
    path = next((host.folder / "roots/actionchains").glob("*_2.sls"))
    path.write_text(path.read_text() + "# changed\n")
    outcome = host.start()
    assert "is not chunk 2 as the chain has it" in outcome.ret.value
    assert host.actions_witnessed() == []


def test_missing_chunk_is_refused_before_the_first_action(host: Any) -> None:
    reference(host)
    next((host.folder / "roots/actionchains").glob("*_2.sls")).unlink()
    assert "is not on the file server" in host.start().ret.value
    assert host.actions_witnessed() == []


def test_second_chunk_is_the_received_one_even_if_the_master_changed_it(
    host: Any,
) -> None:
    reference(host)
    host.start()
    for path in (host.folder / "roots/actionchains").iterdir():
        path.unlink()
    host.reboot()
    assert host.resume().ret.success
    assert host.actions_witnessed() == [1, 3]


def test_order_of_an_older_epoch_is_refused(host: Any) -> None:
    reference(host)
    host.start()
    host.manifest = dataclasses.replace(host.manifest, epoch=0)
    assert "epoch 0" in host.start().ret.value


def test_newer_epoch_runs_the_chain_again(host: Any) -> None:
    host.render([host.action(1, ONCE, True), host.action(2)])
    host.start()
    host.render([host.action(1, ONCE), host.action(2)], epoch=2)
    assert host.start().ret.success
    assert host.actions_witnessed() == [1, 1, 2]


def test_other_chunks_under_the_same_epoch_are_refused(host: Any) -> None:
    reference(host)
    host.start()
    host.render([host.action(9)])
    assert "with other chunks" in host.start().ret.value


def test_chain_number_can_be_reused_by_a_new_master(host: Any) -> None:
    host.render([host.action(1, ONCE)])
    assert host.start().ret.success
    host.render([host.action(5, ONCE)])
    assert host.start().ret.success
    assert host.actions_witnessed() == [1, 5]


def test_cancelled_job_begins_no_further_action_and_ends_the_chain(host: Any) -> None:
    host.render([host.action(1), host.action(2), host.action(3, REBOOT)], [host.action(4)])
    host.cancelled = lambda: host.actions_witnessed() == [1]
    outcome = host.start()
    assert outcome.after is None
    assert host.actions_witnessed() == [1]
    assert host.chain_state() == "cancelled"
    host.cancelled = lambda: False
    host.reboot()
    assert host.resume().ret.value == {}


def fail_to_begin(monkeypatch: pytest.MonkeyPatch, fault: OSError) -> None:
    """Let the journal raise *fault* where the second action of a chain begins."""
    real = Journal.append

    def append(journal: Journal, record: dict[str, Any], use_reserve: bool = False) -> Any:
        if record["kind"] == "begin" and record["action"] == 2:
            raise fault
        return real(journal, record, use_reserve)

    monkeypatch.setattr(Journal, "append", append)


def test_action_that_cannot_be_recorded_does_not_begin(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_to_begin(monkeypatch, OSError(errno.EIO, "Input/output error"))
    host.render([host.action(1), host.action(2), host.action(3)])
    outcome = host.start()
    assert outcome.ret.retcode == 2
    assert host.actions_witnessed() == [1]
    comments = [row["comment"] for row in outcome.ret.value.values()]
    assert "Input/output error" in comments[1]
    assert host.chain_state() == "failed"


def test_chain_waits_for_disk_space_before_its_next_action(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.render([host.action(1), host.action(2), host.action(3)])
    with monkeypatch.context() as patch:
        fail_to_begin(patch, OSError(errno.ENOSPC, "No space left on device"))
        assert "No space left on device" in host.start().ret.value
    assert host.actions_witnessed() == [1]
    assert host.chain_state() == "running"
    assert host.start().ret.success
    assert host.actions_witnessed() == [1, 2, 3]


def test_running_chain_cannot_be_cleaned_by_another_process(host: Any) -> None:
    reference(host)
    host.start()
    handle = os.open(host.folder / "cache/chains/.lock", os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert "a chain is running" in host.call("mgractionchains.clean").ret.value
        assert chain_run.pending_after(host.place) is None
    finally:
        os.close(handle)
    assert host.chain_state() == "waiting"


def test_chain_for_another_machine_is_refused(host: Any) -> None:
    reference(host)
    host.manifest = dataclasses.replace(host.manifest, machine_id="other")
    assert "was rendered for machine 'other'" in host.start().ret.value


def test_chain_without_a_manifest_is_derived_from_its_chunk_files(host: Any) -> None:
    reference(host)
    host.manifest = None
    host.do(host.start().after)
    assert host.resume().ret.success
    assert host.witnessed() == ["1 boot-1", "3 boot-2"]


def test_foreign_resume_file_is_refused_with_the_clearing_command(host: Any) -> None:
    folder = host.folder / "conf/minion.d"
    folder.mkdir()
    (folder / "_mgractionchains.conf").write_text("next_chunk: evil\nactionchain_id: 1\n")
    outcome = host.resume()
    assert outcome.ret.retcode == 1
    assert "signature" in outcome.ret.value
    assert "mgractionchains.clean" in outcome.ret.value
    assert host.call("mgractionchains.clean").ret.value["removed"] is True


def test_chain_continues_from_resume_file_and_file_server_when_its_folder_was_lost(
    host: Any,
) -> None:
    import shutil

    reference(host)
    host.start()
    shutil.rmtree(host.folder / "cache/chains")
    host.reboot()
    assert host.resume().ret.success
    assert host.actions_witnessed() == [1, 3]


def test_pending_reboot_is_requested_again_a_limited_number_of_times(host: Any) -> None:
    reference(host)
    host.start()
    for _ in range(chain_run.ISSUES - 1):
        again = chain_run.pending_after(host.place)
        assert again is not None
        assert again.kind is AfterKind.reboot
    assert chain_run.pending_after(host.place) is None


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "full"), InvalidStateError("no tool")])
def test_agent_starts_when_a_pending_reboot_cannot_be_requested_again(
    host: Any, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference(host)
    host.start()

    def fail(*_: Any) -> None:
        raise fault

    with monkeypatch.context() as patch:
        if isinstance(fault, OSError):
            patch.setattr(Journal, "append", fail)
        else:
            patch.setattr(BaseHost, "reboot_command", fail)
        assert chain_run.pending_after(host.place) is None
    assert chain_run.pending_after(host.place) is not None


def test_completed_reboot_is_not_requested_again(host: Any) -> None:
    reference(host)
    host.start()
    host.reboot()
    assert chain_run.pending_after(host.place) is None


def test_agent_can_ask_for_open_jobs(host: Any) -> None:
    assert chain_run.open_chain(host.place) is None
    assert chain_run.pending_resume(host.place) == {}
    reference(host)
    host.start()
    found = chain_run.open_chain(host.place)
    assert found == chain_run.OpenChain(131, 1, "waiting", 1)
    assert chain_run.pending_resume(host.place)["running"] is False


def test_chunk_that_cannot_be_compiled_fails_the_chain(host: Any) -> None:
    import hashlib

    manifest = host.render([host.action(1)])
    path = next((host.folder / "roots/actionchains").glob("*_1.sls"))
    data = b"a: {b: [\n"
    path.write_bytes(data)
    chunk = dataclasses.replace(
        manifest.chunks[0], sha256=hashlib.sha256(data).hexdigest(), size=len(data)
    )
    host.manifest = dataclasses.replace(manifest, chunks=(chunk,))
    outcome = host.start()
    assert outcome.ret.retcode == 1
    assert host.chain_state() == "failed"


def test_files_of_a_chain_on_its_host_are_private(host: Any) -> None:
    reference(host)
    host.start()
    paths: list[Path] = [host.folder / "cache/chains", *(host.folder / "cache/chains").rglob("*")]
    paths.append(host.folder / "conf/minion.d/_mgractionchains.conf")
    paths.append(host.folder / "pki/resume.key")
    assert {path.name for path in paths if path.stat().st_mode & 0o077} == set()


def test_damaged_journal_fails_only_its_chain_and_is_removed_by_clean(host: Any) -> None:
    reference(host)
    host.start()
    journal = host.folder / "cache/chains/131/journal"
    data = bytearray(journal.read_bytes())
    data[20] ^= 1
    journal.write_bytes(data)
    assert chain_run.open_chain(host.place) is None
    host.reboot()
    assert "journal" in host.resume().ret.value
    assert host.call("mgractionchains.clean").ret.value["removed"] is True
    assert host.start().ret.success


def test_agent_starts_beside_a_foreign_resume_file(host: Any) -> None:
    folder = host.folder / "conf/minion.d"
    folder.mkdir()
    (folder / "_mgractionchains.conf").write_text("nothing of ours\n")
    assert "signature" in chain_run.pending_resume(host.place)["error"]


@pytest.mark.parametrize(
    ("kind", "witnessed", "state"),
    [(IDEMPOTENT, [1, 1, 2], "done"), (ONCE, [1], "interrupted")],
)
def test_killed_chain_ends_its_parallel_actions_and_continues_by_their_kind(
    host: Any, kind: ActionKind, witnessed: list[int], state: str
) -> None:
    host.render([host.action(1, kind, parallel=True), host.action(2)])
    with host.held() as waiting:
        pid = os.fork()
        if pid == 0:
            try:
                host.start()
            finally:
                os._exit(1)
        gate = waiting()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    ended = select.poll()
    ended.register(gate, 0)
    # As long as the action runs, it could do what a second attempt does at the same time.
    assert ended.poll(60_000)
    os.close(gate)
    host.restart_agent()
    host.start()
    assert host.actions_witnessed() == witnessed
    assert host.chain_state() == state


def test_cancelled_chain_ends_its_parallel_actions_and_records_them(host: Any) -> None:
    host.render([host.action(1, parallel=True), host.action(2)])
    host.cancelled = lambda: host.actions_witnessed() == [1]
    with host.held():
        outcome = host.start()
    assert host.actions_witnessed() == [1]
    (row,) = outcome.ret.value.values()
    assert row["result"] is False and "the run was cancelled" in row["comment"]
    assert host.chain_state() == "cancelled"
