"""Queries used when minions report on chains; each runs in its caller's transaction."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from catena.master.chains.model import ChainMinion
from catena.master.executions.ledger import besides_state
from catena.master.store.chain_tables import CHAIN_MINIONS
from catena.master.store.tables import JOBS, MINIONS


def set_run(conn: sa.Connection, run: ChainMinion, **values: Any) -> None:
    """Set columns of a run on a minion.

    Raises:
        ValueError: one of them is the state, which only the ledger moves.
    """
    rule = CHAIN_MINIONS.c.id == run.id
    conn.execute(sa.update(CHAIN_MINIONS).where(rule).values(besides_state(values)))


def function_of(conn: sa.Connection, jid: str) -> str | None:
    """Return the name of the function that a job calls; None if the job is not stored."""
    return conn.execute(sa.select(JOBS.c.fun).where(JOBS.c.jid == jid)).scalar()


def boot_of(conn: sa.Connection, minion: str) -> str:
    """Return the boot id of a minion's last Hello; "" if it is unknown."""
    query = sa.select(MINIONS.c.boot_id).where(MINIONS.c.id == minion)
    return str(conn.execute(query).scalar() or "")
