from __future__ import annotations

import errno
import os
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from catena.core.clock import ManualClock
from catena.core.config.minion import MinionSettings
from catena.core.job import ChainManifest, JobReturn, JobSpec, Payload
from catena.core.payloads import of_chain
from catena.minion.jobs.decide import PROCESSES
from catena.minion.jobs.folder import Claim, JobFolder, JobFolderError, ReturnExtras
from catena.minion.jobs.job_processes import JobProcesses
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.queue import Work
from catena.minion.jobs.runner import JobRunner
from catena.minion.jobs.store import JobStore
from catena.minion.jobs.supervisor import DIED_AGAIN, LOOK_SECONDS, NOT_BEGUN
from catena.minion.log import Log
from catena.minion.loop import Loop
from catena.minion.start.blob import StartData
from catena.runtime.damage import known
from catena.transport import wire
from catena.transport.messages import JobReturned

JID = "20260101000000000001"


class Told:
    """A listener that keeps the jids of what is done."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.put_off: list[tuple[str, str]] = []

    def on_done(self, jid: str, aside: ReturnExtras) -> None:
        self.done.append(jid)

    def on_position(self, jid: str, position: int) -> None:
        """Nothing waits here."""

    def on_runs(self, jid: str) -> bool:
        return True

    def on_postponed(self, jid: str, why: str) -> None:
        self.put_off.append((jid, why))


def test_agent_starts_and_sends_a_return_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = MinionSettings(cache_dir=str(tmp_path / "c"), log_file="-")
    start = StartData(settings, "m1", "mach1", str(tmp_path))
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


class Learning(Told):
    """A listener that learns from each return that a chain waits on this host, as the agent."""

    def __init__(self) -> None:
        super().__init__()
        self.runner: JobRunner | None = None

    def on_done(self, jid: str, aside: ReturnExtras) -> None:
        super().on_done(jid, aside)
        assert self.runner is not None
        if aside.open_chain:
            self.runner.held_by = Work("chain", aside.open_chain)


def returned(runner: JobRunner, jid: str, chain: int = 0) -> None:
    """Let the process of a job leave its return, which reports a waiting chain, in its folder."""
    body = wire.pack_body(JobReturned(JobReturn(jid, "", (), True, 0, {}, 0.0, 0.0)))
    runner.store.folder(jid).finish(body, ReturnExtras(open_chain=chain))


SECOND, THIRD, FOURTH = (f"{JID[:-1]}{number}" for number in (2, 3, 4))


def four_jobs(folder: Path) -> tuple[JobRunner, Forks, Learning]:
    """Return a runner with two starts of chains, a ping and a state run; the first one runs."""
    start = StartData(MinionSettings(cache_dir=str(folder / "c")), "m1", "mach1", str(folder))
    clock, told, made = ManualClock(datetime(2026, 1, 1, tzinfo=UTC)), Learning(), Forks()
    log = Log.open(str(folder / "log"), "info", clock)
    runner = told.runner = JobRunner(lambda *_: made, lambda: start, clock, log, told)
    for jid, fun, args in (
        (JID, "mgractionchains.start", (7,)),
        (SECOND, "mgractionchains.start", (8,)),
        (THIRD, "test.ping", ()),
        (FOURTH, "state.apply", ()),
    ):
        assert runner.order(JobSpec(jid, fun, args)) == ""
    runner.start_next()
    assert made.jids == [JID, THIRD]
    return runner, made, told


def test_next_chain_waits_for_what_a_return_reports_that_a_full_disk_delays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, made, told = four_jobs(tmp_path)
    returned(runner, JID, chain=7)
    returned(runner, THIRD)
    with monkeypatch.context() as patch:
        patch.setattr(JobStore, "keep_return", full)
        runner.finished(JID)
        runner.finished(THIRD)
        runner.tick(2 * LOOK_SECONDS)
        # A state run, perhaps one that clears the disk, waits for no chain.
        assert told.done == [] and made.jids == [JID, THIRD, FOURTH]
        returned(runner, FOURTH)
        runner.finished(FOURTH)
        assert runner.queue.waiting() == [SECOND]
        assert runner.behind(SECOND) == "chain 7 continues first"
    runner.tick(4 * LOOK_SECONDS)
    assert {JID, THIRD} <= set(told.done)
    # Chain 7 waits for its reboot, so chain 8 does not begin.
    assert SECOND not in made.jids and runner.queue.waiting() == [SECOND]


def test_next_chain_begins_when_the_late_return_reports_no_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, made, _ = four_jobs(tmp_path)
    returned(runner, JID)
    with monkeypatch.context() as patch:
        patch.setattr(JobStore, "keep_return", full)
        runner.finished(JID)
        assert made.jids == [JID, THIRD, FOURTH]
        returned(runner, FOURTH)
        runner.finished(FOURTH)
        assert SECOND not in made.jids
    runner.tick(2 * LOOK_SECONDS)
    assert made.jids == [JID, THIRD, FOURTH, SECOND]


@pytest.mark.parametrize("damage", [b"torn", None])
def test_return_that_is_damaged_or_gone_holds_back_no_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes | None
) -> None:
    runner, made, _ = four_jobs(tmp_path)
    returned(runner, JID, chain=7)

    def unreadable(*_: object) -> None:
        if damage is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        raise JobFolderError("the return is damaged")

    monkeypatch.setattr(JobStore, "keep_return", unreadable)
    runner.finished(JID)
    returned(runner, FOURTH)
    runner.finished(FOURTH)
    assert SECOND in made.jids


@pytest.mark.parametrize("damage", ["flipped", "empty", "a folder", "a link to nothing"])
def test_damaged_return_ends_its_job_with_a_reason(tmp_path: Path, damage: str) -> None:
    runner, _, told = four_jobs(tmp_path)
    folder = runner.store.folder(THIRD)
    folder.claim(Claim(ProcessRef(7, 7, "another boot")))
    returned(runner, THIRD)
    spoil(folder.return_path, damage)
    runner.finished(THIRD)
    assert told.done == [THIRD]
    ret = folder.read_return(10_000)
    assert not ret.success and str(ret.value).startswith("interrupted")
    (found,) = known(tmp_path / "c")
    assert found.path == str(folder.return_path) and found.lost == "what the job returned"


def test_resumable_job_with_a_damaged_return_continues_from_its_journal(tmp_path: Path) -> None:
    runner, made, told = four_jobs(tmp_path)
    folder = runner.store.folder(JID)
    folder.claim(Claim(ProcessRef(7, 7, "another boot")))
    returned(runner, JID)
    spoil(folder.return_path, "flipped")
    runner.finished(JID)
    assert told.done == [] and made.jids == [JID, THIRD, JID]


def test_return_that_is_damaged_while_the_disk_is_full_is_replaced_by_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, _, told = four_jobs(tmp_path)
    returned(runner, THIRD)
    with monkeypatch.context() as patch:
        patch.setattr(JobStore, "keep_return", full)
        runner.finished(THIRD)
    folder = runner.store.folder(THIRD)
    spoil(folder.return_path, "flipped")
    for number in (2, 4, 6):
        runner.tick(number * LOOK_SECONDS)
    assert told.done == [THIRD]
    assert "its return was lost on this minion" in str(folder.read_return(10_000).value)


def spoil(path: Path, damage: str) -> None:
    data = path.read_bytes()
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    elif damage == "a link to nothing":
        path.symlink_to("nowhere")
    else:
        path.write_bytes(b"" if damage == "empty" else data[:-1] + bytes([data[-1] ^ 1]))


def test_return_that_the_master_has_already_holds_back_no_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, made, told = four_jobs(tmp_path)
    runner.queue.drop(FOURTH)
    returned(runner, JID, chain=7)
    monkeypatch.setattr(JobStore, "keep_return", full)
    runner.finished(JID)
    assert SECOND not in made.jids and told.done == []
    # An earlier agent process had sent it.
    runner.stored(JID)
    assert SECOND in made.jids


class Forks:
    """Processes that do nothing but to be counted."""

    def __init__(self) -> None:
        self.jids: list[str] = []

    def fork(self, jid: str, *_: object) -> None:
        self.jids.append(jid)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("fun", "begun", "forks", "done"),
    [
        ("cmd.run", False, [JID], []),
        ("state.apply", False, [JID], []),
        ("cmd.run", True, [], [JID]),
        ("mgractionchains.start", False, [JID], []),
        ("mgractionchains.start", True, [JID], []),
    ],
)
def test_agent_starts_on_a_full_disk_and_a_job_with_a_lost_folder_waits_for_space(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fun: str,
    begun: bool,
    forks: list[str],
    done: list[str],
) -> None:
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("next\n")
    settings = MinionSettings(
        cache_dir=str(tmp_path / "c"), log_file="-", boot_id_file=str(boot_id)
    )
    start = StartData(settings, "m1", "mach1", str(tmp_path))
    JobStore(start.cache_dir, "boot").add(JobSpec(JID, fun), begun)
    rmtree(start.cache_dir / "jobs" / JID)  # what a power cut does
    clock, told, made = ManualClock(datetime(2026, 1, 1, tzinfo=UTC)), Told(), Forks()
    log = Log.open(str(tmp_path / "log"), "info", clock)
    runner = JobRunner(lambda *_: made, lambda: start, clock, log, told)
    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", full)
        runner.recover()
        assert runner.open_jobs() == [JID] and runner.store.knows(JID)
        for moment in range(1, 4):
            runner.tick(moment * 2 * LOOK_SECONDS)
        assert made.jids == [] and told.done == done
        assert (tmp_path / "log").read_text().count("the disk is full") == (not done)
        assert told.put_off == ([] if done else [(JID, "the disk is full")])
    runner.tick(10 * LOOK_SECONDS)
    assert made.jids == forks and told.done == done
    if forks:
        assert runner.store.spec(JID) == JobSpec(JID, fun) and runner.queue.running() == [JID]
        # A claim that was given up counts: a chain is not begun for ever.
        assert runner.store.folder(JID).attempts() == begun


def waiting(runner: JobRunner, seconds: float, wall: float) -> None:
    """Order a chain that has to wait behind another one, *seconds* at most."""
    runner.held_by = Work("chain", 7)
    spec = JobSpec(JID, "mgractionchains.start", (8,), not_after=wall + seconds)
    assert runner.order(spec) == ""
    runner.start_next()
    assert runner.queue.waiting() == [JID]


@pytest.mark.parametrize(
    ("passed", "set_by", "boot", "forks"),
    [
        (60.0, 0.0, "boot", [JID]),
        # A clock that is set ages nobody, and makes nobody younger.
        (60.0, 86_400.0, "boot", [JID]),
        (3700.0, -86_400.0, "boot", []),
        # Of another boot there is the wall clock alone.
        (60.0, 86_400.0, "next", []),
        (60.0, 0.0, "next", [JID]),
    ],
)
def test_age_of_a_waiting_job_continues_across_agent_restarts(
    tmp_path: Path, passed: float, set_by: float, boot: str, forks: list[str]
) -> None:
    boot_id = tmp_path / "boot_id"
    settings = MinionSettings(
        cache_dir=str(tmp_path / "c"), log_file="-", boot_id_file=str(boot_id)
    )
    start = StartData(settings, "m1", "mach1", str(tmp_path))
    clock, told = ManualClock(datetime(2026, 1, 1, tzinfo=UTC)), Told()
    log = Log.open(str(tmp_path / "log"), "info", clock)

    def agent(boot: str) -> tuple[JobRunner, Forks]:
        boot_id.write_text(boot)
        processes = Forks()
        make = lambda *_: processes  # noqa: E731
        return JobRunner(make, lambda: start, clock, log, told), processes

    first, _ = agent("boot")
    waiting(first, 3600.0, clock.now().timestamp())
    clock.advance(passed)
    clock.step(set_by)
    second, processes = agent(boot)
    second.recover()
    assert processes.jids == forks and told.done == ([] if forks else [JID])


def test_job_behind_one_that_waited_too_long_starts_at_once(tmp_path: Path) -> None:
    settings = MinionSettings(cache_dir=str(tmp_path / "c"), log_file="-")
    start = StartData(settings, "m1", "mach1", str(tmp_path))
    clock, told, made = ManualClock(datetime(2026, 1, 1, tzinfo=UTC)), Told(), Forks()
    log = Log.open(str(tmp_path / "log"), "info", clock)
    runner = JobRunner(lambda *_: made, lambda: start, clock, log, told)
    waiting(runner, 60.0, clock.now().timestamp())
    behind = JobSpec(f"{JID[:-1]}9", "mgractionchains.start", (9,))
    assert runner.order(behind) == ""
    clock.advance(61.0)
    runner.held_by = None
    runner.start_next()
    assert told.done == [JID] and made.jids == [behind.jid]


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (of_chain(ChainManifest(8, "mach1", 1, ())), ""),
        (Payload("chian", 8, 1, {}), "malformed: unknown payload 'chian'; did you mean 'chain'?"),
        (Payload("chain", 8, 1, {}), "malformed: chain: missing field 'chain_id'"),
    ],
)
def test_job_whose_payload_the_agent_can_not_run_is_refused(
    tmp_path: Path, payload: Payload, why: str
) -> None:
    start = StartData(MinionSettings(cache_dir=str(tmp_path / "c")), "m1", "mach1", str(tmp_path))
    clock, told, made = ManualClock(datetime(2026, 1, 1, tzinfo=UTC)), Told(), Forks()
    log = Log.open(str(tmp_path / "log"), "info", clock)
    runner = JobRunner(lambda *_: made, lambda: start, clock, log, told)
    refused = runner.order(JobSpec(JID, "mgractionchains.start", (8,), payload=payload))
    assert refused == why
    assert runner.store.knows(JID) is (not why)


def test_job_starts_after_an_agent_kill_although_the_clock_was_set(
    tmp_path: Path,
) -> None:
    store = JobStore(tmp_path / "c", "boot")
    store.add(JobSpec(JID, "state.apply", not_after=1.0), begins=True, begin_by=99.0)
    again = JobStore(tmp_path / "c", "boot")
    again.scan()
    assert again.begin_by == {JID: 99.0}


def test_chain_continues_however_late(tmp_path: Path) -> None:
    store = JobStore(tmp_path / "c", "boot")
    for fun, args, goes_on in (("start", (8,), False), ("resume", (), True)):
        assert store.goes_on(JobSpec(JID, f"mgractionchains.{fun}", args)) is goes_on


@pytest.mark.parametrize(
    ("is_here", "begins"),
    [(True, True), (False, False)],
)
def test_postponed_chain_that_has_started_never_expires(
    tmp_path: Path, is_here: bool, begins: bool
) -> None:
    store = JobStore(tmp_path / "c", "boot")
    spec = JobSpec(JID, "mgractionchains.start", (8,), not_after=1.0)
    store.add(spec, begins=True)
    if is_here:
        (tmp_path / "c" / "chains" / "8").mkdir(parents=True)
    assert not store.goes_on(spec)
    store.folder(JID).claim(Claim(ProcessRef(1, 1, "boot")))
    store.folder(JID).give_back()
    assert store.goes_on(spec) is begins


def ordered(folder: Path, fun: str) -> tuple[JobRunner, Forks, Told]:
    """Return a runner with one started job of *fun*, in processes that do nothing."""
    start = StartData(MinionSettings(cache_dir=str(folder / "c")), "m1", "mach1", str(folder))
    clock, told, made = ManualClock(datetime(2026, 1, 1, tzinfo=UTC)), Told(), Forks()
    log = Log.open(str(folder / "log"), "info", clock)
    runner = JobRunner(lambda *_: made, lambda: start, clock, log, told)
    assert runner.order(JobSpec(JID, fun)) == ""
    runner.start_next()
    assert made.jids == [JID]
    return runner, made, told


def test_job_that_no_process_has_claimed_begins_again_after_pauses(tmp_path: Path) -> None:
    # A host that shuts down kills the template, and each one that the agent starts instead.
    runner, made, told = ordered(tmp_path, "cmd.run")
    for _ in range(3):
        runner.unforked([JID])
    assert made.jids == [JID] * 2 and told.put_off == [(JID, NOT_BEGUN)]
    moments = count(1)
    while not told.done:
        runner.tick(next(moments) * 2 * LOOK_SECONDS)
        runner.unforked([JID])
    assert len(made.jids) == PROCESSES
    text = str(runner.store.folder(JID).read_return(10_000).value)
    assert text == f"it could not begin: each of {PROCESSES} processes ended before that"


def test_resumable_job_whose_process_dies_twice_continues_after_a_pause(tmp_path: Path) -> None:
    runner, made, told = ordered(tmp_path, "mgractionchains.start")
    folder = runner.store.folder(JID)
    for died in (1, 2):
        assert folder.claim(Claim(ProcessRef(0, 0, "")))
        runner.finished(JID)
        assert folder.attempts() == died
    assert made.jids == [JID] * 2 and told.put_off == [(JID, DIED_AGAIN)]
    runner.tick(2 * LOOK_SECONDS)
    assert made.jids == [JID] * 3
    assert folder.claim(Claim(ProcessRef(0, 0, "")))
    runner.finished(JID)
    assert told.done == [JID]
    assert str(folder.read_return(10_000).value).startswith("interrupted")
