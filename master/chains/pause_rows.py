"""Queries on jobs and runs that a pause of a chain affects; each in its caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.core.chain_calls import RESUME, START
from catena.core.job import JobSpec
from catena.core.run_ref import RunRef
from catena.master.chains import fence_rows, rows, run_job_rows
from catena.master.chains.lifecycle import MinionState
from catena.master.chains.model import ChainMinion, ChainRecord
from catena.master.executions import pauses
from catena.master.executions.ledger import besides_state
from catena.master.jobs import rows as job_rows
from catena.master.jobs.delivery import OPEN, Delivery
from catena.master.jobs.model import JobRecord
from catena.master.store.chain_tables import CHAIN_MINIONS
from catena.master.store.execution_tables import EXECUTIONS, RUNS
from catena.master.store.lists import padded, slices
from catena.master.store.tables import DELIVERIES, JOBS, MINIONS
from catena.transport.messages.session import NAMED_RUNS

_BEGUN = (MinionState.running.value, MinionState.waiting.value)
_OPEN = [state.value for state in OPEN]
#: Jobs that start or resume chains, one row for each of their minions.
_JOBS: sa.Select[Any] = (
    job_rows.JOB_ROWS.add_columns(DELIVERIES.c.minion)
    .join(DELIVERIES, DELIVERIES.c.jid == JOBS.c.jid)
    .where(JOBS.c.fun.in_((START, RESUME)))
    .order_by(JOBS.c.jid, DELIVERIES.c.minion)
)


_REASONS = sa.select(sa.exists(pauses.ANY), sa.exists(fence_rows.any_refused()))


class Reasons(NamedTuple):
    """Whether anything at all may hold back jobs of chains."""

    #: Some run is paused.
    paused: bool
    #: Some minion has refused to forget a run.
    refused: bool


def reasons(conn: sa.Connection) -> Reasons:
    """Return what may hold jobs back; a quick check, since nearly always nothing does."""
    return Reasons._make(conn.execute(_REASONS).one())


class Stranded(NamedTuple):
    """A run on a minion that could continue but that no job resumes."""

    run: RunRef
    minion: str
    #: Whether the minion's agent accepts the epoch of a run as an argument.
    named: bool


class HeldStart(NamedTuple):
    """A job that starts a run on one minion, and is held back."""

    run: int
    minion: str
    #: Of the job.
    not_after: float


class WorkJob(NamedTuple):
    """A job that starts or resumes a chain, and one of its minions."""

    spec: JobSpec
    minion: str


def minions(conn: sa.Connection, run: int | None) -> dict[str, bool]:
    """Return minion -> whether the run has an open execution there."""
    is_open = sa.func.max(sa.case((EXECUTIONS.c.ended.is_(None), 1), else_=0))
    query = sa.select(EXECUTIONS.c.minion, is_open).where(EXECUTIONS.c.run == run)
    found = conn.execute(query.group_by(EXECUTIONS.c.minion))
    return {minion: bool(flag) for minion, flag in found}


def unended(conn: sa.Connection, chain_id: int) -> int | None:
    """Return the id of the run of a chain that has not ended; None if there is none."""
    query = sa.select(RUNS.c.id).where(
        rows.OURS, RUNS.c.ref == str(chain_id), RUNS.c.ended.is_(None)
    )
    return conn.execute(query).scalar()


def head(conn: sa.Connection, minion: str) -> ChainMinion | None:
    """Return the run that a minion's resume file names: the one that has begun, or the next."""
    runs = rows.open_runs(conn, minion)
    return next((run for run in runs if run.state in _BEGUN), runs[0] if runs else None)


def jobs(
    conn: sa.Connection, run: int | None, state: Delivery, names: Collection[str] = ()
) -> list[WorkJob]:
    """Return the jobs in a state that start or resume chains on the minions of a run.

    Args:
        conn: the running transaction.
        run: the run.
        state: of their deliveries.
        names: only these minions; (): all.
    """
    there = sa.select(CHAIN_MINIONS.c.minion).where(CHAIN_MINIONS.c.run == run)
    query = _JOBS.where(DELIVERIES.c.minion.in_(there), DELIVERIES.c.state == state.value)
    return [work for work in _work(conn, query) if not names or work.minion in names]


