"""What `catena doctor` says of jobs that nobody takes, or that nobody ends."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from catena.core.checkup import Finding, Level
from catena.master.jobs.delivery import Delivery
from catena.master.store.ssh_tables import SSH_HOSTS
from catena.master.store.tables import DELIVERIES, JOBS, MINIONS

#: How long a job may stand open on a minion that is connected.
OLD_SECONDS = 24 * 3600.0
#: How long a job may wait until its minion takes it.
UNTAKEN_SECONDS = 600.0
#: Minions that are named; the others are counted.
SHOWN = 5
_UNTAKEN = (Delivery.queued.value, Delivery.sent.value)


def check(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield what there is to say of the jobs of a store; *conn* is a snapshot."""
    yield from _untaken(conn, now)
    yield from _old(conn, now)


def _untaken(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the minions that take no jobs, the one with most jobs first."""
    waiting = sa.func.count().label("waiting")
    query = (
        sa.select(DELIVERIES.c.minion, MINIONS.c.up, MINIONS.c.last_seen, waiting)
        .outerjoin(MINIONS, MINIONS.c.id == DELIVERIES.c.minion)
        .where(DELIVERIES.c.state.in_(_UNTAKEN), DELIVERIES.c.changed < now - UNTAKEN_SECONDS)
        .where(DELIVERIES.c.minion.not_in(sa.select(SSH_HOSTS.c.id)))
        .group_by(DELIVERIES.c.minion, MINIONS.c.up, MINIONS.c.last_seen)
        .order_by(waiting.desc(), DELIVERIES.c.minion)
    )
    found = conn.execute(query).all()
    for row in found[:SHOWN]:
        if row.up:
            why, advice = "it is connected", f"catena minion show {row.minion}; restart its agent"
        elif row.last_seen:
            why, advice = (
                "it is not connected",
                f"start that host; catena minion show {row.minion}",
            )
        else:
            why, advice = "it was never connected", "catena key list"
        text = f"{row.waiting} jobs wait for {row.minion}, which takes none: {why}"
        yield Finding("jobs", Level.warning, text, advice)
    if len(found) > SHOWN:
        more = f"jobs wait for {len(found) - SHOWN} more minions that take none"
        yield Finding("jobs", Level.warning, more, "catena job list --active")


def _old(conn: sa.Connection, now: float) -> Iterator[Finding]:
    old = (
        sa.select(sa.func.count())
        .select_from(DELIVERIES)
        .join(JOBS, JOBS.c.jid == DELIVERIES.c.jid)
        .join(MINIONS, MINIONS.c.id == DELIVERIES.c.minion)
        .where(JOBS.c.ended.is_(None), MINIONS.c.up == sa.true())
        .where(DELIVERIES.c.state.in_((Delivery.received.value, Delivery.running.value)))
        .where(DELIVERIES.c.changed < now - OLD_SECONDS)
    )
    count = int(conn.execute(old).scalar_one())
    if count:
        text = f"{count} jobs stand for more than a day on minions that are connected"
        yield Finding("jobs", Level.warning, text, "catena job list --active")
