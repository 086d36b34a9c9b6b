"""How many minions of a batched job work at a time, and who is next."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

import sqlalchemy as sa

from catena.core.errors import UsageError
from catena.master.jobs.delivery import Delivery
from catena.master.store.tables import DELIVERIES

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


def next_of(
    conn: sa.Connection, jid: str, limit: int, connected: Container[str]
) -> list[tuple[str, str, str]]:
    """Return (jid, minion, state) of the held deliveries whose turn has come.

    The caller releases them in the same transaction. `connected` is read from the writer's
    thread; a minion that leaves meanwhile merely waits as queued.
    """
    query = sa.select(DELIVERIES.c.minion, DELIVERIES.c.state).where(DELIVERIES.c.jid == jid)
    rows = conn.execute(query.order_by(DELIVERIES.c.minion)).all()
    busy = {Delivery.received.value, Delivery.running.value}
    on_the_way = {Delivery.queued.value, Delivery.sent.value}
    active = sum(
        r.state in busy or (r.state in on_the_way and r.minion in connected) for r in rows
    )
    waiting = [r for r in rows if r.state == Delivery.held.value and r.minion in connected]
    return [(jid, r.minion, r.state) for r in waiting[: max(0, limit - active)]]
