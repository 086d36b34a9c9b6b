"""Queries for the findings of `catena doctor` about jobs; *conn* is a snapshot in each."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from catena.master.jobs.delivery import Delivery
from catena.master.store.ssh_tables import SSH_HOSTS
from catena.master.store.tables import DELIVERIES, JOBS, MINIONS

_UNACCEPTED = (Delivery.queued.value, Delivery.sent.value)
_ACCEPTED = (Delivery.received.value, Delivery.running.value)


class WaitingJobs(NamedTuple):
    """The jobs that a minion does not accept."""

    minion: str
    #: Whether the minion is connected; None: it was never connected.
    up: bool | None
    #: Time of its last message, seconds since the epoch; None: it was never connected.
    last_seen: float | None
    #: Number of jobs.
    waiting: int


def unaccepted(conn: sa.Connection, before: float) -> list[WaitingJobs]:
    """Return the minions that do not accept their jobs, the one with most jobs first.

    Args:
        conn: a snapshot.
        before: count jobs whose deliveries changed before this time, seconds since the epoch.
    """
    waiting = sa.func.count().label("waiting")
    query = (
        sa.select(DELIVERIES.c.minion, MINIONS.c.up, MINIONS.c.last_seen, waiting)
        .outerjoin(MINIONS, MINIONS.c.id == DELIVERIES.c.minion)
        .where(DELIVERIES.c.state.in_(_UNACCEPTED), DELIVERIES.c.changed < before)
        .where(DELIVERIES.c.minion.not_in(sa.select(SSH_HOSTS.c.id)))
        .group_by(DELIVERIES.c.minion, MINIONS.c.up, MINIONS.c.last_seen)
        .order_by(waiting.desc(), DELIVERIES.c.minion)
    )
    return [WaitingJobs._make(row) for row in conn.execute(query)]


def count_unended(conn: sa.Connection, before: float) -> int:
    """Return the number of open deliveries that connected minions accepted before a time."""
    query = (
        sa.select(sa.func.count())
        .select_from(DELIVERIES)
        .join(JOBS, JOBS.c.jid == DELIVERIES.c.jid)
        .join(MINIONS, MINIONS.c.id == DELIVERIES.c.minion)
        .where(JOBS.c.ended.is_(None), MINIONS.c.up == sa.true())
        .where(DELIVERIES.c.state.in_(_ACCEPTED), DELIVERIES.c.changed < before)
    )
    return int(conn.execute(query).scalar_one())
