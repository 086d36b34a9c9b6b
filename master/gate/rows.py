"""Queries for the views of minions; each runs on the snapshot of its caller."""

from __future__ import annotations

import sqlalchemy as sa

from catena.client.replies.minions import MinionJob
from catena.master.store.tables import DELIVERIES, JOBS

#: Maximum number of jobs shown with a minion.
RECENT_JOBS = 20


def recent_jobs(conn: sa.Connection, name: str) -> tuple[MinionJob, ...]:
    """Return the newest jobs of a minion, newest first."""
    query = (
        sa.select(JOBS.c.jid, JOBS.c.fun, DELIVERIES.c.state, DELIVERIES.c.detail)
        .join(DELIVERIES, DELIVERIES.c.jid == JOBS.c.jid)
        .where(DELIVERIES.c.minion == name)
        .order_by(JOBS.c.jid.desc())
        .limit(RECENT_JOBS)
    )
    return tuple(MinionJob(row.jid, row.fun, row.state, row.detail) for row in conn.execute(query))
