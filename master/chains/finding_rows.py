"""Queries for the findings of `catena doctor` about chains; *conn* is a snapshot in each."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from catena.master.chains import rows
from catena.master.chains.lifecycle import ChainState
from catena.master.chains.model import ChainRecord
from catena.master.executions import pauses
from catena.master.store.chain_tables import CHAINS
from catena.master.store.execution_tables import RUNS
from catena.master.store.tables import MINIONS


class MinionPresence(NamedTuple):
    """Whether a minion is connected, and its last contact in seconds since the epoch."""

    up: bool
    last_seen: float | None


def held(conn: sa.Connection) -> list[ChainRecord]:
    """Return the chains that wait for a person, because they are held or not approved yet."""
    states = (ChainState.waiting.value, ChainState.pending_approval.value)
    query = rows.RUNNING_CHAINS.where(RUNS.c.state.in_(states)).order_by(CHAINS.c.id)
    return rows.chains(conn, query)


def of_run(conn: sa.Connection, run: int) -> list[ChainRecord]:
    """Return the chain whose newest run is *run*; none if a later run has begun."""
    return rows.chains(conn, rows.CHAIN_ROWS.where(CHAINS.c.run == run))


def late(conn: sa.Connection, before: float) -> list[ChainRecord]:
    """Return the scheduled chains that were due before *before* and are not paused."""
    rule = (RUNS.c.state == ChainState.scheduled.value) & (RUNS.c.due < before)
    rule &= pauses.is_nowhere(RUNS.c.id)
    return rows.chains(conn, rows.RUNNING_CHAINS.where(rule).order_by(RUNS.c.due))


def failed(conn: sa.Connection) -> list[ChainRecord]:
    """Return the failed chains that are not archived, the oldest first."""
    rule = RUNS.c.state == ChainState.failed.value
    query = rows.CHAIN_ROWS.where(rule, CHAINS.c.archived == sa.false())
    return rows.chains(conn, query.order_by(CHAINS.c.id))


def failed_since(conn: sa.Connection, at: float) -> list[ChainRecord]:
    """Return the failed chains that are not archived and ended after *at*, the newest first."""
    rule = (RUNS.c.state == ChainState.failed.value) & (CHAINS.c.archived == sa.false())
    query = rows.CHAIN_ROWS.where(rule, RUNS.c.ended > at)
    return rows.chains(conn, query.order_by(CHAINS.c.id.desc()))


def presences(conn: sa.Connection) -> dict[str, MinionPresence]:
    """Return the presence of every known minion, by id."""
    query = sa.select(MINIONS.c.id, MINIONS.c.up, MINIONS.c.last_seen)
    return {row.id: MinionPresence(row.up, row.last_seen) for row in conn.execute(query)}
