"""Findings of `catena doctor` about jobs that minions do not accept, or do not end."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from catena.core.checkup import Finding, Level
from catena.master.jobs import finding_rows

#: Seconds for which a job may be open on a connected minion before it is a finding.
OLD_SECONDS = 24 * 3600.0
#: Seconds after which a job that its minion has not accepted is a finding.
UNACCEPTED_SECONDS = 600.0
#: Maximum number of minions that are named; the others are counted.
SHOWN = 5


def check(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the findings about the jobs of a store; *conn* is a snapshot."""
    yield from _unaccepted(conn, now)
    yield from _old(conn, now)


def _unaccepted(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the minions that do not accept their jobs, the one with most jobs first."""
    found = finding_rows.unaccepted(conn, now - UNACCEPTED_SECONDS)
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
        text = f"{row.waiting} jobs wait for {row.minion}, which accepts none: {why}"
        yield Finding("jobs", Level.warning, text, advice)
    if len(found) > SHOWN:
        more = f"jobs wait for {len(found) - SHOWN} more minions, which accept none"
        yield Finding("jobs", Level.warning, more, "catena job list --active")


def _old(conn: sa.Connection, now: float) -> Iterator[Finding]:
    count = finding_rows.count_unended(conn, now - OLD_SECONDS)
    if count:
        text = f"{count} jobs have been open for more than a day on connected minions"
        yield Finding("jobs", Level.warning, text, "catena job list --active")
