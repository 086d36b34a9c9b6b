from __future__ import annotations

import errno
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from catena.core.clock import ManualClock
from catena.core.config.minion import MinionSettings
from catena.core.job import JobSpec
from catena.minion.jobs.folder import Aside, JobFolder
from catena.minion.jobs.job_processes import JobProcesses
from catena.minion.jobs.runner import LOOK_SECONDS, JobRunner
from catena.minion.jobs.store import JobStore
from catena.minion.log import Log
from catena.minion.loop import Loop
from catena.minion.start.blob import Start

JID = "20260101000000000001"


class Told:
    """A listener that keeps the jids of what is done."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def on_done(self, jid: str, aside: Aside) -> None:
        self.done.append(jid)

    def on_position(self, jid: str, position: int) -> None:
        """Nothing waits here."""

    def on_runs(self, jid: str) -> bool:
        return True


def test_a_full_disk_keeps_neither_the_agent_from_starting_nor_a_return_from_coming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = MinionSettings(cache_dir=str(tmp_path / "c"), log_file="-")
    start = Start(settings, "m1", "mach1", str(tmp_path))
    JobStore(start.cache_dir).add(JobSpec(JID, "state.apply"))
    folder = JobFolder(start.cache_dir / "jobs" / JID)
    (folder.path / "process").touch()  # claimed by a process that a power cut ended
    clock, told = ManualClock(datetime(2026, 1, 1, tzinfo=UTC)), Told()
    log = Log.open(str(tmp_path / "log"), "info", clock)
    runner = JobRunner(partial(JobProcesses, Loop()), lambda: start, clock, log, told)

    def full(*_: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(JobFolder, "finish", full)
        runner.recover()
        runner.tick(LOOK_SECONDS)
    assert told.done == [] and runner.queue.running() == [] and runner.next_due() is not None
    runner.tick(3 * LOOK_SECONDS)
    assert told.done == [JID] and runner.next_due() is None
    assert str(folder.read_return(10_000).value).startswith("interrupted")
