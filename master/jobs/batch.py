"""How many minions of a batched job work at a time, and who is next."""

from __future__ import annotations

import random
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from catena.core.errors import UsageError
from catena.master.jobs.delivery import OPEN, Delivery
from catena.master.store.tables import DELIVERIES, JOBS, RETURNS

_SIZE = re.compile(r"([0-9]{1,7})(%?)\Z")


def size(text: str, total: int) -> int:
    """Return the number that "5" or "20%" of *total* minions means; at least 1, "" is all (0).

    Raises:
        UsageError: it is neither a number nor a percentage from 1% to 100%.
    """
    if not text:
        return 0
    found = _SIZE.match(text.strip())
    if found is None:
        raise UsageError(f"batch {text[:40]!r}: expected a number or a percentage, as 5 or 20%")
    number = int(found[1])
    if not found[2]:
        if number < 1:
            raise UsageError("batch: at least 1")
        return number
    if not 1 <= number <= 100:
        raise UsageError(f"batch {text!r}: a percentage is from 1% to 100%")
    return max(1, total * number // 100)


def first_states(
    minions: Sequence[str], limit: int, connected: Container[str], sent: Container[str] = ()
) -> dict[str, Delivery]:
    """Return the first state of each delivery: at most *limit* connected minions begin.

    A minion that is away takes no place of the batch; it waits until it connects and a place is
    free. What begins is stored as `sent` at once for those of *sent*, whom the order reaches next:
    to say so after it had gone would be another statement for each.
    """
    states = {}
    begun = 0
    for minion in minions:
        begins = not limit or (begun < limit and minion in connected)
        begun += begins
        first = Delivery.sent if minion in sent else Delivery.queued
        states[minion] = first if begins else Delivery.held
    return states


@dataclass(frozen=True, slots=True)
class BatchMoves:
    """What becomes of the held deliveries of a batched job, as (jid, minion, state)."""

    #: Those that begin now.
    begin: tuple[tuple[str, str, str], ...] = ()
    #: Those that never begin, because an earlier minion failed.
    cancel: tuple[tuple[str, str, str], ...] = ()


def next_of(
    conn: sa.Connection, jid: str, limit: int, connected: Container[str], now: float
) -> BatchMoves:
    """Return which held deliveries of a batched job begin, or are cancelled.

    The caller moves them in the same transaction. `connected` is read from the writer's thread; a
    minion that leaves meanwhile merely waits as queued.

    Args:
        conn: the running transaction.
        jid: the job.
        limit: its batch.
        connected: ids of the minions that are connected.
        now: the master's time.
    """
    query = sa.select(DELIVERIES.c.minion, DELIVERIES.c.state, DELIVERIES.c.changed)
    rows = conn.execute(query.where(DELIVERIES.c.jid == jid).order_by(DELIVERIES.c.minion)).all()
    held = [r for r in rows if r.state == Delivery.held.value]
    if not held:
        return BatchMoves()
    rule = conn.execute(
        sa.select(JOBS.c.batch_wait, JOBS.c.batch_failhard).where(JOBS.c.jid == jid)
    ).one()
    if rule.batch_failhard and _has_failed(conn, jid, {r.state for r in rows}):
        return BatchMoves(cancel=tuple((jid, r.minion, r.state) for r in held))
    busy = {Delivery.received.value, Delivery.running.value}
    on_the_way = {Delivery.queued.value, Delivery.sent.value}
    active = sum(
        r.state in busy
        or (r.state in on_the_way and r.minion in connected)
        or (r.state not in OPEN and now - rule.batch_wait < r.changed <= now)
        for r in rows
    )
    waiting = [r for r in held if r.minion in connected]
    return BatchMoves(tuple((jid, r.minion, r.state) for r in waiting[: max(0, limit - active)]))


def _has_failed(conn: sa.Connection, jid: str, states: Container[str]) -> bool:
    """Return whether a minion of the job failed, refused it or lost it."""
    if Delivery.rejected.value in states or Delivery.lost.value in states:
        return True
    bad = sa.or_(RETURNS.c.retcode != 0, sa.not_(RETURNS.c.success))
    query = sa.select(sa.literal(1)).where(RETURNS.c.jid == jid, bad).limit(1)
    return conn.execute(query).first() is not None


def subset(minions: Sequence[str], count: int, connected: Container[str]) -> tuple[str, ...]:
    """Return *count* random ones of *minions*, sorted; connected ones first; 0 means all."""
    if not 0 < count < len(minions):
        return tuple(minions)
    there = [name for name in minions if name in connected]
    away = [name for name in minions if name not in connected]
    picked = random.sample(there, min(count, len(there)))
    return tuple(sorted(picked + random.sample(away, count - len(picked))))
