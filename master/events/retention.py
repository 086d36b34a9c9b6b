"""Retention of events: they are deleted when they are old and all durable consumers read them."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from catena.master.process.retention import Before, Retention
from catena.master.store.tables import CURSORS, EVENTS

#: Maximum number of events deleted in one transaction.
BATCH = 5000


def seen(conn: sa.Connection, before: float) -> sa.ColumnElement[bool]:
    """Return the condition for events that are old and read by every consumer."""
    rule = EVENTS.c.at < before
    slowest = conn.execute(sa.select(sa.func.min(CURSORS.c.seq))).scalar()
    return rule if slowest is None else rule & (EVENTS.c.seq <= slowest)


def _drop(conn: sa.Connection, before: Before) -> Mapping[str, int]:
    rule = seen(conn, before["events"])
    last = sa.select(EVENTS.c.seq).where(rule).order_by(EVENTS.c.seq)
    seqs = conn.execute(last.limit(BATCH)).scalars().all()
    if not seqs:
        return {}
    # The clock may have been set back, so check the age of events in between, too.
    between = EVENTS.c.seq.between(seqs[0], seqs[-1])
    return {"events": conn.execute(sa.delete(EVENTS).where(between & rule)).rowcount}


RETENTION = Retention(
    "events",
    lambda settings, now: now - settings.keep_events_hours * 3600,
    _drop,
    shrinks=True,
)
