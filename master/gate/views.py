"""Views of minions for clients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import sqlalchemy as sa

from catena.client.replies.minions import MinionDetail, MinionLine
from catena.core.clock import Clock
from catena.core.errors import NotFoundError
from catena.core.suggest import unknown
from catena.master.gate import rows
from catena.master.keys.service import Keys
from catena.master.minions import rows as minion_rows
from catena.master.minions.facts import Facts
from catena.master.minions.rows import StoredMinion
from catena.master.minions.sessions import Sessions
from catena.master.store.database import Store


class _Shown(TypedDict):
    id: str
    up: bool
    since: float
    conflict: str
    connected: bool
    last_seen: float | None
    version: str | None
    boot_id: str | None
    address: str | None
    machine_id: str | None


@dataclass(frozen=True, slots=True)
class MinionViews:
    """Reads of minions."""

    store: Store
    keys: Keys
    sessions: Sessions
    clock: Clock
    facts: Facts
    #: Returns minion -> titles of its open runs.
    under_way: Callable[[sa.Connection], Mapping[str, Sequence[str]]]

    async def list(self, names: Collection[str]) -> list[MinionLine]:
        """Return the lines of accepted minions, sorted by id."""
        found = await self.store.read(minion_rows.every)
        runs = await self.store.read(self.under_way)
        return [
            MinionLine(**self._shown(name, found.get(name)), chain=", ".join(runs.get(name, ())))
            for name in sorted(names)
        ]

    async def show(self, name: str) -> MinionDetail:
        """Return one minion with its grains and its last jobs.

        Raises:
            NotFoundError: no accepted minion has that id; the message names the nearest.
        """
        if name not in self.keys.ids():
            raise NotFoundError(unknown("minion", name, self.keys.ids()))
        await self.facts.settled(name)
        row, reports = await self.store.read(lambda conn: minion_rows.stored(conn, name))
        runs = await self.store.read(self.under_way)
        return MinionDetail(
            **self._shown(name, row),
            chain=", ".join(runs.get(name, ())),
            jobs=await self.store.read(lambda conn: rows.recent_jobs(conn, name)),
            pending_resume=reports.pending_resume,
            grains=reports.grains,
        )

    async def grains(self, name: str) -> dict[str, Any]:
        """Return the grains that a minion reported last; {} if it never sent a Hello.

        Raises:
            TryLaterError: reported grains can't be stored now.
        """
        await self.facts.settled(name)
        return await self.store.read(lambda conn: minion_rows.stored_grains(conn, name))

    def _shown(self, name: str, row: StoredMinion | None) -> _Shown:
        """Return the fields that lines and details share, without the chains."""
        if row is None:
            return {
                "id": name, "up": False, "since": 0.0, "conflict": "", "connected": False,
                "last_seen": None, "version": None, "boot_id": None, "address": None,
                "machine_id": None,
            }  # fmt: skip
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
