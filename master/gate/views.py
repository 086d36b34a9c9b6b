"""Minions as people see them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from catena.core.clock import Clock
from catena.core.errors import NotFoundError
from catena.core.suggest import unknown
from catena.master.chains import rows as chain_rows
from catena.master.keys.service import Keys
from catena.master.minions import rows as minion_rows
from catena.master.minions.facts import Facts
from catena.master.minions.sessions import Sessions
from catena.master.store.database import Store
from catena.master.store.tables import DELIVERIES, JOBS, MINIONS

RECENT_JOBS = 20


@dataclass(frozen=True, slots=True)
class MinionViews:
    """Reads of minions."""

    store: Store
    keys: Keys
    sessions: Sessions
    clock: Clock
    facts: Facts

    async def list(self, names: Collection[str]) -> list[dict[str, Any]]:
        """Return what MinionList describes, for accepted minions, sorted by id."""
        columns = [
            column for column in MINIONS.c if column.name not in ("grains", "pending_resume")
        ]
        rows = await self.store.read(lambda conn: conn.execute(sa.select(*columns)).all())
        found = {row.id: row for row in rows}
        chains = await self.store.read(_chains)
        return [
            self._shown(name, found.get(name)) | {"chain": chains.get(name, "")}
            for name in sorted(names)
        ]

    async def show(self, name: str) -> dict[str, Any]:
        """Return one minion with its grains and its last jobs.

        Raises:
            NotFoundError: no accepted minion has that id; the nearest is offered.
        """
        if name not in self.keys.ids():
            raise NotFoundError(unknown("minion", name, self.keys.ids()))
        await self.facts.settled(name)
        query = sa.select(MINIONS).where(MINIONS.c.id == name)
        row = await self.store.read(lambda conn: conn.execute(query).one_or_none())
        shown = self._shown(name, row)
        shown["jobs"] = await self.store.read(lambda conn: _jobs(conn, name))
        shown["chain"] = (await self.store.read(_chains)).get(name, "")
        shown["pending_resume"] = (row.pending_resume if row else None) or {}
        shown["grains"] = (row.grains if row else None) or {}
        return shown

    async def grains(self, name: str) -> dict[str, Any]:
        """Return the grains that a minion reported last; empty when it never said Hello.

        Raises:
            TryLaterError: they can't be stored now.
        """
        await self.facts.settled(name)
        query = sa.select(MINIONS.c.grains).where(MINIONS.c.id == name)
        return await self.store.read(lambda conn: conn.execute(query).scalar()) or {}

    def _shown(self, name: str, row: sa.Row[Any] | None) -> dict[str, Any]:
        if row is None:
            return {"id": name, "up": False, "since": 0.0, "conflict": "", "connected": False}
        now = self.clock.now().timestamp()
        fresh = now - row.conflict_at < minion_rows.CONFLICT_SECONDS
        return {
            "id": name,
            "up": row.up,
            "since": row.since,
            "connected": name in self.sessions,
            "last_seen": row.last_seen,
            "version": row.version,
            "boot_id": row.boot_id,
            "address": row.address,
            "machine_id": row.machine_id,
            "conflict": row.conflict if fresh else "",
        }


def _jobs(conn: sa.Connection, name: str) -> list[dict[str, Any]]:
    query = (
        sa.select(JOBS.c.jid, JOBS.c.fun, DELIVERIES.c.state, DELIVERIES.c.detail)
        .join(DELIVERIES, DELIVERIES.c.jid == JOBS.c.jid)
        .where(DELIVERIES.c.minion == name)
        .order_by(JOBS.c.jid.desc())
        .limit(RECENT_JOBS)
    )
    return [dict(row._mapping) for row in conn.execute(query)]


def _chains(conn: sa.Connection) -> dict[str, str]:
    """Return the open chains of each minion, the one that came first at the front."""
    found: dict[str, list[str]] = {}
    for run in chain_rows.open_runs(conn):
        found.setdefault(run.minion, []).append(f"{run.label} (#{run.chain_id})")
    return {minion: ", ".join(names) for minion, names in found.items()}
