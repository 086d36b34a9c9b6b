"""Applies what minions report about chains, in the transaction that stores the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from catena.client.replies.jobs import JobOutputItem
from catena.core import events
from catena.core.chain_calls import CLEAN, RESUME, START
from catena.core.fsm import Actor
from catena.core.job import Boundary, JobProgress, JobReturn
from catena.core.run_ref import RunRef
from catena.master.chains import decide, fence_rows, result_rows, returned, rows, run_job_rows
from catena.master.chains.decide import Change, Outcome
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import (
    CHUNK,
    HELD_BACK,
    ChainEvent,
    ChainState,
    ChunkEvent,
    ChunkState,
)
from catena.master.chains.model import ChainExecution, ChainMinion
from catena.master.chains.returned import ChainResult
from catena.master.chains.run_job_rows import ChainJob, run_of
from catena.master.executions import pauses
from catena.master.executions.lifecycle import ExecutionEvent, ExecutionState
from catena.master.executions.model import EventItem
from catena.master.executions.watch import OutputWatchers
from catena.master.jobs.delivery import MACHINE as DELIVERY
from catena.master.jobs.delivery import Delivery
from catena.master.minions.limits import RateLimit
from catena.master.process.clocks import HostClocks
from catena.master.store.database import after_commit

#: Maximum late reports on one run of a minion that are recorded: at once, and then per second. A
#: minion may send returns of jobs that it began itself for as long as it likes.
LATE_BURST = 10.0
LATE_RATE = 1 / 3600
#: Upper bound (exclusive) of ids that minions report: the store's integers have 64 bits.
ID_LIMIT = 2**63


class ChainResults:
    """The observer of jobs that makes chains advance (`executions.engine.JobObserver`).

    A minion can change only executions of its own runs, and only those of the newest run. A report
    about an older run is recorded as late and changes nothing else.

    Args:
        clocks: the clocks of this host.
        wake: wakes the scheduler; called in the event loop after a transaction is durable that may
            have created work for it.
        watchers: receive the output of chain jobs.
    """

    def __init__(
        self,
        clocks: HostClocks,
        wake: Callable[[], None] = lambda: None,
        watchers: OutputWatchers | None = None,
    ) -> None:
        self._clocks = clocks
        self._wake = wake
        self._watchers = watchers or OutputWatchers()
        #: By the id of the run on the minion. Only the writer's thread uses it.
        self._late = RateLimit(LATE_RATE, LATE_BURST, lambda: clocks.read().mono)

    # -- returns -------------------------------------------------------------------------------

    def on_return(self, conn: sa.Connection, minion: str, ret: JobReturn) -> Sequence[EventItem]:
        """Apply a job's return to the executions that it is about; return the events to store."""
        if ret.fun not in (START, RESUME, CLEAN):
            return ()
        ledger = ChainLedger(conn, self._clocks.read(), Actor.agent, minion)
        if ret.fun == CLEAN:
            self._apply_clean(ledger, minion, ret)
            return ledger.events
        found = returned.read(ret)
        started = rows.run_by_jid(conn, ret.jid, minion)
        if started is not None and started.chain_id not in found and not ret.success:
            self._fail_started(ledger, started, ret)
        if not found and started is None and ret.fun == RESUME:
            self._apply_empty_resume(ledger, minion, ret)
        for chain_id, result in found.items():
            run = rows.newest_run(conn, chain_id, minion)
            if run is not None:
                self._apply_result(ledger, run, result, ret)
        # Most minions are in no chain when their agent starts; their resume reports nothing.
        if found or started is not None or ledger.events:
            # The end of a running chunk may have removed what made the minion's fences fail.
            fence_rows.retry_now(conn, minion)
            after_commit(conn, self._wake)
        return ledger.events

    def _apply_clean(self, ledger: ChainLedger, minion: str, ret: JobReturn) -> None:
        """Apply the return of a `clean` job, which makes a minion remove runs."""
        fence_rows.returned(ledger, minion, ret)
        for ref in returned.given_up(ret):
            run = rows.run_of(ledger.conn, ref, minion)
            if run is not None and run.open:
                text = f"given up on the minion by {CLEAN} (job {ret.jid})"
                found = rows.executions(ledger.conn, run.run, minion)
                ledger.apply(found, decide.cancel_open([rows.fact(e) for e in found], text))
                ledger.settle(run.chain_id, (minion,))
        after_commit(ledger.conn, self._wake)

    def _apply_empty_resume(self, ledger: ChainLedger, minion: str, ret: JobReturn) -> None:
        """Apply the return of a resume that ran nothing.

        Either the resume failed, or its run has to wait longer, or the minion does not know the
        run. A run that the minion does not know is given up later (`silence`).
        """
        if not ret.success:
            self._failed_resume(ledger, minion, ret)
            return
        disowned = returned.disowned(ret)
        if disowned is None:
            return
        runs = rows.open_runs(ledger.conn, minion)
        if not runs:
            # The usual case at an agent's start; skip the queries below.
            return
        ref = run_job_rows.run_of_return(ledger.conn, ret, minion) or returned.named(ret)
        if ref is None and (ret.value or run_job_rows.names_something(ledger.conn, ret.jid)):
            # The return is about one run but does not identify it, so it disowns no run.
            return
        jobs = run_job_rows.open_jobs(ledger.conn, minion)
        for run in runs:
            mine = RunRef(run.chain_id, run.epoch)
            if ref not in (None, mine) or run_job_rows.is_worked_on(mine, jobs):
                continue
            facts = [rows.fact(row) for row in rows.executions(ledger.conn, run.run, minion)]
            # A run of which only the last reboot must still be proven needs no resume.
            if _is_current(run, ret.jid) and any(f.is_open and not f.picked_up for f in facts):
                result_rows.set_run(ledger.conn, run, disowned=f"{minion}: {disowned}")

    def _apply_result(
        self, ledger: ChainLedger, run: ChainMinion, result: ChainResult, ret: JobReturn
    ) -> None:
        if not _is_current(run, ret.jid, ret.epochs.get(str(run.chain_id))):
            self._note_late(ledger, run, ret.jid)
            return
        _clear_disowned(ledger.conn, run)
        found = rows.executions(ledger.conn, run.run, run.minion)
        known = frozenset(row.action_id for row in found)
        now = result_rows.boot_of(ledger.conn, run.minion) or run.boot_id
        boot = getattr(ret, "boot_id", "") or now
        report = result.report(known, boot, now)
        self._begin_chain(ledger, run.chain_id)
        changes = decide.judge_report([rows.fact(row) for row in found], report)
        ledger.report(run, found, changes, boot)
        moved = {change.action_id for change in changes}
        for row in found:
            if row.action_id in report.outcomes and row.action_id not in moved:
                ledger.fill(row, report.outcomes[row.action_id])
        self._end_chunks(ledger, run, report.chunks)
        ledger.settle(run.chain_id, (run.minion,))

    def _fail_started(self, ledger: ChainLedger, run: ChainMinion, ret: JobReturn) -> None:
        """Fail a run whose start job returned an error instead of results.

        Examples are a missing pillar, a chunk that can't be rendered, or a missing module.
        """
        if not _is_current(run, ret.jid) or not run.open:
            self._fail_ended(ledger, run, ret)
            return
        found = rows.executions(ledger.conn, run.run, run.minion)
        facts = [rows.fact(row) for row in found]
        # The run may have stopped inside a chunk on the minion; a later resume would continue it.
        ledger.fence(run)
        ledger.apply(found, decide.fail_open(facts, returned.error_text(ret)))
        ledger.settle(run.chain_id, (run.minion,))

    def _failed_resume(self, ledger: ChainLedger, minion: str, ret: JobReturn) -> None:
        """Fail the run of a resume that failed before it ran anything.

        If the job names no run (a damaged resume file), its run is the only one that has begun and
        on which no other job works. If there are several such runs, `silence` gives them up.
        """
        conn = ledger.conn
        ref = run_job_rows.run_of_return(conn, ret, minion)
        if ref is not None:
            run = rows.run_of(conn, ref, minion)
            failed = [run] if run is not None else []
        elif run_job_rows.names_something(conn, ret.jid):
            # A person called it with invalid arguments.
            return
        else:
            jobs = run_job_rows.open_jobs(conn, minion)
            failed = [run for run in rows.open_runs(conn, minion) if _is_idle(conn, run, jobs)]
        if len(failed) != 1:
            return
        run = failed[0]
        if not run.open or not _is_current(run, ret.jid):
            self._fail_ended(ledger, run, ret)
            return
        facts = rows.executions(conn, run.run, minion)
        ledger.fence(run)
        text = returned.error_text(ret)
        ledger.apply(facts, decide.fail_open([rows.fact(row) for row in facts], text))
        ledger.settle(run.chain_id, (run.minion,))

    def _fail_ended(self, ledger: ChainLedger, run: ChainMinion, ret: JobReturn) -> None:
        """Record a failed job of a run that has already ended here, perhaps by progress alone.

        The minion could not record the end of the chunk (a folder that it can't write to). There
        the run blocks later chains until the fence makes the minion remove it.
        """
        self._note_late(ledger, run, ret.jid)
        if _is_current(run, ret.jid):
            ledger.fence(run)

    def _note_late(self, ledger: ChainLedger, run: ChainMinion, jid: str) -> None:
        """Record a report on a run that is over, unless there were many on that run."""
        if self._late.allow(str(run.id)):
            ledger.note_late(run, jid)

    def _end_chunks(self, ledger: ChainLedger, run: ChainMinion, numbers: frozenset[int]) -> None:
        failed = set()
        for row in rows.executions(ledger.conn, run.run, run.minion):
            if row.state in (ExecutionState.FAILED.value, ExecutionState.LOST.value):
                failed.add(row.chunk)
        for chunk in rows.chunks(ledger.conn, run):
            event = ChunkEvent.fail if chunk.number in failed else ChunkEvent.apply
            if chunk.number in numbers and CHUNK.allows(ChunkState(chunk.state), event):
                ledger.move_chunk(chunk, event)

    # -- progress ------------------------------------------------------------------------------

    def on_progress(
        self, conn: sa.Connection, minion: str, progress: JobProgress
    ) -> Sequence[EventItem]:
        """Apply the reported begin or end of an action; return the events to store."""
        data = progress.data
        chain_id, action_id = data.get("chain_id"), data.get("action_id")
        if progress.kind != "action" or type(chain_id) is not int or type(action_id) is not int:
            return ()
        if not 0 < chain_id < ID_LIMIT:
            return ()
        run = rows.newest_run(conn, chain_id, minion)
        if run is None or not run.open:
            return ()
        if not _is_current(run, progress.jid, data.get("epoch")):
            return ()
        found = rows.executions(conn, run.run, minion)
        row = next((row for row in found if row.action_id == action_id), None)
        change = _change_of(row, progress) if row is not None else None
        if row is None or change is None:
            return ()
        ledger = ChainLedger(conn, self._clocks.read(), Actor.agent, minion)
        _clear_disowned(conn, run)
        self._begin_chain(ledger, chain_id)
        facts = [rows.fact(each) for each in found]
        changes = [*decide.prove_by_progress(facts, change), change]
        ledger.report(run, found, changes, result_rows.boot_of(conn, minion) or run.boot_id)
        if change.event is not ExecutionEvent.begin:
            ledger.settle(chain_id, (minion,))
        return ledger.events

    def _begin_chain(self, ledger: ChainLedger, chain_id: int) -> None:
        chain = rows.chain(ledger.conn, chain_id)
        if chain.state == ChainState.dispatched.value:
            ledger.move_chain(chain, ChainEvent.start)

    # -- output --------------------------------------------------------------------------------

    def on_output(self, conn: sa.Connection, jid: str, item: JobOutputItem) -> None:
        """Publish a job's output to the watchers of its chain."""
        run = run_of(conn, jid, item.minion) if self._watchers.are_there else None
        if run is not None:
            tag = events.chain(run.chain_id, "*")
            after_commit(conn, lambda: self._watchers.publish(tag, item))

    # -- deliveries ----------------------------------------------------------------------------

    def on_delivery(
        self, conn: sa.Connection, minion: str, jid: str, state: str, detail: str
    ) -> Sequence[EventItem]:
        """End the run on a minion when its delivery ended without a return; return the events."""
        ended = Delivery(state)
        if ended is Delivery.paused:
            return self._held_back(conn, minion, jid, detail)
        if ended is Delivery.done or not DELIVERY.is_final(ended):
            return ()
        ledger = ChainLedger(conn, self._clocks.read(), Actor.agent, minion)
        why = detail or state
        if fence_rows.undelivered(ledger, minion, jid, why):
            after_commit(conn, self._wake)
            return ()
        run = rows.run_by_jid(conn, jid, minion)
        if run is None and ended is Delivery.cancelled:
            run = _resumed_by(conn, jid, minion)
        if run is None or not run.open:
            return ()
        found = rows.executions(conn, run.run, minion)
        facts = [rows.fact(row) for row in found]
        if ended is Delivery.lost:
            # The text begins as in the reference, because tools search for it.
            why = f"{decide.NO_RETURN} ({detail})" if detail else decide.NO_RETURN
            changes = decide.lose_open(facts, why)
        elif ended is Delivery.cancelled:
            changes = decide.cancel_open(facts, detail)
            if run.jid != jid:
                # The cancelled job was a resume; the run still waits on the minion.
                ledger.fence(run)
        else:
            changes = decide.fail_open(facts, detail or state)
        ledger.apply(found, changes)
        ledger.settle(run.chain_id, (run.minion,))
        after_commit(conn, self._wake)
        return ledger.events

    def _held_back(
        self, conn: sa.Connection, minion: str, jid: str, why: str
    ) -> Sequence[EventItem]:
        """Note that the start of a run waits for a clean-up, which is tried at once.

        Nothing is noted if the run is paused: a person has done that, and it is noted already.
        """
        run = rows.run_by_jid(conn, jid, minion)
        if run is None or pauses.on(pauses.of_run(conn, run.run), minion):
            return ()
        ledger = ChainLedger(conn, self._clocks.read())
        row = rows.chain(conn, run.chain_id)
        ledger.note_chain(row, HELD_BACK, f"on {minion}: {why}", minion)
        # What was in the way may be gone.
        fence_rows.retry_now(conn, minion)
        after_commit(conn, self._wake)
        return ledger.events

    # -- starts --------------------------------------------------------------------------------

    def on_start(
        self, conn: sa.Connection, minion: str, boot_id: str, waits: RunRef | None = None
    ) -> Sequence[EventItem]:
        """Apply the start of a minion's agent: a new boot proves reboots begun in an earlier one.

        A start may be processed late, after further boots. The boot id of the last Hello therefore
        wins over *boot_id*.

        Args:
            conn: the running transaction.
            minion: the minion whose agent started.
            boot_id: the boot in which it started.
            waits: the run that waits on the minion for its resume, as the minion reported; None if
                it reported none.
        """
        fence_rows.retry_now(conn, minion)
        ledger = ChainLedger(conn, self._clocks.read(), Actor.agent, minion)
        if waits is not None:
            fence_rows.forget(ledger, waits, minion)
        boot_id = result_rows.boot_of(conn, minion) or boot_id
        if not boot_id:
            return ()
        for run in rows.open_runs(conn, minion):
            result_rows.set_run(conn, run, boot_id=boot_id[:64])
            found = rows.executions(conn, run.run, minion)
            changes = decide.prove_boot([rows.fact(row) for row in found], boot_id)
            if changes:
                ledger.report(run, found, changes)
                ledger.settle(run.chain_id, (run.minion,))
        after_commit(conn, self._wake)
        return ledger.events


