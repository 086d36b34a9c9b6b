"""What `catena doctor` says of chains: those that wait, fail, hang, or can't be ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import sqlalchemy as sa

from catena.core.checkup import Finding, Level
from catena.core.job import Boundary
from catena.core.run_ref import RunRef
from catena.master.chains import fence_rows, rows, run_jobs, wait_rows
from catena.master.chains.lifecycle import ChainState
from catena.master.chains.model import ChainMinion
from catena.master.chains.retry import INTERRUPTED
from catena.master.executions.lifecycle import ExecutionState
from catena.master.store.chain_tables import CHAINS
from catena.master.store.execution_tables import RUNS
from catena.master.store.tables import MINIONS

#: Findings of one kind that are told; the others are counted.
SHOWN = 5
#: A chain that is due for this long and has not started is worth a word.
LATE_SECONDS = 300.0
#: A minion that is away for this long is worth a word.
AWAY_SECONDS = 600.0
#: Failed chains are told of for this long after their end.
FAILED_SECONDS = 7 * 24 * 3600.0
_PART = "chains"


def check(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield what there is to say of the chains of a store; *conn* is a snapshot."""
    for some in (_held(conn), _late(conn, now), _cut(conn), _failed(conn, now)):
        yield from _some(some)
    yield from _some(_unfenced(conn))
    yield from _some(_open(conn, now))


def _some(found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the first findings of a kind, and how many more there are."""
    every = list(found)
    yield from every[:SHOWN]
    if len(every) > SHOWN:
        level = every[SHOWN].level
        yield Finding(_PART, level, f"and {len(every) - SHOWN} more like the last one")


def _held(conn: sa.Connection) -> Iterator[Finding]:
    held = (ChainState.waiting.value, ChainState.pending_approval.value)
    query = rows.RUNNING_CHAINS.where(RUNS.c.state.in_(held)).order_by(CHAINS.c.id)
    for row in rows.chains(conn, query):
        if row.state == ChainState.pending_approval.value:
            advice = f"catena chain approve {row.id}, or cancel {row.id}"
            yield Finding(_PART, Level.note, f"{row.title} waits for approval", advice)
            continue
        advice = f"catena chain release {row.id}, or cancel {row.id}"
        yield Finding(_PART, Level.warning, f"{row.title} is held: {row.reason}", advice)


def _late(conn: sa.Connection, now: float) -> Iterator[Finding]:
    rule = (RUNS.c.state == ChainState.scheduled.value) & (RUNS.c.due < now - LATE_SECONDS)
    for row in rows.chains(conn, rows.RUNNING_CHAINS.where(rule).order_by(RUNS.c.due)):
        text = f"{row.title} was due at {_clock(row.due or 0.0)} and has not started"
        advice = "does the master run? Its log says what hinders the chain"
        yield Finding(_PART, Level.warning, text, advice)


def _cut(conn: sa.Connection) -> Iterator[Finding]:
    failed = RUNS.c.state == ChainState.failed.value
    query = rows.CHAIN_ROWS.where(failed, CHAINS.c.archived == sa.false())
    for row in rows.chains(conn, query.order_by(CHAINS.c.id)):
        newest = rows.newest(conn, row.id).values()
        if not any(execution.reason == INTERRUPTED for execution in newest):
            continue
        text = f"{row.title} has an action whose outcome nobody knows"
        advice = f"look at the host, then: catena chain resolve {row.id}"
        yield Finding(_PART, Level.warning, text, advice)


def _failed(conn: sa.Connection, now: float) -> Iterator[Finding]:
    rule = (RUNS.c.state == ChainState.failed.value) & (CHAINS.c.archived == sa.false())
    query = rows.CHAIN_ROWS.where(rule, RUNS.c.ended > now - FAILED_SECONDS)
    for row in rows.chains(conn, query.order_by(CHAINS.c.id.desc())):
        reason = f": {row.reason}" if row.reason else ""
        text = f"{row.title} failed at {_clock(row.ended or 0.0)}{reason}"
        advice = (
            f"catena chain show {row.id}; then: catena chain retry {row.id}, or cancel {row.id}"
        )
        yield Finding(_PART, Level.note, text, advice)


def _unfenced(conn: sa.Connection) -> Iterator[Finding]:
    for run in fence_rows.failed(conn):
        text = f"{run.label!r} ({run.chain_id}) on {run.minion}: {wait_rows.fence_text(run)}"
        advice = f"cure that; at once: catena run {run.minion} mgractionchains.clean"
        yield Finding(_PART, Level.warning, f"chain {text}", advice)


def _open(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the runs that wait for a minion that is away, or on which nobody works."""
    query = sa.select(MINIONS.c.id, MINIONS.c.up, MINIONS.c.last_seen)
    known = {row.id: row for row in conn.execute(query)}
    for run in rows.open_runs(conn):
        if run.over_ssh:
            continue
        minion = known.get(run.minion)
        up = minion is not None and minion.up
        show = f"catena chain show {run.chain_id}"
        what = f"{run.title} on {run.minion}"
        seen = (minion.last_seen or 0.0) if minion is not None else 0.0
        if run.disowned:
            text = f"{what} is given up soon: {run.disowned}"
            yield Finding(_PART, Level.warning, text, show)
        elif not up and seen < now - AWAY_SECONDS:
            at = f"not connected since {_clock(seen)}" if seen else "never connected"
            text = f"{what} waits: {run.minion} is {at}"
            cancel = f"start that host, or: catena chain cancel {run.chain_id}"
            yield Finding(_PART, Level.warning, text, cancel)
        else:
            yield from _hanging(conn, run, what, show)


def _hanging(conn: sa.Connection, run: ChainMinion, what: str, show: str) -> Iterator[Finding]:
    """Yield a run that waits for a boundary, or for a resume that nobody has ordered."""
    if run_jobs.is_open(conn, run.jid, run.minion):
        return
    jobs = run_jobs.open_jobs(conn, run.minion)
    if run_jobs.is_worked_on(RunRef(run.chain_id, run.epoch), jobs):
        return
    executions = rows.executions(conn, run.run, run.minion)
    picked = [e for e in executions if e.picked_up and e.state == ExecutionState.RUNNING.value]
    if picked:
        proof = "the new agent" if picked[0].waits_for == Boundary.agent_upgrade.value else "boot"
        text = f"{what} waits for {proof} since {_clock(picked[0].picked_up or 0.0)}"
        yield Finding(_PART, Level.note, text, show)
        return
    text = f"{what} hangs: no job works on it; it is given up after an hour of silence"
    advice = (
        f"catena run {run.minion} mgractionchains.resume, or: catena chain cancel {run.chain_id}"
    )
    yield Finding(_PART, Level.warning, text, advice)


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")
