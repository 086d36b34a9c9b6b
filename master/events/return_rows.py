"""Queries on events whose data is stored only once, with the return (`return_events`).

Each function runs in the transaction of its caller.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from catena.core import events
from catena.core.job import JobReturn
from catena.core.records import decode
from catena.master.events.return_events import event_data
from catena.master.events.rows import EventHead
from catena.master.store.lists import padded, slices
from catena.master.store.metadata import WITH_ANOTHER
from catena.master.store.tables import EVENTS, RETURNS

#: Number of events whose data is copied at a time; each may take megabytes of memory.
COPIED_AT_ONCE = 20
_OF_JOB = sa.select(RETURNS.c.minion, RETURNS.c.ret, RETURNS.c.stored).where(
    RETURNS.c.jid == sa.bindparam("b_jid"),
    RETURNS.c.minion.in_(sa.bindparam("b_minions", expanding=True)),
)
_SET_DATA = (
    sa.update(EVENTS)
    .where(EVENTS.c.seq == sa.bindparam("b_seq"))
    .values(data=sa.bindparam("b_data"))
)


def data(conn: sa.Connection, heads: Iterable[EventHead]) -> Mapping[int, dict[str, Any]]:
    """Return position -> data of events whose data is stored only with the return.

    Args:
        conn: a snapshot.
        heads: of events of returns.
    """
    wanted: defaultdict[str, dict[str, int]] = defaultdict(dict)
    found: dict[int, dict[str, Any]] = {}
    for seq, tag in heads:
        jid, minion = events.returned_by(tag)
        wanted[jid][minion] = seq
        # Without a return the data is lost. Only rows deleted by hand cause this, because
        # `copy_to_events` runs before a return is deleted.
        found[seq] = {"cmd": "_return", "id": minion, "jid": jid, "return": None}
    for jid, seqs in wanted.items():
        for row in conn.execute(_OF_JOB, {"b_jid": jid, "b_minions": padded(seqs)}):
            found[seqs[row.minion]] = event_data(
                row.minion, decode(JobReturn, row.ret), row.stored
            )
    return found


def copy_to_events(conn: sa.Connection, seqs: Sequence[int]) -> None:
    """Copy the data of returns that are about to be deleted into their events.

    Args:
        conn: the running transaction.
        seqs: positions of the events, at most some thousands.
    """
    query = sa.select(EVENTS.c.seq, EVENTS.c.tag)
    query = query.where(EVENTS.c.seq.in_(padded(seqs)), EVENTS.c.data == WITH_ANOTHER)
    shared = [EventHead._make(row) for row in conn.execute(query)]
    for some in slices(shared, COPIED_AT_ONCE):
        found = data(conn, some)
        conn.execute(_SET_DATA, [{"b_seq": seq, "b_data": what} for seq, what in found.items()])
