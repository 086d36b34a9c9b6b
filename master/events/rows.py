"""Queries on events and on the positions of their durable consumers.

Each function runs in the transaction of its caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.master.store.fast.lookup import Lookup
from catena.master.store.fast.serials import KeyedInsert
from catena.master.store.lists import padded
from catena.master.store.metadata import Ready
from catena.master.store.tables import CURSORS, EVENTS

#: Tag of the event that a row of the event table is damaged.
UNREADABLE = "catena/event/unreadable"


class NewEventRow(NamedTuple):
    """An event about to be stored."""

    tag: str
    #: WITH_ANOTHER: the return that the tag names contains the data.
    data: Ready
    #: Seconds since the epoch.
    at: float
    #: Minion id; "" for the master's own events.
    source: str
    #: The minion's own id of the event; None for the master's own events.
    event_id: str | None


class EventHead(NamedTuple):
    """Position and tag of a stored event."""

    seq: int
    tag: str


class StoredEvent(NamedTuple):
    """An event as it is stored."""

    seq: int
    tag: str
    #: None: the return that the tag names contains the data (`return_rows.data`).
    data: Any
    #: Seconds since the epoch.
    at: float
    source: str


# Statements of the hot path are built once: building one costs more than running it.
_INSERT = KeyedInsert(EVENTS.c.seq, NewEventRow._fields)
_KNOWN = Lookup(
    sa.select(EVENTS.c.seq).where(
        EVENTS.c.source == sa.bindparam("b_source"), EVENTS.c.event_id == sa.bindparam("b_event")
    ),
    int,
)
_HEADS = (
    sa.select(EVENTS.c.seq, EVENTS.c.tag)
    .where(EVENTS.c.seq > sa.bindparam("b_after"))
    .order_by(EVENTS.c.seq)
    .limit(sa.bindparam("b_limit"))
)
_PACKED_HEADS = _HEADS.with_only_columns(
    EVENTS.c.seq, sa.cast(EVENTS.c.tag, sa.LargeBinary).label("tag")
)
_EVENT_ROWS: sa.Select[Any] = sa.select(*(EVENTS.c[name] for name in StoredEvent._fields))
_AT_POSITIONS = _EVENT_ROWS.where(
    EVENTS.c.seq.in_(sa.bindparam("b_seqs", expanding=True))
).order_by(EVENTS.c.seq)


# -- events ------------------------------------------------------------------------------------


def insert(conn: sa.Connection, news: Sequence[NewEventRow]) -> Sequence[int]:
    """Store events; return their positions in the same order.

    Raises:
        sqlalchemy.exc.IntegrityError: a source has sent an event with this id before.
    """
    return _INSERT.run(conn, news)


def is_known(conn: sa.Connection, source: str, event_id: str) -> bool:
    """Return whether a minion's event is stored."""
    return _KNOWN.one(conn, {"b_source": source, "b_event": event_id}) is not None


def last_seq(conn: sa.Connection) -> int:
    """Return the position of the newest event; 0 if there is none."""
    return int(conn.execute(sa.select(sa.func.max(EVENTS.c.seq))).scalar() or 0)


def newest_time(conn: sa.Connection) -> float:
    """Return the time of the newest event, seconds since the epoch; 0 if there is none."""
    return float(conn.execute(sa.select(sa.func.max(EVENTS.c.at))).scalar() or 0.0)


def heads(conn: sa.Connection, after: int, limit: int) -> list[EventHead]:
    """Return at most *limit* events after a position, in order, without their data."""
    found = conn.execute(_HEADS, {"b_after": after, "b_limit": limit})
    return [EventHead._make(row) for row in found]


def packed_heads(conn: sa.Connection, after: int, limit: int) -> list[tuple[int, bytes]]:
    """Return what `heads` returns with the bytes of each tag, which may be damaged text."""
    found = conn.execute(_PACKED_HEADS, {"b_after": after, "b_limit": limit})
    return [(seq, bytes(tag)) for seq, tag in found]


def is_damaged_text(error: sa.exc.OperationalError) -> bool:
    """Return whether the text of a row is damaged; otherwise the database can't be used."""
    return "Could not decode to UTF-8" in str(error.orig)


