"""Findings of `catena doctor` about hosts over SSH that block a chain."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from catena.core.checkup import Finding, Level
from catena.master.push import rows
from catena.master.push.lifecycle import HostState

#: Maximum number of findings.
_SHOWN = 5


def check(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield a finding for each host over SSH that blocks a chain; *conn* is a snapshot."""
    stuck = (HostState.away, HostState.refused, HostState.unfit)
    for row in rows.holding_chains(conn, stuck, _SHOWN):
        level = Level.note if row.state == HostState.away.value else Level.warning
        text = f"{row.id} blocks chain {row.label!r} ({row.chain}): {row.detail}"
        yield Finding("ssh", level, text, f"catena chain show {row.chain}")
