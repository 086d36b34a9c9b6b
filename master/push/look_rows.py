"""Queries on the facts that visits read; each runs in its caller's transaction."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from catena import __version__
from catena.master.chains import rows as chain_rows
from catena.master.chains.model import ChainMinion
from catena.master.minions import rows as minion_rows
from catena.master.push.messages import HostReport
from catena.master.store.chain_tables import CHAIN_MINIONS
from catena.master.store.ssh_tables import SSH_HOSTS
from catena.master.store.tables import MINIONS


def runs(conn: sa.Connection, host: str) -> list[ChainMinion]:
    """Return the runs of chains on a host, ended ones included."""
    query = chain_rows.MINION_ROWS.where(CHAIN_MINIONS.c.minion == host)
    return chain_rows.minion_runs(conn, query)


def set_played(conn: sa.Connection, host: str, boot: str, now: float) -> None:
    """Store the boot for which the master made a start event or requested a reboot again."""
    values = {"played": boot[:64], "played_at": now}
    conn.execute(sa.update(SSH_HOSTS).where(SSH_HOSTS.c.id == host).values(values))


def store(conn: sa.Connection, host: str, facts: HostReport, now: float) -> None:
    """Store a host's facts in the tables of SSH hosts and of minions."""
    own = {
        "machine_id": facts.machine_id[:64],
        "boot_id": facts.boot_id[:64],
        "boot_time": facts.boot_time[:40],
        "tries": 0,
        "since": now,
    }
    conn.execute(sa.update(SSH_HOSTS).where(SSH_HOSTS.c.id == host).values(own))
    values: dict[str, Any] = {
        "machine_id": facts.machine_id[:64],
        "version": __version__,
        "boot_id": facts.boot_id[:64],
        "session": "",
        "address": facts.address[:64],
        "grains": minion_rows.own_grains(host, dict(facts.grains)),
        "pending_resume": facts.pending,
        "last_seen": now,
    }
    if conn.execute(sa.update(MINIONS).where(MINIONS.c.id == host).values(values)).rowcount:
        return
    conn.execute(sa.insert(MINIONS).values(id=host, up=False, since=now, **values))