def _is_current(run: ChainMinion, jid: str, epoch: Any = None) -> bool:
    """Return whether a job's report is about *run*, not about an older run of the chain.

    Args:
        run: the newest run of its chain on the minion.
        jid: the job. A resume job may be older than the run that it continues.
        epoch: the run's epoch as the minion reported it. If there is none, the jids decide: those
            of later jobs are greater.
    """
    if type(epoch) is int and epoch > 0:
        return bool(run.jid) and epoch == run.epoch
    return bool(run.jid) and jid >= run.jid


def _clear_disowned(conn: sa.Connection, run: ChainMinion) -> None:
    """Record that a minion knows a run after all: the disowning report overtook another one."""
    if run.disowned:
        result_rows.set_run(conn, run, disowned="")


def _resumed_by(conn: sa.Connection, jid: str, minion: str) -> ChainMinion | None:
    """Return the run that job *jid* resumes; None if it is no resume or names no run."""
    if result_rows.function_of(conn, jid) != RESUME:
        return None
    ref = run_job_rows.run_of(conn, jid, minion)
    return rows.run_of(conn, ref, minion) if ref is not None else None


def _is_idle(conn: sa.Connection, run: ChainMinion, jobs: Sequence[ChainJob]) -> bool:
    """Return whether a run has begun and none of *jobs* is known to work on it."""
    if RunRef(run.chain_id, run.epoch) in {job.run for job in jobs}:
        return False
    found = rows.executions(conn, run.run, run.minion)
    begun = (ExecutionState.DONE, ExecutionState.RUNNING)
    return any(rows.fact(row).state in begun for row in found)


