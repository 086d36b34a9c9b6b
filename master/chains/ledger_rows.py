"""Statements with which the ledger of chains stores columns other than states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from catena.master.chains.model import ChainRecord
from catena.master.executions.ledger import besides_state
from catena.master.process.clocks import ClockReading
from catena.master.store.chain_tables import CHAIN_EXECUTIONS, CHAINS
from catena.master.store.execution_tables import EXECUTIONS
from catena.master.store.fast.many_rows import ManyRows

_PLACES = ManyRows(
    sa.insert(CHAIN_EXECUTIONS), ("execution", "chunk", "boundary", "delay_seconds")
)
_PICK_UP = ManyRows(
    sa.update(CHAIN_EXECUTIONS)
    .where(CHAIN_EXECUTIONS.c.execution == sa.bindparam("b_execution"))
    .values(
        picked_up=sa.bindparam("b_wall"),
        picked_mono=sa.bindparam("b_mono"),
        picked_host_boot=sa.bindparam("b_host_boot"),
        picked_host=sa.bindparam("b_host"),
        boot_id=sa.bindparam("b_boot"),
    ),
    ("b_wall", "b_mono", "b_host_boot", "b_host", "b_boot", "b_execution"),
)


def insert_places(conn: sa.Connection, places: Sequence[tuple[int, int, str, float]]) -> None:
    """Store execution id, chunk, boundary and delay (seconds) of executions."""
    _PLACES.run(conn, places)


def pick_up(conn: sa.Connection, execution: int, now: ClockReading, boot: str) -> None:
    """Store when, and in which boot of the minion, an execution began to wait for its boundary."""
    _PICK_UP.run(conn, [(now.wall, now.mono, now.boot, now.host, boot, execution)])


def replace_run(conn: sa.Connection, chain: ChainRecord, run: int) -> bool:
    """Make *run* the newest run of a chain; return False if that has changed since it was read."""
    rule = CHAINS.c.run.is_(None) if chain.run is None else CHAINS.c.run == chain.run
    update = sa.update(CHAINS).where(CHAINS.c.id == chain.id, rule).values(run=run)
    return conn.execute(update).rowcount == 1


def mark_dispatched(conn: sa.Connection, chain_id: int) -> None:
    """Store that a chain was dispatched at least once."""
    conn.execute(sa.update(CHAINS).where(CHAINS.c.id == chain_id).values({"dispatched": True}))


def fill(conn: sa.Connection, execution: int, values: Mapping[str, Any]) -> None:
    """Set columns of an execution that has no changes stored yet."""
    rule = (EXECUTIONS.c.id == execution) & EXECUTIONS.c.changes.is_(None)
    conn.execute(sa.update(EXECUTIONS).where(rule).values(besides_state(values)))
