"""Ends what a restored store can't continue: chains that may have run after the backup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from catena.master.chains import decide, rows
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.ledger import Ledger
from catena.master.chains.lifecycle import (
    ACTIVE_CHAINS,
    ChainEvent,
    ChainState,
    ExecutionState,
)
from catena.master.store import restored
from catena.master.store.chain_tables import CHAINS, EXECUTIONS


async def settle(parts: ChainParts) -> None:
    """End chains whose time came between a backup and its restore, and hosts not yet dispatched.

    Runs that minions have begun are left to the Hellos of those minions. Calling it again changes
    nothing.
    """
    at = await parts.store.read(restored.moment)
    if at:
        await parts.change(lambda ledger: _settle(ledger, at))


def _settle(ledger: Ledger, at: float) -> None:
    for chain in ledger.conn.execute(_was_due(at)).all():
        found = rows.executions(ledger.conn, chain.id, epoch=chain.epoch)
        facts = [rows.fact(row) for row in found]
        ledger.apply(found, decide.fail_open(facts, restored.REASON), "")
        ledger.move_chain(chain, ChainEvent.fail, restored.REASON)
    for chain_id, minion in _never_reached(ledger.conn, at):
        found = rows.executions(ledger.conn, chain_id, minion)
        facts = [rows.fact(row) for row in found]
        ledger.apply(found, decide.lose_open(facts, restored.REASON), "")
        ledger.settle(chain_id, (minion,))


def _was_due(at: float) -> sa.Select[Any]:
    rule = (CHAINS.c.state == ChainState.scheduled.value) & (CHAINS.c.due <= at)
    return sa.select(CHAINS).where(rule).order_by(CHAINS.c.id)


def _never_reached(conn: sa.Connection, at: float) -> Sequence[tuple[int, str]]:
    """Return the hosts of chains under way that had not been dispatched to before the restore."""
    query = (
        sa.select(EXECUTIONS.c.chain_id, EXECUTIONS.c.minion)
        .join(CHAINS, CHAINS.c.id == EXECUTIONS.c.chain_id)
        .where(EXECUTIONS.c.state == ExecutionState.PENDING_SCHEDULE.value)
        .where(CHAINS.c.state.in_([state.value for state in ACTIVE_CHAINS]), CHAINS.c.due <= at)
        .distinct()
    )
    return [(row.chain_id, row.minion) for row in conn.execute(query)]
