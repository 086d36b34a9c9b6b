"""How long jobs that have ended are kept, and what goes with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

import sqlalchemy as sa

from catena.master.events import return_rows
from catena.master.events import rows as event_rows
from catena.master.process.retention import Before, Retention
from catena.master.store.lists import padded
from catena.master.store.tables import JOBS, RETURNS

#: Jobs, and returns with events of their own, that one transaction drops.
JOBS_BATCH = 200
RETURNS_BATCH = 250


def retention(in_use: Sequence[sa.Select[tuple[str]]]) -> Retention:
    """Return the retention of jobs.

    Args:
        in_use: select the jids of ended jobs that an engine may still ask for.
    """
    return Retention(
        "jobs",
        lambda settings, now: now - settings.keep_jobs_hours * 3600,
        partial(_drop, in_use),
        shrinks=True,
        counts=("returns",),
    )


def _drop(
    in_use: Sequence[sa.Select[tuple[str]]], conn: sa.Connection, before: Before
) -> Mapping[str, int]:
    old = sa.select(JOBS.c.jid).where(JOBS.c.ended < before["jobs"])
    for query in in_use:
        old = old.where(JOBS.c.jid.not_in(query))
    jids = conn.execute(old.order_by(JOBS.c.ended).limit(JOBS_BATCH)).scalars().all()
    if not jids:
        return {}
    told = _drop_told(conn, jids, before["events"])
    if told.get("returns") == RETURNS_BATCH:
        return told
    jobs = conn.execute(sa.delete(JOBS).where(JOBS.c.jid.in_(padded(jids)))).rowcount
    return {**told, "jobs": jobs}


def _drop_told(conn: sa.Connection, jids: Sequence[str], before: float) -> Mapping[str, int]:
    """Drop returns that have the data of their events: those go as well, or get it."""
    query = sa.select(RETURNS.c.jid, RETURNS.c.minion, RETURNS.c.event)
    query = query.where(RETURNS.c.jid.in_(padded(jids)), RETURNS.c.event.is_not(None))
    rows = conn.execute(query.limit(RETURNS_BATCH)).all()
    if not rows:
        return {}
    seqs = [row.event for row in rows]
    gone = event_rows.drop_seen_of(conn, seqs, before)
    return_rows.give_back(conn, seqs)
    minions: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        minions[row.jid].append(row.minion)
    for jid, names in minions.items():
        rule = (RETURNS.c.jid == jid) & RETURNS.c.minion.in_(padded(names))
        conn.execute(sa.delete(RETURNS).where(rule))
    return {"events": gone, "returns": len(rows)}