def at_positions(conn: sa.Connection, seqs: Sequence[int]) -> list[StoredEvent]:
    """Return the events at some positions, in order."""
    if not seqs:
        return []
    return [
        StoredEvent._make(row) for row in conn.execute(_AT_POSITIONS, {"b_seqs": padded(seqs)})
    ]


def damage_reports(conn: sa.Connection, after: float, limit: int) -> list[StoredEvent]:
    """Return the newest events in which minions report a damaged file.

    Args:
        conn: a snapshot.
        after: time after which they were stored, seconds since the epoch.
        limit: maximum number of events.
    """
    rule = (EVENTS.c.source != "") & EVENTS.c.tag.like("minion/%/event/damaged")
    return _newest(conn, rule, after, limit)


def unreadable_reports(conn: sa.Connection, after: float, limit: int) -> list[StoredEvent]:
    """Return the newest events in which this master reports a damaged row of the event table.

    Args:
        conn: a snapshot.
        after: time after which they were stored, seconds since the epoch.
        limit: maximum number of events.
    """
    rule = (EVENTS.c.source == "") & (EVENTS.c.tag == UNREADABLE)
    return _newest(conn, rule, after, limit)


def _newest(
    conn: sa.Connection, rule: sa.ColumnElement[bool], after: float, limit: int
) -> list[StoredEvent]:
    query = _EVENT_ROWS.where(EVENTS.c.at > after, rule).order_by(EVENTS.c.seq.desc())
    return [StoredEvent._make(row) for row in conn.execute(query.limit(limit))]


# -- consumers ---------------------------------------------------------------------------------


def cursor(conn: sa.Connection, consumer: str) -> int | None:
    """Return the stored position of *consumer*; None if it is a new consumer."""
    return conn.execute(sa.select(CURSORS.c.seq).where(CURSORS.c.consumer == consumer)).scalar()


def cursors(conn: sa.Connection) -> dict[str, int]:
    """Return the position of each durable consumer, by its name."""
    found = conn.execute(sa.select(CURSORS.c.consumer, CURSORS.c.seq))
    return {consumer: seq for consumer, seq in found}


def move_cursor(conn: sa.Connection, consumer: str, seq: int) -> None:
    """Store that *consumer* has processed everything up to *seq*."""
    update = sa.update(CURSORS).where(CURSORS.c.consumer == consumer).values(seq=seq)
    if not conn.execute(update).rowcount:
        conn.execute(sa.insert(CURSORS).values(consumer=consumer, seq=seq))


# -- retention ---------------------------------------------------------------------------------


def drop_seen(conn: sa.Connection, before: float, limit: int) -> int:
    """Delete the first events that are old and that all consumers have read.

    Args:
        conn: the running transaction.
        before: events stored before this time are old, seconds since the epoch.
        limit: maximum number of events.

    Returns:
        The number of deleted events.
    """
    rule = _seen(conn, before)
    first = sa.select(EVENTS.c.seq).where(rule).order_by(EVENTS.c.seq)
    seqs = conn.execute(first.limit(limit)).scalars().all()
    if not seqs:
        return 0
    # The clock may have been set back, so check the age of events in between, too.
    between = EVENTS.c.seq.between(seqs[0], seqs[-1])
    return conn.execute(sa.delete(EVENTS).where(between & rule)).rowcount


def drop_seen_of(conn: sa.Connection, seqs: Sequence[int], before: float) -> int:
    """Delete those of some events that are old and that all consumers have read.

    Args:
        conn: the running transaction.
        seqs: positions of the events, at most some thousands.
        before: as of `drop_seen`.

    Returns:
        The number of deleted events.
    """
    rule = EVENTS.c.seq.in_(padded(seqs)) & _seen(conn, before)
    return conn.execute(sa.delete(EVENTS).where(rule)).rowcount


def _seen(conn: sa.Connection, before: float) -> sa.ColumnElement[bool]:
    """Return the condition for events that are old and read by every consumer."""
    rule = EVENTS.c.at < before
    slowest = conn.execute(sa.select(sa.func.min(CURSORS.c.seq))).scalar()
    return rule if slowest is None else rule & (EVENTS.c.seq <= slowest)
