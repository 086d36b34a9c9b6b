"""What `catena doctor` says of jobs that nobody takes, or that nobody ends."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from catena.core.checkup import Finding, Level
from catena.master.jobs import finding_rows

#: How long a job may stand open on a minion that is connected.
OLD_SECONDS = 24 * 3600.0
#: How long a job may wait until its minion takes it.
UNTAKEN_SECONDS = 600.0
#: Minions that are named; the others are counted.
SHOWN = 5


def check(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield what there is to say of the jobs of a store; *conn* is a snapshot."""
    yield from _untaken(conn, now)
    yield from _old(conn, now)


def _untaken(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the minions that take no jobs, the one with most jobs first."""
    found = finding_rows.untaken(conn, now - UNTAKEN_SECONDS)
    for row in found[:SHOWN]:
        if row.up:
            why, advice = "it is connected", f"catena minion show {row.minion}; restart its agent"
        elif row.last_seen:
            why, advice = (
                "it is not connected",
                f"start that host; catena minion show {row.minion}",
            )
        else:
            why, advice = "it was never connected", "catena key list"
        text = f"{row.waiting} jobs wait for {row.minion}, which takes none: {why}"
        yield Finding("jobs", Level.warning, text, advice)
    if len(found) > SHOWN:
        more = f"jobs wait for {len(found) - SHOWN} more minions that take none"
        yield Finding("jobs", Level.warning, more, "catena job list --active")


def _old(conn: sa.Connection, now: float) -> Iterator[Finding]:
    count = finding_rows.count_unended(conn, now - OLD_SECONDS)
    if count:
        text = f"{count} jobs stand for more than a day on minions that are connected"
        yield Finding("jobs", Level.warning, text, "catena job list --active")
