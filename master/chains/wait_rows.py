"""Queries for what the actions of a chain wait for; each runs in its caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import sqlalchemy as sa

from catena.core.job import Boundary
from catena.core.run_ref import RunRef
from catena.master.chains import fence_rows, fence_rules, pause_rows, rows, run_job_rows, waits
from catena.master.chains.dependencies import ChainParts, ChainRules
from catena.master.chains.holds import ChainHolds, CleanWait, first_line, pause_text
from catena.master.chains.lifecycle import ACTIVE_CHAINS, ChainState, MinionState
from catena.master.chains.model import ChainExecution, ChainMinion, ChainRecord
from catena.master.chains.pauses import continue_command
from catena.master.chains.waits import ChainFact, JobFact, MinionFact, Wait
from catena.master.executions import pauses
from catena.master.executions.model import Suspension
from catena.master.executions.pauses import EVERYWHERE
from catena.master.jobs.delivery import Delivery
from catena.master.process.clocks import ClockReading, passed
from catena.master.store.chain_tables import CHAIN_MINIONS
from catena.master.store.execution_tables import RUNS
from catena.master.store.tables import DELIVERIES, JOBS, MINIONS


class _Sent(NamedTuple):
    """A run on a minion, the delivery of its start job, and the minion's presence."""

    minion: str
    jid: str
    disowned: str
    over_ssh: bool
    epoch: int
    chain_id: int
    #: State of the delivery; None: the job was deleted by the retention.
    state: str | None
    not_after: float | None
    up: bool | None
    last_seen: float | None


def of_chain(
    conn: sa.Connection,
    row: ChainRecord,
    newest: Mapping[int, ChainExecution],
    now: ClockReading,
    parts: ChainParts,
) -> Mapping[int, Wait]:
    """Return what the open actions of a chain wait for, by action id.

    Args:
        conn: a snapshot.
        row: the chain.
        newest: the newest execution of each of its actions.
        now: both clocks of this host.
        parts: what chains work with.
    """
    rules, delay = parts.rules, parts.delays.get(row.id, "")
    paused = pauses.of_run(conn, row.run)
    everywhere = _told(row, paused, EVERYWHERE)
    late = (row.due or 0.0) + rules.due.late_seconds
    chain = ChainFact(
        row.id, ChainState(row.state), row.due or 0.0, row.reason, everywhere, delay, late
    )
    if chain.state not in ACTIVE_CHAINS:
        return defaultdict(lambda: waits.of_undispatched(chain))
    by_minion: defaultdict[str, list[ChainExecution]] = defaultdict(list)
    for execution in newest.values():
        by_minion[execution.minion].append(execution)
    minions = _minions(conn, row)
    ahead = rows.ahead(conn, row.run)
    behind = {wait.fence.minion: wait for wait in clean_waits(conn, parts).get(row.run or 0, ())}
    found: defaultdict[int, Wait] = defaultdict(Wait)
    for name, executions in by_minion.items():
        deadlines = {e.action_id: _deadline(e, now, rules) for e in executions if e.picked_up}
        fact = _minion(conn, name, minions.get(name), ahead.get(name, ""), deadlines)
        fact = replace(
            fact, paused=_told(row, paused, name), clean=_clean(behind.get(name), parts)
        )
        found.update(waits.of_minion([rows.fact(e) for e in executions], fact))
    return found


def _told(row: ChainRecord, paused: Iterable[Suspension], minion: str) -> str:
    """Return who paused a chain on a minion and the command that continues it; "": not paused."""
    found = pauses.on(paused, minion)
    return f"{pause_text(found)}: {continue_command(row.id, found)}" if found else ""


def clean_waits(conn: sa.Connection, parts: ChainParts) -> Mapping[int, Sequence[CleanWait]]:
    """Return run -> the clean-ups for which starts of it wait, by minion."""
    refused = fence_rows.refused(conn, ())
    if not refused:
        return {}
    holds = ChainHolds.of(parts)
    found: defaultdict[int, list[CleanWait]] = defaultdict(list)
    for start in pause_rows.held_starts(conn, refused):
        wait = holds.clean_wait(refused[start.minion], start.not_after)
        if wait is not None:
            found[start.run].append(wait)
    return found


