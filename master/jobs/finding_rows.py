"""Queries of the check-up of jobs; *conn* is a snapshot in each."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from catena.master.jobs.delivery import Delivery
from catena.master.store.ssh_tables import SSH_HOSTS
from catena.master.store.tables import DELIVERIES, JOBS, MINIONS

_UNTAKEN = (Delivery.queued.value, Delivery.sent.value)
_TAKEN = (Delivery.received.value, Delivery.running.value)


class WaitingJobs(NamedTuple):
    """Jobs that their minion does not take."""

    minion: str
    #: Whether the minion is connected, and when it was last heard of, in seconds since the epoch;
    #: None: it was never connected.
    up: bool | None
    last_seen: float | None
    #: Number of jobs.
    waiting: int


def untaken(conn: sa.Connection, before: float) -> list[WaitingJobs]:
    """Return the minions that take no jobs, the one with most jobs first.

    Args:
        conn: a snapshot.
        before: jobs whose deliveries changed before this time, seconds since the epoch.
    """
    waiting = sa.func.count().label("waiting")
    query = (
        sa.select(DELIVERIES.c.minion, MINIONS.c.up, MINIONS.c.last_seen, waiting)
        .outerjoin(MINIONS, MINIONS.c.id == DELIVERIES.c.minion)
        .where(DELIVERIES.c.state.in_(_UNTAKEN), DELIVERIES.c.changed < before)
        .where(DELIVERIES.c.minion.not_in(sa.select(SSH_HOSTS.c.id)))
        .group_by(DELIVERIES.c.minion, MINIONS.c.up, MINIONS.c.last_seen)
        .order_by(waiting.desc(), DELIVERIES.c.minion)
    )
    return [WaitingJobs._make(row) for row in conn.execute(query)]


def count_unended(conn: sa.Connection, before: float) -> int:
    """Return the number of deliveries that connected minions took before a time and do not end."""
    query = (
        sa.select(sa.func.count())
        .select_from(DELIVERIES)
        .join(JOBS, JOBS.c.jid == DELIVERIES.c.jid)
        .join(MINIONS, MINIONS.c.id == DELIVERIES.c.minion)
        .where(JOBS.c.ended.is_(None), MINIONS.c.up == sa.true())
        .where(DELIVERIES.c.state.in_(_TAKEN), DELIVERIES.c.changed < before)
    )
    return int(conn.execute(query).scalar_one())
