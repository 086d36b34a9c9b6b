"""Starts a due chain: renders it, and claims it in the transaction that stores its job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from catena.core import failpoints
from catena.core.chain_calls import START
from catena.core.job import BOUNDARY_SECONDS, CHAIN, FunctionCall, Payload
from catena.master.chains import claims, decide, dispatch_rows, rows
from catena.master.chains.batches import Batch, MinionChunks, RenderedBatch, texts
from catena.master.chains.claims import Draft
from catena.master.chains.dependencies import ChainParts, ChainRules
from catena.master.chains.dispatch_rows import MinionFacts
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import (
    ChainEvent,
    ChainState,
)
from catena.master.chains.render import ChainPlan
from catena.master.chains.rendering import TOGETHER
from catena.master.executions import pauses
from catena.master.executions.ledger import ConflictError
from catena.master.executions.pauses import EVERYWHERE
from catena.master.executions.ssh_hosts import SshHosts
from catena.master.jobs.model import JobRequest, Submitted


@dataclass(frozen=True)
class RenderedDraft:
    """What came of rendering a draft: chunk files, or per minion why there are none."""

    chains: Mapping[str, MinionChunks]
    refused: Mapping[str, str] = field(default_factory=dict)
    #: Hosts that must be looked at before they can be rendered for; they join later.
    awaited: frozenset[str] = frozenset()


def draft(conn: sa.Connection, chain_id: int, ssh: SshHosts) -> Draft:
    """Return a chain with what it would run: all its actions, or those that a retry left open.

    Args:
        conn: a snapshot.
        chain_id: of the chain.
        ssh: knows the hosts that SSH reaches.
    """
    row = rows.chain(conn, chain_id)
    entries = rows.entries(conn, chain_id)
    open_now = {each.action_id for each in rows.waiting(conn, row.run)}
    if row.state != ChainState.draft.value and open_now:
        entries = [entry for entry in entries if entry.action_id in open_now]
    plans = rows.planned(entries)
    return Draft(row, plans, hosts(conn, list(plans), ssh))


async def current_draft(parts: ChainParts, chain_id: int) -> Draft:
    """Return `draft` of what the hosts have reported so far, committed or not.

    Raises:
        TryLaterError: what they reported can't be stored now.
    """
    await parts.facts.settled()
    return await parts.store.read(lambda conn: draft(conn, chain_id, parts.ssh))


def hosts(conn: sa.Connection, minions: list[str], ssh: SshHosts) -> dict[str, MinionFacts]:
    """Return what is known of *minions*, by id; who is neither minion nor host is left out."""
    found = {}
    for name, known in ssh.known(conn, minions).items():
        found[name] = MinionFacts(known.machine_id, known.boot_id, agentless=True)
    found.update(dispatch_rows.minion_facts(conn, minions))
    return found


def plans_of(found: Draft, agent_packages: tuple[str, ...]) -> tuple[Batch, RenderedDraft]:
    """Return what is to be rendered, by minion, and what is known of the other minions."""
    plans, refused = {}, {}
    awaited = set()
    for minion, actions in found.plans.items():
        host = found.hosts.get(minion)
        if host is None or not (host.machine_id or host.agentless):
            refused[minion] = decide.EMPTY_RESULT
            continue
        if not host.machine_id:
            awaited.add(minion)
            continue
        plans[minion] = ChainPlan(
            found.row.id,
            host.machine_id,
            actions,
            agent_packages,
            max(1, found.row.epoch),
            host.agentless,
            host.transactional,
        )
    return plans, RenderedDraft({}, refused, frozenset(awaited))


async def render(parts: ChainParts, found: Draft, *, write: bool = False) -> RenderedDraft:
    """Render a draft for each of its minions, in batches.

    Args:
        parts: of chains.
        found: the draft.
        write: write the chunk files, too. Those of some minions are written while the next are
            rendered: the one waits for the disk, the other for the processor.

    Raises:
        TryLaterError: worker processes died over it, or are too busy.
        OSError: the files can't be written.
    """
    plans, others = plans_of(found, parts.rules.agent_packages)
    places = asyncio.Semaphore(TOGETHER)
    failed: list[BaseException] = []

    async def one(batch: Batch, apart: bool) -> RenderedBatch | None:
        async with places:
            if failed:
                return None
            try:
                done = await parts.renderer.render(batch, apart=apart)
                if done.chains:
                    failpoints.hit("master.chain.rendered")
                if write and done.chains:
                    await asyncio.to_thread(parts.files.write_chunks, texts(done.chains))
            except BaseException as error:
                failed.append(error)
                raise
            return done

    each = [one(batch, apart) for batch, apart in parts.renderer.for_chain(plans)]
    # All have ended before one of their errors is raised: none writes a file after that.
    results = await asyncio.gather(*each, return_exceptions=True)
    if failed:
        raise failed[0]
    done = [result for result in results if isinstance(result, RenderedBatch)]
    chains = {minion: chunks for batch in done for minion, chunks in batch.chains.items()}
    refused = {minion: why for batch in done for minion, why in batch.refused.items()}
    return replace(others, chains=chains, refused={**others.refused, **refused})


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
    found = await current_draft(parts, chain_id)
    rendering = await render(parts, found, write=True)
    if not rendering.chains:
        await parts.change(lambda ledger: _claim(ledger, found, rendering, ""))
        await parts.ssh.look_at(rendering.awaited)
        return
    _show(parts, found, rendering)

    def within(conn: sa.Connection, submitted: Submitted) -> None:
        ledger = ChainLedger(conn, parts.clocks.read())
        _claim(ledger, found, rendering, submitted.jid)
        parts.record_all(conn, ledger.events)

    key = f"chain/{chain_id}/{found.row.epoch}"
    submitted = await parts.jobs.submit(request(parts, found, rendering, key), within)
    if submitted.repeated:
        # Else it would stay scheduled for ever and nobody be told.
        raise ConflictError(f"job {submitted.jid} has the idempotency key of chain {chain_id}")
    await parts.ssh.look_at(rendering.awaited)


async def expose(parts: ChainParts, found: Draft, rendering: RenderedDraft) -> None:
    """Write the chunk files of a rendering, and let each minion see its own."""
    await asyncio.to_thread(parts.files.write_chunks, texts(rendering.chains))
    _show(parts, found, rendering)


def _show(parts: ChainParts, found: Draft, rendering: RenderedDraft) -> None:
    """Let each minion see its chunk files, which are there."""
    failpoints.hit("master.chain.written")
    for minion, chain in rendering.chains.items():
        parts.files.expose(minion, [c.file for c in chain.chunks], found.plans[minion])


def request(parts: ChainParts, found: Draft, rendering: RenderedDraft, key: str) -> JobRequest:
    """Return the job that starts a chain on the minions of a rendering.

    Args:
        parts: of chains.
        found: the chain.
        rendering: for whom.
        key: the job is stored once under it.
    """
    row = found.row
    metadata = {"suma-action-chain": True, "chain": row.id, "epoch": row.epoch}
    return JobRequest(
        user=row.user,
        call=FunctionCall(START, (row.id,), metadata=metadata),
        minions=tuple(sorted(rendering.chains)),
        payloads={
            minion: _payload(row.id, chain.manifest, parts.rules)
            for minion, chain in rendering.chains.items()
        },
        expiry_seconds=parts.rules.due.late_seconds,
        idempotency_key=key,
    )


def _payload(chain_id: int, manifest: dict[str, Any], rules: ChainRules) -> Payload:
    """Return a manifest as a payload that says how long this master waits for the boot.

    Not where that is what everybody expects: an older agent refuses what it does not know.
    """
    body = manifest
    if rules.boundary_seconds != BOUNDARY_SECONDS:
        body = {**manifest, "boundary_seconds": int(rules.boundary_seconds)}
    return Payload(CHAIN, chain_id, manifest["epoch"], body)


def _claim(ledger: ChainLedger, found: Draft, rendering: RenderedDraft, jid: str) -> None:
    """Store that the chain is dispatched, with what was rendered for whom."""
    row = found.row
    if pauses.on(pauses.of_run(ledger.conn, row.run), EVERYWHERE):
        # In the moment in which it was rendered.
        raise ConflictError(f"{row.title} was paused")
    reason = f"{len(rendering.refused)} minions can't take it" if rendering.refused else ""
    ledger.move_chain(row, ChainEvent.dispatch, reason)
    claims.claim(ledger, found, rendering.chains, jid)
    claims.await_hosts(ledger, found, rendering.awaited)
    for minion, text in rendering.refused.items():
        some = rows.executions(ledger.conn, row.run, minion)
        ledger.apply(some, decide.fail_open([rows.fact(e) for e in some], text))
    ledger.settle(row.id, ())
