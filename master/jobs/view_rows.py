"""Queries for the views of jobs: lists, counts and returns; *conn* is a snapshot in each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.client.requests.jobs import JobList
from catena.master.jobs import rows
from catena.master.jobs.model import JobRecord
from catena.master.store.lists import padded, slices
from catena.master.store.tables import DELIVERIES, JOBS, RETURNS


class StoredReturn(NamedTuple):
    """A return as it is stored."""

    minion: str
    #: The fields of `core.job.JobReturn`, perhaps as stored by an older version.
    ret: Any
    #: Whether the delivery had already ended otherwise.
    late: bool


_RETURN = tuple(RETURNS.c[name] for name in StoredReturn._fields)


def listed(conn: sa.Connection, wanted: JobList, limit: int) -> list[JobRecord]:
    """Return at most *limit* jobs that match the filters of *wanted*, newest first."""
    query = rows.JOB_ROWS.order_by(JOBS.c.jid.desc()).limit(limit)
    if wanted.fun:
        query = query.where(JOBS.c.fun == wanted.fun)
    if wanted.active:
        query = query.where(JOBS.c.ended.is_(None))
    if wanted.minion:
        given = sa.select(DELIVERIES.c.jid).where(DELIVERIES.c.minion == wanted.minion)
        query = query.where(JOBS.c.jid.in_(given))
    return [JobRecord._make(row) for row in conn.execute(query)]


def count_states(conn: sa.Connection, jids: Sequence[str]) -> dict[str, Counter[str]]:
    """Return, per job, the number of its deliveries in each state."""
    counts: dict[str, Counter[str]] = {jid: Counter() for jid in jids}
    for some in slices(jids, rows.SLICE):
        query = sa.select(DELIVERIES.c.jid, DELIVERIES.c.state, sa.func.count())
        query = query.where(DELIVERIES.c.jid.in_(padded(some)))
        for jid, state, count in conn.execute(query.group_by(*query.selected_columns[:2])):
            counts[jid][state] = count
    return counts


def count_failed(conn: sa.Connection, jids: Sequence[str]) -> Counter[str]:
    """Return, per job, the number of its returns that report a failure."""
    failed: Counter[str] = Counter()
    for some in slices(jids, rows.SLICE):
        query = sa.select(RETURNS.c.jid, sa.func.count()).where(RETURNS.c.jid.in_(padded(some)))
        query = query.where(~RETURNS.c.success | (RETURNS.c.retcode != 0))
        found = conn.execute(query.group_by(RETURNS.c.jid))
        failed.update({jid: count for jid, count in found})
    return failed


def returns(conn: sa.Connection, jid: str) -> list[StoredReturn]:
    """Return the stored returns of a job by minion id."""
    query = sa.select(*_RETURN).where(RETURNS.c.jid == jid).order_by(RETURNS.c.minion)
    return [StoredReturn._make(row) for row in conn.execute(query)]
