"""What `catena doctor` says of minions that are in conflict or not connected."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from catena.core.checkup import Finding, Level, listed
from catena.master.store.ssh_tables import SSH_HOSTS
from catena.master.store.tables import MINIONS

_LIMIT = 10_000


def check(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the minions that two hosts claim, and those that are away."""
    query = sa.select(MINIONS.c.id).where(MINIONS.c.conflict != "")
    clash = listed(conn.execute(query.limit(_LIMIT)).scalars())
    if clash:
        advice = "two hosts claim one identity: catena minion show NAME says which"
        yield Finding("minions", Level.warning, f"in conflict: {clash}", advice)
    by_ssh = sa.select(SSH_HOSTS.c.id)
    down = sa.select(MINIONS.c.id).where(MINIONS.c.up == sa.false(), MINIONS.c.last_seen > 0)
    down = down.where(MINIONS.c.id.not_in(by_ssh))
    away = listed(conn.execute(down.limit(_LIMIT)).scalars())
    if away:
        yield Finding("minions", Level.note, f"not connected: {away}", "catena minion list")
