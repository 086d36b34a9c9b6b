"""Stores what was rendered for whom, and that it is dispatched; for many minions at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from catena.master.chains import decide, rows
from catena.master.chains.actions import ActionType
from catena.master.chains.ledger import Ledger, Place, Placed, Shipment
from catena.master.chains.lifecycle import ChunkState
from catena.master.chains.render import PlannedAction, RenderedChain
from catena.master.store.chain_tables import CHUNKS, RUNS
from catena.master.store.fast.many_rows import ManyRows
from catena.master.store.metadata import Ready

_INSERT_RUNS = ManyRows(
    sa.insert(RUNS),
    (
        "chain_id",
        "epoch",
        "minion",
        "machine_id",
        "jid",
        "manifest",
        "boot_id",
        "open",
        "over_ssh",
    ),
)
_INSERT_CHUNKS = ManyRows(
    sa.insert(CHUNKS),
    ("chain_id", "epoch", "minion", "number", "file", "sha256", "boundary", "state"),
)


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

    row: sa.Row[Any]
    plans: Mapping[str, list[PlannedAction]]
    hosts: Mapping[str, Host]


def claim(ledger: Ledger, found: Draft, chains: Mapping[str, RenderedChain], jid: str) -> None:
    """Store runs, chunks and the executions' places of some minions of a chain.

    Args:
        ledger: of the transaction that stores their job.
        found: the chain.
        chains: what was rendered, by minion.
        jid: the job that starts it there.
    """
    if not chains:
        return
    chain_id, epoch = found.row.id, found.row.epoch
    runs = [_run(found, minion, chain, jid) for minion, chain in chains.items()]
    _INSERT_RUNS.run(ledger.conn, runs)
    made = [row for minion, chain in chains.items() for row in _chunks(found, minion, chain)]
    _INSERT_CHUNKS.run(ledger.conn, made)
    # One query for all of a fleet; a host that joins later asks for its own.
    only = next(iter(chains)) if len(chains) == 1 else ""
    executions: defaultdict[str, list[sa.Row[Any]]] = defaultdict(list)
    for row in rows.waiting(ledger.conn, chain_id, epoch, only):
        executions[row.minion].append(row)
    shipments = [
        _shipment(executions[minion], minion, chain, found.plans[minion])
        for minion, chain in chains.items()
    ]
    ledger.ship(chain_id, epoch, shipments)


def _run(found: Draft, minion: str, chain: RenderedChain, jid: str) -> tuple[Any, ...]:
    host = found.hosts[minion]
    return (
        found.row.id,
        found.row.epoch,
        minion,
        host.machine_id,
        jid,
        Ready.of(chain.manifest),
        host.boot_id,
        True,
        host.agentless,
    )


def _chunks(found: Draft, minion: str, chain: RenderedChain) -> list[tuple[Any, ...]]:
    return [
        (
            found.row.id,
            found.row.epoch,
            minion,
            chunk.manifest.number,
            chunk.file,
            chunk.manifest.sha256,
            chunk.manifest.boundary.value,
            ChunkState.rendered.value,
        )
        for chunk in chain.chunks
    ]


def _shipment(
    executions: list[sa.Row[Any]],
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
