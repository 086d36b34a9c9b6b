"""Findings of `catena doctor` about events, their consumers and failed reactions."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from catena.core import checkup
from catena.core.checkup import Finding, Level
from catena.master.store.tables import CURSORS, EVENTS, REACTIONS

#: Number of events that a consumer may be behind before it is a finding.
LAG = 1000
#: Seconds for which the report of a damaged file is shown.
DAMAGE_SECONDS = 7 * 24 * 3600.0
_SHOWN = 5


def lag(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the durable consumers that are far behind the newest event."""
    last = int(conn.execute(sa.select(sa.func.max(EVENTS.c.seq))).scalar() or 0)
    for consumer, seq in conn.execute(sa.select(CURSORS.c.consumer, CURSORS.c.seq)):
        if last - seq > LAG:
            text = f"{consumer} is {last - seq} events behind"
            yield Finding("events", Level.warning, text, "the master's log says what it waits for")


def reactions(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield for each file the number of failed reactions and the newest error."""
    newest = sa.func.max(REACTIONS.c.id)
    query = sa.select(REACTIONS.c.file, sa.func.count(), newest).group_by(REACTIONS.c.file)
    for file, count, row in conn.execute(query.order_by(REACTIONS.c.file).limit(_SHOWN)):
        one = sa.select(REACTIONS.c.error, REACTIONS.c.attempts).where(REACTIONS.c.id == row)
        error, attempts = conn.execute(one).one()
        text = f"{file}: {count} to be tried again; the newest, tried {attempts} times so far: "
        advice = "mend the file, then: catena runner reactor.retry (catena runner reactor.waiting)"
        yield Finding("reactions", Level.warning, text + error.partition("\n")[0][:200], advice)


def damaged(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the recently damaged files of minions."""
    query = (
        sa.select(EVENTS.c.source, EVENTS.c.data)
        .where(EVENTS.c.at > now - DAMAGE_SECONDS)
        .where(EVENTS.c.tag.like("minion/%/event/damaged"), EVENTS.c.source != "")
        .order_by(EVENTS.c.seq.desc())
    )
    for source, data in conn.execute(query.limit(_SHOWN)):
        text = f"{source}: {data.get('path')} was damaged; lost: {data.get('lost')}"
        yield Finding("damage", Level.warning, text, f"on {source}: catena doctor minion")


def clock(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield a finding if the clock is behind the newest event."""
    newest = conn.execute(sa.select(sa.func.max(EVENTS.c.at))).scalar()
    yield checkup.clock(float(newest or 0.0))