def _change_of(row: ChainExecution, progress: JobProgress) -> Change | None:
    """Return the change that a progress message causes; None if it causes none."""
    data, state = progress.data, ExecutionState(row.state)
    if state not in (ExecutionState.NEW, ExecutionState.RUNNING):
        return None
    if data.get("event") == "begin":
        if state is ExecutionState.RUNNING:
            return None
        started = Outcome(row.chunk, None, started=progress.when)
        return Change(row.action_id, ExecutionEvent.begin, "", started)
    return _end_of(row, data) if data.get("event") == "end" else None


def _end_of(row: ChainExecution, data: dict[str, Any]) -> Change | None:
    outcome, waits = data.get("outcome"), Boundary(row.waits_for)
    result = data.get("result")
    reported = Outcome(row.chunk, result is True or result is None, str(data.get("comment", "")))
    if outcome in ("failed", "interrupted"):
        reason = "interrupted" if outcome == "interrupted" else ""
        return Change(row.action_id, ExecutionEvent.fail, reason, reported)
    armed = outcome == "armed" and waits is Boundary.reboot
    upgraded = outcome == "done" and waits is Boundary.agent_upgrade
    if armed or upgraded:
        if row.picked_up is not None:
            return None
        return Change(row.action_id, ExecutionEvent.begin, waits.value, reported, picked_up=True)
    if outcome == "done":
        return Change(row.action_id, ExecutionEvent.succeed, "", reported)
    return None
