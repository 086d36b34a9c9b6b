"""Finds unusual growth of the store and its cause, for `doctor`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from catena.core.checkup import Finding, Level
from catena.core.ids import jid_at
from catena.master.store.tables import EVENTS, JOBS, RETURNS

#: Period that is examined, in seconds.
LOOK_SECONDS = 3600.0
#: Number of jobs of one function in that period that is a finding.
MANY_JOBS = 2000
#: Number of events of one kind in that period that is a finding.
MANY_EVENTS = 100_000
MIB = 1024 * 1024
#: Number of events that are read to distinguish their kinds.
_SAMPLE = 20_000


@dataclass(frozen=True, slots=True)
class Growth:
    """The largest addition to the store in the last hour."""

    what: str
    count: int
    #: Bytes of its rows in the store (returns, data of events), without indexes.
    size: int = 0


def findings(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield why the store grows, if it grows unusually.

    Args:
        conn: reads the store.
        now: wall clock, seconds since the epoch.
    """
    for growth, limit, advice in (
        (_jobs(conn, now), MANY_JOBS, "catena job list --limit 20 shows their users"),
        (_events(conn, now), MANY_EVENTS, "catena event watch shows who sends them"),
    ):
        if growth is not None and growth.count >= limit:
            yield Finding("store", Level.warning, _sentence(growth, now), advice)


def _sentence(growth: Growth, now: float) -> str:
    since = time.strftime("%H:%M UTC", time.gmtime(now - LOOK_SECONDS))
    size = f", about {max(1, growth.size // MIB)} MB" if growth.size else ""
    return f"the store grows: {growth.count} {growth.what} since {since}{size}"


def _jid(now: float) -> str:
    """Return a jid at the beginning of the examined period."""
    return jid_at(datetime.fromtimestamp(now - LOOK_SECONDS, UTC))


def _jobs(conn: sa.Connection, now: float) -> Growth | None:
    """Return the function with the most jobs."""
    number = sa.func.count()
    query = (
        sa.select(JOBS.c.fun, number)
        .where(JOBS.c.jid > _jid(now))
        .group_by(JOBS.c.fun)
        .order_by(number.desc())
        .limit(1)
    )
    row = conn.execute(query).first()
    if row is None:
        return None
    if row[1] < MANY_JOBS:
        return Growth(f"jobs {row[0]}", int(row[1]))
    size = sa.func.sum(sa.func.length(RETURNS.c.ret, type_=sa.BigInteger))
    returned = sa.select(size).where(RETURNS.c.jid > _jid(now), JOBS.c.fun == row[0])
    joined = returned.join_from(RETURNS, JOBS, JOBS.c.jid == RETURNS.c.jid)
    bytes_ = int(conn.execute(joined).scalar() or 0)
    return Growth(f"jobs {row[0]}", int(row[1]), bytes_)


def _events(conn: sa.Connection, now: float) -> Growth | None:
    """Return the most frequent sender among the newest events, and the number of events."""
    recent = EVENTS.c.at > now - LOOK_SECONDS
    total = int(conn.execute(sa.select(sa.func.count()).where(recent)).scalar_one())
    if total < MANY_EVENTS:
        return None
    size = sa.func.length(EVENTS.c.data, type_=sa.BigInteger).label("size")
    newest = sa.select(EVENTS.c.source, size).where(recent).order_by(EVENTS.c.seq.desc())
    newest_rows = newest.limit(_SAMPLE).subquery()
    number = sa.func.count()
    query = sa.select(newest_rows.c.source, number).group_by(newest_rows.c.source)
    row = conn.execute(query.order_by(number.desc()).limit(1)).one()
    mean = conn.execute(sa.select(sa.func.avg(newest_rows.c.size))).scalar() or 0
    what = f"events, most of them from {row[0] or 'the master itself'},"
    return Growth(what, total, int(float(mean) * total))
