"""What `catena doctor` says of hosts over SSH that hold a chain."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from catena.core.checkup import Finding, Level
from catena.master.push import rows
from catena.master.push.lifecycle import HostState

_SHOWN = 5


def check(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the hosts over SSH that hold a chain, and why."""
    stuck = (HostState.away, HostState.refused, HostState.unfit)
    for row in rows.holding_chains(conn, stuck, _SHOWN):
        level = Level.note if row.state == HostState.away.value else Level.warning
        text = f"{row.id} holds chain {row.label!r} ({row.chain}): {row.detail}"
        yield Finding("ssh", level, text, f"catena chain show {row.chain}")
