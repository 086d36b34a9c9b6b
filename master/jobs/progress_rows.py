"""Queries on the stored steps of running jobs; each runs in the transaction of its caller."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.core.job import JobProgress
from catena.master.store.metadata import Ready
from catena.master.store.tables import PROGRESS


class StoredStep(NamedTuple):
    """A step of a job on one minion, as it is stored."""

    minion: str
    #: Number of the step, from 1.
    seq: int
    kind: str
    data: dict[str, Any]
    #: Time by the minion's clock, seconds since the epoch.
    when: float


_STEP = tuple(PROGRESS.c[name] for name in StoredStep._fields)


def is_stored(conn: sa.Connection, minion: str, progress: JobProgress) -> bool:
    """Return whether a step of a job is stored."""
    rule = (PROGRESS.c.jid == progress.jid) & (PROGRESS.c.minion == minion)
    rule = rule & (PROGRESS.c.seq == progress.seq)
    return conn.execute(sa.select(PROGRESS.c.seq).where(rule)).first() is not None


def size(conn: sa.Connection, jid: str, minion: str) -> int:
    """Return the bytes of the data of all stored steps of a job on one minion."""
    sizes = sa.func.sum(sa.func.length(PROGRESS.c.data, type_=sa.BigInteger))
    rule = (PROGRESS.c.jid == jid) & (PROGRESS.c.minion == minion)
    return int(conn.execute(sa.select(sizes).where(rule)).scalar() or 0)


def insert(conn: sa.Connection, minion: str, progress: JobProgress, data: Ready) -> None:
    """Store a step of a job, with its packed data."""
    row = {
        "jid": progress.jid,
        "minion": minion,
        "seq": progress.seq,
        "kind": progress.kind[:32],
        "data": data,
        "when": progress.when,
    }
    conn.execute(sa.insert(PROGRESS).values(row))


def steps(conn: sa.Connection, jid: str) -> list[StoredStep]:
    """Return the stored steps of a job, ordered by minion and number."""
    query = sa.select(*_STEP).where(PROGRESS.c.jid == jid)
    found = conn.execute(query.order_by(PROGRESS.c.minion, PROGRESS.c.seq))
    return [StoredStep._make(row) for row in found]
