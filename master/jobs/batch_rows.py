"""Queries on the deliveries of batched jobs; each runs in the transaction of its caller."""

from __future__ import annotations

from collections.abc import Container

import sqlalchemy as sa

from catena.master.jobs.batch import BatchFacts, BatchPlace
from catena.master.jobs.delivery import Delivery
from catena.master.store.tables import DELIVERIES, JOBS, RETURNS


def facts(conn: sa.Connection, jid: str) -> BatchFacts | None:
    """Return the deliveries of a batched job; None if none of them is held."""
    query = sa.select(DELIVERIES.c.minion, DELIVERIES.c.state, DELIVERIES.c.changed)
    query = query.where(DELIVERIES.c.jid == jid).order_by(DELIVERIES.c.minion)
    places = [BatchPlace._make(row) for row in conn.execute(query)]
    states = {place.state for place in places}
    if Delivery.held.value not in states:
        return None
    rule = conn.execute(
        sa.select(JOBS.c.batch_wait, JOBS.c.batch_failhard).where(JOBS.c.jid == jid)
    ).one()
    stops = rule.batch_failhard and _has_failed(conn, jid, states)
    return BatchFacts(jid, tuple(places), rule.batch_wait, stops)


def _has_failed(conn: sa.Connection, jid: str, states: Container[str]) -> bool:
    """Return whether a minion of the job failed, rejected the job or lost it."""
    if Delivery.rejected.value in states or Delivery.lost.value in states:
        return True
    bad = sa.or_(RETURNS.c.retcode != 0, sa.not_(RETURNS.c.success))
    query = sa.select(sa.literal(1)).where(RETURNS.c.jid == jid, bad).limit(1)
    return conn.execute(query).first() is not None