def _clean(wait: CleanWait | None, parts: ChainParts) -> Wait:
    if wait is None:
        return Wait()
    tries = fence_rules.pause(wait.fence.tries)
    again = f"; tried every {tries:.0f} s" if tries else ""
    text = f"{wait.text}{again}; at once: {wait.command}"
    return Wait(text, parts.jobs.by_wall_clock(wait.until))


def fences(conn: sa.Connection, chain_id: int) -> Mapping[str, str]:
    """Return minion -> text about a run of a chain that the minion still has to remove."""
    return {run.minion: fence_text(run) for run in fence_rows.of_chain(conn, chain_id)}


def fence_text(run: ChainMinion) -> str:
    """Return a text about a run that its minion has not removed yet."""
    if not run.fence_why:
        job = f" (job {run.fence_jid})" if run.fence_jid else ""
        return f"the minion must remove run {run.epoch}{job}"
    failed = f"the minion could not remove run {run.epoch}: {first_line(run.fence_why)}"
    if not run.fence_tries:
        return f"{failed} (retried now)"
    again = fence_rules.pause(run.fence_tries)
    return f"{failed} ({run.fence_tries} tries, every {again:.0f} s)"


def _minions(conn: sa.Connection, row: ChainRecord) -> dict[str, _Sent]:
    """Return minion -> the newest run of a chain there, with its start job's delivery."""
    mine = CHAIN_MINIONS.c
    of_job = (DELIVERIES.c.jid == mine.jid) & (DELIVERIES.c.minion == mine.minion)
    query = (
        sa.select(mine.minion, mine.jid, mine.disowned, mine.over_ssh, RUNS.c.epoch)
        .add_columns(DELIVERIES.c.state, JOBS.c.not_after, MINIONS.c.up, MINIONS.c.last_seen)
        .join(RUNS, RUNS.c.id == mine.run)
        .outerjoin(DELIVERIES, of_job)
        .outerjoin(JOBS, JOBS.c.jid == mine.jid)
        .outerjoin(MINIONS, MINIONS.c.id == mine.minion)
        .where(RUNS.c.engine == rows.ENGINE, RUNS.c.ref == str(row.id))
        .where(mine.state != MinionState.pending.value)
        .order_by(RUNS.c.epoch)
    )
    return {run.minion: _Sent._make((*run[:5], row.id, *run[5:])) for run in conn.execute(query)}


def _minion(
    conn: sa.Connection,
    name: str,
    run: _Sent | None,
    ahead: str,
    deadlines: Mapping[int, float],
) -> MinionFact:
    if run is None:
        return MinionFact(name)
    start = None
    if run.state is not None:
        start = JobFact(run.jid, Delivery(run.state), run.not_after or 0.0)
    resume = None if start and start.is_open else _resume(conn, run)
    # A host over SSH never connects; the master visits it.
    up = bool(run.over_ssh or run.up)
    seen = run.last_seen or 0.0
    facts = (start, resume, ahead, run.disowned)
    return MinionFact(name, up, seen, *facts, deadlines=deadlines)


def _resume(conn: sa.Connection, run: _Sent) -> JobFact | None:
    """Return the open job that resumes a run or may do so; None if there is none."""
    mine = RunRef(run.chain_id, run.epoch)
    for job in run_job_rows.open_jobs(conn, run.minion):
        if job.run in (mine, None):
            rule = (DELIVERIES.c.jid == job.jid) & (DELIVERIES.c.minion == run.minion)
            query = sa.select(DELIVERIES.c.state, JOBS.c.not_after)
            row = conn.execute(query.join(JOBS, JOBS.c.jid == DELIVERIES.c.jid).where(rule)).one()
            return JobFact(job.jid, Delivery(row.state), row.not_after)
    return None


def _deadline(execution: ChainExecution, now: ClockReading, rules: ChainRules) -> float:
    """Return when an unproven boundary fails, seconds since the epoch; 0: no boundary."""
    if Boundary(execution.waits_for) is Boundary.none:
        return 0.0
    allowed = rules.boundary_seconds + execution.delay_seconds
    return now.wall + max(0.0, allowed - passed(rows.picked_up(execution), now))
