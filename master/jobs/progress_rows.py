"""Queries on the stored steps of running jobs; each runs in the transaction of its caller."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.core.job import JobProgress
from catena.master.store.tables import PROGRESS


class StoredStep(NamedTuple):
    """A step that a job made on one minion."""

    minion: str
    seq: int
    kind: str
    data: dict[str, Any]
    #: By the minion's clock, seconds since the epoch.
    when: float


_STEP = tuple(PROGRESS.c[name] for name in StoredStep._fields)


def insert(conn: sa.Connection, minion: str, progress: JobProgress) -> bool:
    """Store a step of a job; return False if it is stored already."""
    rule = (PROGRESS.c.jid == progress.jid) & (PROGRESS.c.minion == minion)
    rule = rule & (PROGRESS.c.seq == progress.seq)
    if conn.execute(sa.select(PROGRESS.c.seq).where(rule)).first() is not None:
        return False
    row = {
        "jid": progress.jid,
        "minion": minion,
        "seq": progress.seq,
        "kind": progress.kind[:32],
        "data": progress.data,
        "when": progress.when,
    }
    conn.execute(sa.insert(PROGRESS).values(row))
    return True


def steps(conn: sa.Connection, jid: str) -> list[StoredStep]:
    """Return the stored steps of a job, per minion in their order."""
    query = sa.select(*_STEP).where(PROGRESS.c.jid == jid)
    found = conn.execute(query.order_by(PROGRESS.c.minion, PROGRESS.c.seq))
    return [StoredStep._make(row) for row in found]
