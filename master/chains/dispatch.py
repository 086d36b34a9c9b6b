"""Starts a due chain: renders it, and claims it in the transaction that stores its job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from catena.core import failpoints
from catena.core.errors import CatenaError
from catena.core.job import ChainManifest
from catena.core.records import encode
from catena.master.chains import decide, rows
from catena.master.chains.actions import ActionType
from catena.master.chains.ledger import ConflictError, Ledger
from catena.master.chains.lifecycle import (
    ChainEvent,
    ChainState,
    ChunkState,
    ExecutionState,
)
from catena.master.chains.parts import ChainParts
from catena.master.chains.render import ChainPlan, PlannedAction, RenderedChain, render
from catena.master.chains.results import START
from catena.master.job_model import JobRequest, Submitted
from catena.master.store.chain_tables import CHUNKS, RUNS
from catena.master.store.tables import KEYS, MINIONS


@dataclass(frozen=True)
class Host:
    """What is known of an accepted minion."""

    machine_id: str
    boot_id: str


@dataclass(frozen=True)
class Draft:
    """A chain, what each minion has to do, and what is known of the minions."""

    row: sa.Row[Any]
    plans: Mapping[str, list[PlannedAction]]
    hosts: Mapping[str, Host]


@dataclass(frozen=True)
class Rendering:
    """What came of rendering a draft: chunk files, or per minion why there are none."""

    chains: Mapping[str, RenderedChain]
    refused: Mapping[str, str] = field(default_factory=dict)

    def texts(self) -> dict[str, str]:
        """Return every chunk file by its name."""
        return {chunk.file: chunk.text for c in self.chains.values() for chunk in c.chunks}


def draft(conn: sa.Connection, chain_id: int) -> Draft:
    """Return a chain with what it would run: all its actions, or those that a retry left open."""
    row = rows.chain(conn, chain_id)
    entries = rows.entries(conn, chain_id)
    open_now = {
        execution.action_id
        for execution in rows.executions(conn, chain_id, epoch=row.epoch)
        if execution.state == ExecutionState.PENDING_SCHEDULE.value
    }
    if row.state != ChainState.draft.value and open_now:
        entries = [entry for entry in entries if entry.action_id in open_now]
    plans = rows.planned(entries)
    return Draft(row, plans, _hosts(conn, list(plans)))


def _hosts(conn: sa.Connection, minions: list[str]) -> dict[str, Host]:
    found = {}
    for start in range(0, len(minions), rows.SLICE):
        some = minions[start : start + rows.SLICE]
        query = (
            sa.select(
                KEYS.c.minion,
                KEYS.c.machine_id.label("of_key"),
                MINIONS.c.machine_id,
                MINIONS.c.boot_id,
            )
            .outerjoin(MINIONS, MINIONS.c.id == KEYS.c.minion)
            .where(KEYS.c.state == "accepted", KEYS.c.minion.in_(some))
        )
        for row in conn.execute(query):
            found[row.minion] = Host(row.machine_id or row.of_key, row.boot_id or "")
    return found


def render_all(found: Draft, agent_packages: tuple[str, ...]) -> Rendering:
    """Render a chain for each of its minions. Pure; may run in any thread."""
    chains, refused = {}, {}
    for minion, plans in found.plans.items():
        host = found.hosts.get(minion)
        if host is None or not host.machine_id:
            refused[minion] = decide.EMPTY_RESULT
            continue
        plan = ChainPlan(
            found.row.id, host.machine_id, plans, agent_packages, max(1, found.row.epoch)
        )
        try:
            chains[minion] = render(plan)
        except CatenaError as error:
            refused[minion] = str(error)
    return Rendering(chains, refused)


async def fire(parts: ChainParts, chain_id: int) -> None:
    """Dispatch a chain that is due.

    The job's rows and the claim of the chain are one transaction: whatever stops the master
    before it leaves the chain scheduled, and rendering again gives the same bytes; afterwards the
    job is in the store and reaches the minions by itself.

    Raises:
        ConflictError: somebody else claimed it, or it was cancelled in the same moment.
        StoreUnavailableError: nothing was done; ask again.
    """
    failpoints.hit("master.chain.due")
    found = await parts.store.read(lambda conn: draft(conn, chain_id))
    packages = parts.rules.agent_packages
    rendering = await asyncio.to_thread(render_all, found, packages)
    if not rendering.chains:
        await parts.change(lambda ledger: _claim(ledger, found, rendering, ""))
        return
    failpoints.hit("master.chain.rendered")
    await asyncio.to_thread(parts.files.write_chunks, rendering.texts())
    failpoints.hit("master.chain.written")
    for minion, chain in rendering.chains.items():
        parts.files.expose(minion, [c.file for c in chain.chunks], found.plans[minion])

    def within(conn: sa.Connection, submitted: Submitted) -> None:
        ledger = Ledger(conn, parts.clocks.read())
        _claim(ledger, found, rendering, submitted.jid)
        parts.record_all(conn, ledger.events)

    submitted = await parts.jobs.submit(_request(parts, found, rendering), within)
    if submitted.repeated:
        # Else it would stay scheduled for ever and nobody be told.
        raise ConflictError(f"job {submitted.jid} has the idempotency key of chain {chain_id}")


def _request(parts: ChainParts, found: Draft, rendering: Rendering) -> JobRequest:
    row = found.row
    due = row.due or parts.clocks.read().wall
    return JobRequest(
        user=row.user,
        fun=START,
        args=(row.id,),
        minions=tuple(sorted(rendering.chains)),
        metadata={"suma-action-chain": True, "chain": row.id, "epoch": row.epoch},
        chains={minion: chain.manifest for minion, chain in rendering.chains.items()},
        not_after=max(due, parts.clocks.read().wall) + parts.rules.due.late_seconds,
        idempotency_key=f"chain/{row.id}/{row.epoch}",
    )


def _claim(ledger: Ledger, found: Draft, rendering: Rendering, jid: str) -> None:
    """Store that the chain is dispatched, with what was rendered for whom."""
    row = found.row
    reason = f"{len(rendering.refused)} minions can't take it" if rendering.refused else ""
    ledger.move_chain(row, ChainEvent.dispatch, reason, dispatched=True)
    for minion, chain in rendering.chains.items():
        _claim_minion(ledger, found, minion, chain, jid)
    for minion, text in rendering.refused.items():
        some = rows.executions(ledger.conn, row.id, minion, row.epoch)
        ledger.apply(some, decide.fail_open([rows.fact(e) for e in some], text), "")
    ledger.settle(row.id, ())


def _claim_minion(
    ledger: Ledger, found: Draft, minion: str, chain: RenderedChain, jid: str
) -> None:
    manifest, host = chain.manifest, found.hosts[minion]
    key = {"chain_id": found.row.id, "epoch": found.row.epoch, "minion": minion}
    run = {
        **key,
        "machine_id": host.machine_id,
        "jid": jid,
        "manifest": encode(manifest),
        "boot_id": host.boot_id,
        "open": True,
    }
    ledger.conn.execute(sa.insert(RUNS).values(run))
    made = [
        {
            **key,
            "number": chunk.manifest.number,
            "file": chunk.file,
            "sha256": chunk.manifest.sha256,
            "boundary": chunk.manifest.boundary.value,
            "state": ChunkState.rendered.value,
        }
        for chunk in chain.chunks
    ]
    ledger.conn.execute(sa.insert(CHUNKS), made)
    _place(ledger, key, manifest, found.plans[minion])


def _place(
    ledger: Ledger, key: dict[str, Any], manifest: ChainManifest, plans: list[PlannedAction]
) -> None:
    """Write each execution's chunk and proof into it, and move it and its chunk on."""
    waits = decide.waits_of(manifest)
    delays = {
        plan.id: plan.plan.data.at_minutes * 60
        for plan in plans
        if plan.plan.type is ActionType.reboot
    }
    found = rows.executions(ledger.conn, key["chain_id"], key["minion"], key["epoch"])
    placed = []
    for row in found:
        if row.state != ExecutionState.PENDING_SCHEDULE.value:
            # Somebody vouched for it: it is in the run, and in no chunk.
            continue
        chunk, boundary = waits[row.action_id]
        delay = delays.get(row.action_id, 0)
        values = {"chunk": chunk, "waits_for": boundary.value, "delay_seconds": delay}
        placed.append((row, values))
    run = rows.newest_run(ledger.conn, key["chain_id"], key["minion"])
    if run is not None:
        ledger.ship(run, placed, rows.chunks(ledger.conn, run))
