"""Queries of the retention of jobs; each runs in the transaction of its caller."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from catena.master.store.lists import padded
from catena.master.store.tables import JOBS, RETURNS


class ReturnWithEvent(NamedTuple):
    """A return that contains the data of its event."""

    jid: str
    minion: str
    #: Position of the event.
    event: int


def old_jobs(
    conn: sa.Connection, in_use: Sequence[sa.Select[tuple[str]]], before: float, limit: int
) -> Sequence[str]:
    """Return the jids of at most *limit* jobs that ended before a time, oldest first.

    Args:
        conn: the running transaction.
        in_use: select the jids of jobs to leave out.
        before: seconds since the epoch.
        limit: maximum number of jobs.
    """
    query = sa.select(JOBS.c.jid).where(JOBS.c.ended < before)
    for used in in_use:
        query = query.where(JOBS.c.jid.not_in(used))
    return conn.execute(query.order_by(JOBS.c.ended).limit(limit)).scalars().all()


def drop_jobs(conn: sa.Connection, jids: Sequence[str]) -> int:
    """Delete jobs with their deliveries, returns, progress and output; return their number."""
    return conn.execute(sa.delete(JOBS).where(JOBS.c.jid.in_(padded(jids)))).rowcount


def returns_with_events(
    conn: sa.Connection, jids: Sequence[str], limit: int
) -> list[ReturnWithEvent]:
    """Return at most *limit* returns of some jobs that contain the data of their events."""
    query = sa.select(RETURNS.c.jid, RETURNS.c.minion, RETURNS.c.event)
    query = query.where(RETURNS.c.jid.in_(padded(jids)), RETURNS.c.event.is_not(None))
    return [ReturnWithEvent._make(row) for row in conn.execute(query.limit(limit))]


def drop_returns(conn: sa.Connection, returns: Sequence[ReturnWithEvent]) -> None:
    """Delete returns."""
    minions: defaultdict[str, list[str]] = defaultdict(list)
    for one in returns:
        minions[one.jid].append(one.minion)
    for jid, names in minions.items():
        rule = (RETURNS.c.jid == jid) & RETURNS.c.minion.in_(padded(names))
        conn.execute(sa.delete(RETURNS).where(rule))
