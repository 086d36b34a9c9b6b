"""Retention of jobs: ended jobs are deleted, with their returns, when they are old."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import sqlalchemy as sa

from catena.master.events import return_rows
from catena.master.events import rows as event_rows
from catena.master.jobs import retention_rows
from catena.master.process.retention import Before, Retention

#: Maximum number of jobs deleted in one transaction.
JOBS_BATCH = 200
#: Maximum number of returns deleted in one transaction whose events have no data of their own.
RETURNS_BATCH = 250


def retention(in_use: Sequence[sa.Select[tuple[str]]]) -> Retention:
    """Return the retention of jobs.

    Args:
        in_use: select the jids of ended jobs that an engine may still need.
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
    counts = _drop_returns(conn, jids, before["events"])
    if counts.get("returns") == RETURNS_BATCH:
        return counts
    return {**counts, "jobs": retention_rows.drop_jobs(conn, jids)}


def _drop_returns(conn: sa.Connection, jids: Sequence[str], before: float) -> Mapping[str, int]:
    """Delete returns that contain the data of their events; return the numbers of deleted rows.

    Old events that all consumers have read are deleted, too; the data is copied to the others.
    """
    returns = retention_rows.returns_with_events(conn, jids, RETURNS_BATCH)
    if not returns:
        return {}
    seqs = [one.event for one in returns]
    dropped = event_rows.drop_seen_of(conn, seqs, before)
    return_rows.copy_to_events(conn, seqs)
    retention_rows.drop_returns(conn, returns)
    return {"events": dropped, "returns": len(returns)}