def paused_jobs(conn: sa.Connection, minions: Collection[str] = ()) -> list[WorkJob]:
    """Return the jobs that are held back, of whichever run, on *minions*; (): on all."""
    query = _JOBS.where(JOBS.c.ended.is_(None), DELIVERIES.c.state == Delivery.paused.value)
    if not minions:
        return _work(conn, query)
    found = []
    for some in slices(list(minions), rows.SLICE):
        found += _work(conn, query.where(DELIVERIES.c.minion.in_(padded(some))))
    return sorted(found, key=lambda work: (work.spec.jid, work.minion))


def held_starts(conn: sa.Connection, minions: Collection[str]) -> list[HeldStart]:
    """Return the jobs on some minions that start a run and are held back, the oldest first."""
    mine = CHAIN_MINIONS.c
    of_start = (DELIVERIES.c.jid == mine.jid) & (DELIVERIES.c.minion == mine.minion)
    query = (
        sa.select(mine.run, mine.minion, JOBS.c.not_after)
        .join(DELIVERIES, of_start)
        .join(JOBS, JOBS.c.jid == mine.jid)
        .where(DELIVERIES.c.state == Delivery.paused.value)
        .order_by(mine.jid)
    )
    found = []
    for some in slices(list(minions), rows.SLICE):
        query_of = query.where(DELIVERIES.c.minion.in_(padded(some)))
        found += [HeldStart._make(row) for row in conn.execute(query_of)]
    return found


def _work(conn: sa.Connection, query: sa.Select[Any]) -> list[WorkJob]:
    return [
        WorkJob(job_rows.spec_of(JobRecord._make(columns), minion, None), minion)
        for *columns, minion in conn.execute(query)
    ]


def stranded(conn: sa.Connection, run: int | None, names: Collection[str] = ()) -> list[Stranded]:
    """Return the minions on which a run could continue but no job resumes it.

    Args:
        conn: a snapshot.
        run: the run.
        names: only these minions; (): all.
    """
    mine = CHAIN_MINIONS.c
    of_start = (DELIVERIES.c.jid == mine.jid) & (DELIVERIES.c.minion == mine.minion)
    starting = sa.exists().where(of_start, DELIVERIES.c.state.in_(_OPEN))
    query = rows.MINION_ROWS.where(mine.run == run, mine.state.in_(_BEGUN), sa.not_(starting))
    found = []
    for each in rows.minion_runs(conn, query.order_by(mine.minion)):
        if (not names or each.minion in names) and _can_continue(conn, each):
            wire = sa.select(MINIONS.c.wire).where(MINIONS.c.id == each.minion)
            named = each.over_ssh or (conn.execute(wire).scalar() or 0) >= NAMED_RUNS
            found.append(Stranded(RunRef(each.chain_id, each.epoch), each.minion, named))
    return found


def _can_continue(conn: sa.Connection, run: ChainMinion) -> bool:
    """Return whether a run has open actions, waits for no boundary, and no job works on it."""
    if run_job_rows.is_worked_on(
        RunRef(run.chain_id, run.epoch), run_job_rows.open_jobs(conn, run.minion)
    ):
        return False
    facts = [rows.fact(row) for row in rows.executions(conn, run.run, run.minion)]
    open_now = [fact for fact in facts if fact.is_open]
    return bool(open_now) and not any(fact.picked_up for fact in open_now)


def set_due(conn: sa.Connection, row: ChainRecord, times: Mapping[str, Any]) -> None:
    """Set the due time, with its clocks, of a chain's newest run."""
    conn.execute(sa.update(RUNS).where(RUNS.c.id == row.run).values(besides_state(times)))
