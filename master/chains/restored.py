"""Ends what a restored store can't continue: chains that may have run after the backup."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from catena.master.chains import decide, rows
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import ChainEvent, ChainState
from catena.master.chains.model import ChainMinion
from catena.master.store import restored
from catena.master.store.execution_tables import RUNS


async def settle(parts: ChainParts) -> None:
    """End chains whose time came between a backup and its restore, and hosts not yet dispatched.

    Runs that minions have begun are left to the Hellos of those minions. Calling it again changes
    nothing.
    """
    at = await parts.store.read(restored.moment)
    if at:
        await parts.change(lambda ledger: _settle(ledger, at))


def _settle(ledger: ChainLedger, at: float) -> None:
    for chain in rows.chains(ledger.conn, _was_due(at)):
        found = rows.executions(ledger.conn, chain.run)
        facts = [rows.fact(row) for row in found]
        ledger.apply(found, decide.fail_open(facts, restored.REASON))
        ledger.move_chain(chain, ChainEvent.fail, restored.REASON)
    for run in _never_reached(ledger.conn, at):
        found = rows.executions(ledger.conn, run.run, run.minion)
        facts = [rows.fact(row) for row in found]
        ledger.apply(found, decide.fail_open(facts, restored.REASON))
        ledger.settle(run.chain_id, (run.minion,))


def _was_due(at: float) -> sa.Select[Any]:
    rule = (RUNS.c.state == ChainState.scheduled.value) & (RUNS.c.due <= at)
    return rows.RUNNING_CHAINS.where(rule).order_by(RUNS.c.id)


def _never_reached(conn: sa.Connection, at: float) -> list[ChainMinion]:
    """Return the hosts of chains under way that had not been dispatched to before the restore."""
    due = sa.select(RUNS.c.id).where(RUNS.c.due <= at, RUNS.c.ended.is_(None))
    early = set(conn.execute(due).scalars())
    return [run for run in rows.pending(conn) if run.run in early]
