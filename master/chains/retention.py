"""How long archived chains are kept, and which jobs a chain that is under way needs."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from catena.core.config.master import MasterSettings
from catena.master.chains import cleanup, rows
from catena.master.process.retention import Before, Retention
from catena.master.store.chain_tables import CHAIN_MINIONS, CHAINS
from catena.master.store.execution_tables import RUNS

#: Rows that one transaction drops.
BATCH = 20

#: Jobs of open runs: a chain that is under way may still be asked what they returned.
JOBS_IN_USE = sa.select(CHAIN_MINIONS.c.jid).where(rows.OPEN_RUNS)


def _before(settings: MasterSettings, now: float) -> float:
    hours = settings.keep_chains_hours
    return now - hours * 3600 if hours else 0.0


def _drop(conn: sa.Connection, before: Before) -> Mapping[str, int]:
    rule = (CHAINS.c.archived == sa.true()) & (RUNS.c.ended < before["chains"])
    old = sa.select(CHAINS.c.id).join(RUNS, RUNS.c.id == CHAINS.c.run).where(rule)
    found = conn.execute(old.order_by(RUNS.c.ended).limit(BATCH)).scalars().all()
    cleanup.forget(conn, found)
    return {"chains": len(found)}


RETENTION = Retention("chains", _before, _drop, shrinks=True)
