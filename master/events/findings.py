"""Findings of `catena doctor` about events, their consumers and failed reactions."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from catena.core import checkup
from catena.core.checkup import Finding, Level
from catena.master.events import reaction_rows, rows

#: Number of events that a consumer may be behind before it is a finding.
LAG = 1000
#: Seconds for which the report of a damaged file is shown.
DAMAGE_SECONDS = 7 * 24 * 3600.0
_SHOWN = 5


def lag(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the durable consumers that are far behind the newest event."""
    last = rows.last_seq(conn)
    for consumer, seq in rows.cursors(conn).items():
        if last - seq > LAG:
            text = f"{consumer} is {last - seq} events behind"
            yield Finding("events", Level.warning, text, "look for the reason in the master's log")


def reactions(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield for each file the number of failed reactions and the newest error."""
    for file, count, error, attempts in reaction_rows.failing_files(conn, _SHOWN):
        text = (
            f"{file}: {count} failed reactions are retried; the newest failed {attempts} times: "
        )
        advice = "correct the file, then: catena runner reactor.retry (list: reactor.waiting)"
        yield Finding("reactions", Level.warning, text + error.partition("\n")[0][:200], advice)


def damaged(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the recently damaged files of minions."""
    for event in rows.damage_reports(conn, now - DAMAGE_SECONDS, _SHOWN):
        source, data = event.source, event.data
        text = f"{source}: {data.get('path')} was damaged; lost: {data.get('lost')}"
        yield Finding("damage", Level.warning, text, f"on {source}: catena doctor minion")


def unreadable(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the damaged rows of the event table that were met lately."""
    for event in rows.unreadable_reports(conn, now - DAMAGE_SECONDS, _SHOWN):
        data = event.data
        text = f"event {data['seq']} ({data['tag']}) can't be read: {data['error']}"
        advice = "nothing reacts to it; check the disk, then: catena store check"
        yield Finding("events", Level.warning, text, advice)


def clock(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield a finding if the clock is behind the newest event."""
    yield checkup.clock(rows.newest_time(conn))
