"""Ends chains that may have run between a backup and its restore."""

from __future__ import annotations

from catena.master.chains import decide, rows
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import ChainEvent
from catena.master.store import restored


async def settle(parts: ChainParts) -> None:
    """Fail chains that were due between backup and restore, and runs of hosts not joined yet.

    Runs that minions have begun are decided by the Hellos of those minions. A second call changes
    nothing.
    """
    at = await parts.store.read(restored.moment)
    if at:
        await parts.change(lambda ledger: _settle(ledger, at))


def _settle(ledger: ChainLedger, at: float) -> None:
    for chain in rows.due_by(ledger.conn, at):
        found = rows.executions(ledger.conn, chain.run)
        facts = [rows.fact(row) for row in found]
        ledger.apply(found, decide.fail_open(facts, restored.REASON))
        ledger.move_chain(chain, ChainEvent.fail, restored.REASON)
    for run in rows.pending_since(ledger.conn, at):
        found = rows.executions(ledger.conn, run.run, run.minion)
        facts = [rows.fact(row) for row in found]
        ledger.apply(found, decide.fail_open(facts, restored.REASON))
        ledger.settle(run.chain_id, (run.minion,))
