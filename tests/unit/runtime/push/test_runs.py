"""A run's folder and its journal, without any process."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from catena.core.clock import ManualClock
from catena.core.context import FileEntry
from catena.core.files import write_durable
from catena.core.job import JobReturn
from catena.fileserver.remote import ContentStore
from catena.runtime.push import protocol as p
from catena.runtime.push import runs
from catena.runtime.push.files import PartMissingError, ShippedFiles
from catena.runtime.push.outcome import lost
from catena.runtime.push.runs import RunFolder, StepReader, StepWriter
from catena.runtime.push.values import dumps
from tests.support.pushed import JID, job

CLOCK = ManualClock(datetime(2026, 11, 21, tzinfo=UTC))


def folder(tmp_path: Path, what: p.PushedJob | None = None) -> RunFolder:
    part = tmp_path / "part"
    part.unlink(missing_ok=True)
    part.write_bytes(p.pack_job(what or job()))
    (tmp_path / "runs").mkdir(exist_ok=True)
    return runs.create(tmp_path / "runs", "run-00000001", part)


def result(value: Any) -> p.RunResult:
    return p.RunResult(JobReturn(JID, "test.ping", (), True, 0, value, 0.0, 0.0))


def test_only_the_first_outcome_is_kept(tmp_path: Path) -> None:
    run = folder(tmp_path)
    assert run.finish(result(1))
    assert not run.finish(result(2))
    assert p.unpack_result(run.result.read_bytes()).ret.value == 1


def test_second_start_finds_the_first(tmp_path: Path) -> None:
    first = folder(tmp_path, job("test.ping"))
    second = folder(tmp_path, job("test.echo", "x"))
    assert second.path == first.path
    assert second.read_job().spec.fun == "test.ping"
    assert [run.run_id for run in runs.every(tmp_path / "runs")] == ["run-00000001"]


def test_outcome_that_does_not_fit_is_shortened_rather_than_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = folder(tmp_path)
    calls: list[int] = []

    def full_once(path: Path, data: bytes) -> None:
        calls.append(len(data))
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_durable(path, data)

    monkeypatch.setattr("catena.runtime.push.runs.write_durable", full_once)
    assert run.finish(result("x" * 4_000_000))
    found = p.unpack_result(run.result.read_bytes()).ret
    assert found.truncated and len(found.value) < runs.RESERVE_BYTES
    assert not (run.path / "reserve").exists()


def test_journal_is_read_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "steps"
    writer, reader = StepWriter(path, CLOCK), StepReader(path)
    assert reader.after(0, 10) == []
    assert [writer.add("note", {"text": str(n)}) for n in range(5)] == [1, 2, 3, 4, 5]
    assert [step.seq for step in reader.after(0, 2)] == [1, 2]
    assert [step.seq for step in reader.after(2, 10)] == [3, 4, 5]
    assert [step.seq for step in reader.after(1, 1)] == [2]
    assert reader.after(5, 10) == []
    assert writer.add("ask", {"kind": "file"}, "number") == 6
    assert reader.after(5, 10)[0].data == {"kind": "file", "number": 6}


def test_torn_line_is_cut_off_by_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "steps"
    StepWriter(path, CLOCK).add("note", {"text": "whole"})
    path.write_bytes(path.read_bytes() + b"0123abcd {torn")
    assert len(StepReader(path).all()) == 1
    StepWriter(path, CLOCK).add("note", {"text": "next"})
    assert [step.data["text"] for step in StepReader(path).all()] == ["whole", "next"]


def test_two_writers_never_give_one_number(tmp_path: Path) -> None:
    path = tmp_path / "steps"
    first, second = StepWriter(path, CLOCK), StepWriter(path, CLOCK)
    numbers = [writer.add("note", {}) for _ in range(3) for writer in (first, second)]
    assert numbers == [1, 2, 3, 4, 5, 6]


def test_unfinished_states_are_reported_as_unknown(tmp_path: Path) -> None:
    run = folder(tmp_path)
    writer = StepWriter(run.steps, CLOCK)
    writer.add("begin", {"key": "test_|-a_|-a_|-nop", "id": "a", "sls": "x"})
    writer.add("state", {"key": "test_|-a_|-a_|-nop", "ret": {"result": True}})
    writer.add("begin", {"key": "cmd_|-b_|-reboot now_|-run", "id": "b", "sls": "x"})
    found = lost(run)
    rows = found.ret.value
    assert rows["test_|-a_|-a_|-nop"] == {"result": True}
    assert rows["cmd_|-b_|-reboot now_|-run"]["name"] == "reboot now"
    assert rows["cmd_|-b_|-reboot now_|-run"]["result"] is False
    assert (found.interrupted, found.ret.success, found.ret.jid) == (True, False, JID)


def test_temporary_names_of_dead_processes_are_swept(tmp_path: Path) -> None:
    for name in (f".new-run-1.{os.getpid()}", ".new-run-2.999999999", ".gone-run-3"):
        (tmp_path / name).mkdir()
    assert runs.sweep(tmp_path) == 2
    assert [path.name for path in tmp_path.iterdir()] == [f".new-run-1.{os.getpid()}"]


def test_transferred_files_belong_to_their_environment(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    store = ContentStore(tmp_path / "parts")
    data = tmp_path / "data"
    data.write_bytes(b"content")
    sha256 = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
    store.take(sha256, data)
    here = FileEntry("web/conf", sha256, 7, 0o644)
    gone = FileEntry("web/gone", "a" * 64, 7, 0o644)
    files = ShippedFiles([p.Tree("base", (here, gone), ("web",)), p.Tree("dev")], store)
    found = files.fetch("web/conf")
    assert found is not None and found.read_bytes() == b"content"
    assert found.name == "conf"
    assert files.fetch("web/conf", "dev") is None
    assert files.fetch("../etc/passwd") is None
    assert [entry.path for entry in files.entries(prefix="web")] == ["web/conf", "web/gone"]
    assert (files.folders(prefix="web"), files.environments()) == (["web"], ["base", "dev"])
    assert files.missing() == ["a" * 64]
    with pytest.raises(PartMissingError):
        files.fetch("web/gone")


def test_first_answer_of_the_master_counts(tmp_path: Path) -> None:
    run = folder(tmp_path)
    assert run.supplied(1) is None
    run.supply(1, dumps({"value": 1}))
    run.supply(1, dumps({"value": 2}))
    assert run.supplied(1) == dumps({"value": 1})
