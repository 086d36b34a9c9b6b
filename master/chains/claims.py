"""Stores the dispatch of rendered chunks, for many minions at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from catena.master.chains import dispatch_rows, rows
from catena.master.chains.actions import ActionType
from catena.master.chains.batches import MinionChunks
from catena.master.chains.dispatch_rows import MinionFacts
from catena.master.chains.ledger import ChainLedger, Place, Placed, Shipment
from catena.master.chains.lifecycle import ChunkState, MinionEvent, MinionState
from catena.master.chains.model import ChainRecord
from catena.master.chains.render import PlannedAction
from catena.master.chains.rows import Waiting
from catena.master.executions.ledger import ConflictError
from catena.master.store.metadata import Ready

_NOTHING: dict[str, Any] = {}


@dataclass(frozen=True)
class Draft:
    """A chain, the actions of each minion, and facts about the minions."""

    row: ChainRecord
    plans: Mapping[str, list[PlannedAction]]
    hosts: Mapping[str, MinionFacts]


def claim(ledger: ChainLedger, found: Draft, chains: Mapping[str, MinionChunks], jid: str) -> None:
    """Store the runs and chunks of some minions of a chain, and the chunk of each execution.

    Args:
        ledger: of the transaction that stores the job.
        found: the chain.
        chains: the rendered chunks, by minion.
        jid: the job that starts the chain on these minions.
    """
    if not chains:
        return
    runs = [_run(found, minion, chain, jid) for minion, chain in chains.items()]
    dispatch_rows.insert_runs(ledger.conn, runs)
    _ship(ledger, found, chains)


def await_hosts(ledger: ChainLedger, found: Draft, minions: Iterable[str]) -> None:
    """Store that hosts belong to a run, which they join after their first SSH visit."""
    state = MinionState.pending.value
    manifest = Ready.of(_NOTHING)
    dispatch_rows.insert_runs(
        ledger.conn,
        [(found.row.run, minion, "", "", manifest, "", state, True) for minion in sorted(minions)],
    )


def join(ledger: ChainLedger, found: Draft, minion: str, chain: MinionChunks, jid: str) -> None:
    """Store the run and chunks of a host that joins late, and the chunk of each execution.

    Raises:
        ConflictError: the run no longer waits for the host.
    """
    run = rows.on_minion(ledger.conn, found.row.run, minion)
    if run is None:
        raise ConflictError
    host = found.hosts[minion]
    values = {
        "machine_id": host.machine_id,
        "jid": jid,
        "manifest": Ready.of(chain.manifest),
        "boot_id": host.boot_id,
        "over_ssh": host.agentless,
    }
    ledger.move_minion(run, MinionEvent.send, values)
    _ship(ledger, found, {minion: chain})


def _ship(ledger: ChainLedger, found: Draft, chains: Mapping[str, MinionChunks]) -> None:
    made = [row for minion, chain in chains.items() for row in _chunks(found, minion, chain)]
    chunks = dispatch_rows.insert_chunks(ledger.conn, made)
    # One query for many minions; for a host that joins late, only its own rows.
    only = next(iter(chains)) if len(chains) == 1 else ""
    executions: defaultdict[str, list[Waiting]] = defaultdict(list)
    for row in rows.waiting(ledger.conn, found.row.run, only):
        executions[row.minion].append(row)
    shipments = [
        _shipment(executions[minion], minion, chain, found.plans[minion])
        for minion, chain in chains.items()
    ]
    ledger.ship(found.row, shipments, chunks)


def _run(found: Draft, minion: str, chain: MinionChunks, jid: str) -> tuple[Any, ...]:
    host = found.hosts[minion]
    return (
        found.row.run,
        minion,
        host.machine_id,
        jid,
        Ready.of(chain.manifest),
        host.boot_id,
        MinionState.sent.value,
        host.agentless,
    )


def _chunks(found: Draft, minion: str, chain: MinionChunks) -> list[dict[str, Any]]:
    return [
        {
            "run": found.row.run,
            "minion": minion,
            "number": chunk.number,
            "file": chunk.file,
            "sha256": chunk.sha256,
            "boundary": chunk.boundary,
            "state": ChunkState.rendered.value,
        }
        for chunk in chain.chunks
    ]


def _shipment(
    executions: list[Waiting],
    minion: str,
    chain: MinionChunks,
    plans: list[PlannedAction],
) -> Shipment:
    """Return the chunk and boundary of each of a minion's executions.

    *executions* lacks actions that a person marked as done: they are in the run but in no chunk.
    """
    delays = {
        plan.id: plan.plan.data.at_minutes * 60
        for plan in plans
        if plan.plan.type is ActionType.reboot
    }
    placed = []
    for row in executions:
        chunk, boundary = chain.waits[row.action_id]
        place = Place(chunk, boundary, delays.get(row.action_id, 0))
        placed.append(Placed(row.id, row.action_id, place))
    return Shipment(minion, placed, [chunk.number for chunk in chain.chunks])
