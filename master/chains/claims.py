"""Stores what was rendered for whom, and that it is dispatched; for many minions at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from catena.master.chains import decide, rows
from catena.master.chains.actions import ActionType
from catena.master.chains.ledger import ChainLedger, Place, Placed, Shipment
from catena.master.chains.lifecycle import ChunkState, MinionEvent, MinionState
from catena.master.chains.model import ChainRecord
from catena.master.chains.render import PlannedAction, RenderedChain
from catena.master.chains.rows import Waiting
from catena.master.executions.ledger import ConflictError
from catena.master.store.chain_tables import CHAIN_MINIONS, CHUNKS
from catena.master.store.fast.many_rows import ManyRows
from catena.master.store.fast.serials import insert_many
from catena.master.store.metadata import Ready

_INSERT_RUNS = ManyRows(
    sa.insert(CHAIN_MINIONS),
    ("run", "minion", "machine_id", "jid", "manifest", "boot_id", "state", "over_ssh"),
)
_NOTHING: dict[str, Any] = {}


@dataclass(frozen=True)
class Host:
    """What is known of an accepted minion, or of a host that SSH reaches."""

    #: "": a host that was never looked at.
    machine_id: str
    boot_id: str
    #: Reached over SSH.
    agentless: bool = False
    #: Whether the minion is a transactional system: a read-only root, changed by snapshots.
    transactional: bool = False


@dataclass(frozen=True)
class Draft:
    """A chain, what each minion has to do, and what is known of the minions."""

    row: ChainRecord
    plans: Mapping[str, list[PlannedAction]]
    hosts: Mapping[str, Host]


def claim(
    ledger: ChainLedger, found: Draft, chains: Mapping[str, RenderedChain], jid: str
) -> None:
    """Store runs, chunks and the executions' places of some minions of a chain.

    Args:
        ledger: of the transaction that stores their job.
        found: the chain.
        chains: what was rendered, by minion.
        jid: the job that starts it there.
    """
    if not chains:
        return
    runs = [_run(found, minion, chain, jid) for minion, chain in chains.items()]
    _INSERT_RUNS.run(ledger.conn, runs)
    _ship(ledger, found, chains)


def await_hosts(ledger: ChainLedger, found: Draft, minions: Iterable[str]) -> None:
    """Store that hosts are in a run of a chain which they join once they were looked at."""
    state = MinionState.pending.value
    manifest = Ready.of(_NOTHING)
    _INSERT_RUNS.run(
        ledger.conn,
        [(found.row.run, minion, "", "", manifest, "", state, True) for minion in sorted(minions)],
    )


def join(ledger: ChainLedger, found: Draft, minion: str, chain: RenderedChain, jid: str) -> None:
    """Store run, chunks and places of a host that was awaited.

    Raises:
        ConflictError: it is no longer awaited.
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


def _ship(ledger: ChainLedger, found: Draft, chains: Mapping[str, RenderedChain]) -> None:
    made = [row for minion, chain in chains.items() for row in _chunks(found, minion, chain)]
    chunks = insert_many(ledger.conn, CHUNKS.c.id, made)
    # One query for all of a fleet; a host that joins later asks for its own.
    only = next(iter(chains)) if len(chains) == 1 else ""
    executions: defaultdict[str, list[Waiting]] = defaultdict(list)
    for row in rows.waiting(ledger.conn, found.row.run, only):
        executions[row.minion].append(row)
    shipments = [
        _shipment(executions[minion], minion, chain, found.plans[minion])
        for minion, chain in chains.items()
    ]
    ledger.ship(found.row, shipments, chunks)


def _run(found: Draft, minion: str, chain: RenderedChain, jid: str) -> tuple[Any, ...]:
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


def _chunks(found: Draft, minion: str, chain: RenderedChain) -> list[dict[str, Any]]:
    return [
        {
            "run": found.row.run,
            "minion": minion,
            "number": chunk.manifest.number,
            "file": chunk.file,
            "sha256": chunk.manifest.sha256,
            "boundary": chunk.manifest.boundary.value,
            "state": ChunkState.rendered.value,
        }
        for chunk in chain.chunks
    ]


def _shipment(
    executions: list[Waiting],
    minion: str,
    chain: RenderedChain,
    plans: list[PlannedAction],
) -> Shipment:
    """Return each execution's chunk and proof, which are written into it.

    An action that somebody vouched for is in the run, and in no chunk.
    """
    waits = decide.waits_of(chain.manifest)
    delays = {
        plan.id: plan.plan.data.at_minutes * 60
        for plan in plans
        if plan.plan.type is ActionType.reboot
    }
    placed = []
    for row in executions:
        chunk, boundary = waits[row.action_id]
        place = Place(chunk, boundary.value, delays.get(row.action_id, 0))
        placed.append(Placed(row.id, row.action_id, place))
    return Shipment(minion, placed, [chunk.manifest.number for chunk in chain.chunks])
