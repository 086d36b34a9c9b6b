"""Findings of `catena doctor` about minions in conflict or not connected."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from catena.core.checkup import Finding, Level, listed
from catena.master.minions import rows


def check(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the minions that two hosts claim, and those that are down."""
    clash = listed(rows.in_conflict(conn))
    if clash:
        advice = "two hosts claim one identity: catena minion show NAME says which"
        yield Finding("minions", Level.warning, f"in conflict: {clash}", advice)
    away = listed(rows.away(conn))
    if away:
        yield Finding("minions", Level.note, f"not connected: {away}", "catena minion list")
