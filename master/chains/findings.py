"""Findings of `catena doctor` about chains that wait, fail, hang, or cannot be ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

import sqlalchemy as sa

from catena.core.chain_calls import CLEAN, RESUME, by_hand
from catena.core.checkup import Finding, Level
from catena.core.job import Boundary
from catena.core.run_ref import RunRef
from catena.master.chains import (
    fence_rows,
    finding_rows,
    pause_rows,
    rows,
    run_job_rows,
    wait_rows,
)
from catena.master.chains.holds import pause_text
from catena.master.chains.lifecycle import ChainState
from catena.master.chains.model import ChainMinion
from catena.master.chains.pauses import continue_command
from catena.master.chains.retry import INTERRUPTED
from catena.master.executions import pauses
from catena.master.executions.lifecycle import ExecutionState

#: Maximum number of findings of one kind that are shown; the others are counted.
SHOWN = 5
#: Seconds after its due time at which a chain that has not started is a finding.
LATE_SECONDS = 300.0
#: Seconds without a connection after which a minion is a finding.
AWAY_SECONDS = 600.0
#: Seconds after which a pause is a finding.
PAUSED_SECONDS = 3600.0
#: Seconds after their end for which failed chains are shown.
FAILED_SECONDS = 7 * 24 * 3600.0
_PART = "chains"


def check(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the findings about the chains of a store; *conn* is a snapshot."""
    for kind in (
        _held(conn),
        _paused(conn, now),
        _late(conn, now),
        _interrupted(conn),
        _failed(conn, now),
        _unremoved(conn),
        _open(conn, now),
    ):
        yield from _first_of(kind)


def _first_of(found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the first findings of a kind, and the number of the others."""
    every = list(found)
    yield from every[:SHOWN]
    if len(every) > SHOWN:
        level = every[SHOWN].level
        yield Finding(_PART, level, f"and {len(every) - SHOWN} more like the last one")


def _held(conn: sa.Connection) -> Iterator[Finding]:
    for row in finding_rows.held(conn):
        if row.state == ChainState.pending_approval.value:
            advice = f"catena chain approve {row.id}, or cancel {row.id}"
            yield Finding(_PART, Level.note, f"{row.title} waits for approval", advice)
            continue
        advice = f"catena chain release {row.id}, or cancel {row.id}"
        yield Finding(_PART, Level.warning, f"{row.title} is held: {row.reason}", advice)


def _paused(conn: sa.Connection, now: float) -> Iterator[Finding]:
    for pause in pauses.older(conn, rows.ENGINE, now - PAUSED_SECONDS):
        for row in finding_rows.of_run(conn, pause.run):
            where = f" on {pause.minion}" if pause.minion else ""
            advice = f"{continue_command(row.id, pause)}, or: catena chain cancel {row.id}"
            text = f"{row.title}{where} is {pause_text(pause)}"
            yield Finding(_PART, Level.warning, text, advice)


def _late(conn: sa.Connection, now: float) -> Iterator[Finding]:
    for row in finding_rows.late(conn, now - LATE_SECONDS):
        text = f"{row.title} was due at {_clock(row.due or 0.0)} and has not started"
        advice = "check that the master runs; its log says why the chain can't start"
        yield Finding(_PART, Level.warning, text, advice)


def _interrupted(conn: sa.Connection) -> Iterator[Finding]:
    for row in finding_rows.failed(conn):
        newest = rows.newest(conn, row.id).values()
        if not any(execution.reason == INTERRUPTED for execution in newest):
            continue
        text = f"{row.title} has an interrupted action, whose outcome is unknown"
        advice = f"check the host, then: catena chain resolve {row.id}"
        yield Finding(_PART, Level.warning, text, advice)


def _failed(conn: sa.Connection, now: float) -> Iterator[Finding]:
    for row in finding_rows.failed_since(conn, now - FAILED_SECONDS):
        reason = f": {row.reason}" if row.reason else ""
        text = f"{row.title} failed at {_clock(row.ended or 0.0)}{reason}"
        advice = (
            f"catena chain show {row.id}; then: catena chain retry {row.id}, or cancel {row.id}"
        )
        yield Finding(_PART, Level.note, text, advice)


def _unremoved(conn: sa.Connection) -> Iterator[Finding]:
    behind = _behind(conn)
    for run in fence_rows.failed(conn):
        text = f"{run.label!r} ({run.chain_id}) on {run.minion}: {wait_rows.fence_text(run)}"
        advice = f"remove the cause; the master retries, or run now: {by_hand(CLEAN, run.minion)}"
        waiting = ", ".join(behind.get(run.minion, ()))
        text += f"; {waiting} must wait for that there" if waiting else ""
        yield Finding(_PART, Level.warning, f"chain {text}", advice)


def _behind(conn: sa.Connection) -> dict[str, list[str]]:
    """Return minion -> titles of the chains whose start waits there for a clean-up."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for start in pause_rows.held_starts(conn, fence_rows.refused(conn, ())):
        if pauses.on(pauses.of_run(conn, start.run), start.minion) is None:
            found[start.minion] += [row.title for row in finding_rows.of_run(conn, start.run)]
    return found


def _open(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the runs that wait for a disconnected minion, or on which no job works."""
    known = finding_rows.presences(conn)
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
    """Yield a finding if a run waits for a boundary, or for a resume without a job."""
    if run_job_rows.is_open(conn, run.jid, run.minion):
        return
    if pauses.on(pauses.of_run(conn, run.run), run.minion):
        return
    jobs = run_job_rows.open_jobs(conn, run.minion)
    if run_job_rows.is_worked_on(RunRef(run.chain_id, run.epoch), jobs):
        return
    executions = rows.executions(conn, run.run, run.minion)
    picked = [e for e in executions if e.picked_up and e.state == ExecutionState.RUNNING.value]
    if picked:
        proof = (
            "the new agent" if picked[0].waits_for == Boundary.agent_upgrade.value else "the boot"
        )
        text = f"{what} waits for {proof} since {_clock(picked[0].picked_up or 0.0)}"
        yield Finding(_PART, Level.note, text, show)
        return
    text = f"{what} is stuck: no job works on it; it is given up after an hour of silence"
    advice = f"{by_hand(RESUME, run.minion)}, or: catena chain cancel {run.chain_id}"
    yield Finding(_PART, Level.warning, text, advice)


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")
