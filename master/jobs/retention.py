"""How long jobs that have ended are kept, and what goes with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import sqlalchemy as sa

from catena.master.events import return_rows
from catena.master.events import rows as event_rows
from catena.master.jobs import retention_rows
from catena.master.process.retention import Before, Retention

#: Jobs, and returns with events of their own, that one transaction drops.
JOBS_BATCH = 200
RETURNS_BATCH = 250


def retention(in_use: Sequence[sa.Select[tuple[str]]]) -> Retention:
    """Return the retention of jobs.

    Args:
        in_use: select the jids of ended jobs that an engine may still ask for.
    """
    return Retention(
        "jobs",
        lambda settings, now: now - settings.keep_jobs_hours * 3600,
        partial(_drop, in_use),
        shrinks=True,
        counts=("returns",),
    )


def _drop(
    in_use: Sequence[sa.Select[tuple[str]]], conn: sa.Connection, before: Before
) -> Mapping[str, int]:
    jids = retention_rows.old_jobs(conn, in_use, before["jobs"], JOBS_BATCH)
    if not jids:
        return {}
    told = _drop_told(conn, jids, before["events"])
    if told.get("returns") == RETURNS_BATCH:
        return told
    return {**told, "jobs": retention_rows.drop_jobs(conn, jids)}


def _drop_told(conn: sa.Connection, jids: Sequence[str], before: float) -> Mapping[str, int]:
    """Drop returns that have the data of their events: those go as well, or get it."""
    returns = retention_rows.told_returns(conn, jids, RETURNS_BATCH)
    if not returns:
        return {}
    seqs = [one.event for one in returns]
    gone = event_rows.drop_seen_of(conn, seqs, before)
    return_rows.give_back(conn, seqs)
    retention_rows.drop_returns(conn, returns)
    return {"events": gone, "returns": len(returns)}
