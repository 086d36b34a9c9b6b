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
    """The result of rendering a draft: for each minion its chunk files, or why there are none."""

    chains: Mapping[str, MinionChunks]
    refused: Mapping[str, str] = field(default_factory=dict)
    #: Hosts whose machine id is unknown until the first SSH visit; they join the run after it.
    awaited: frozenset[str] = frozenset()


def draft(conn: sa.Connection, chain_id: int, ssh: SshHosts) -> Draft:
    """Return a chain with the actions that it would run: all of them, or those that a retry runs.

    Args:
        conn: a snapshot.
        chain_id: the chain.
        ssh: knows the hosts that the master reaches over SSH.
    """
    row = rows.chain(conn, chain_id)
    entries = rows.entries(conn, chain_id)
    open_now = {each.action_id for each in rows.waiting(conn, row.run)}
    if row.state != ChainState.draft.value and open_now:
        entries = [entry for entry in entries if entry.action_id in open_now]
    plans = rows.planned(entries)
    return Draft(row, plans, hosts(conn, list(plans), ssh))


async def current_draft(parts: ChainParts, chain_id: int) -> Draft:
    """Commit what the hosts have reported so far, then return `draft`.

    Raises:
        TryLaterError: the reports can't be stored now.
    """
    await parts.facts.settled()
    return await parts.store.read(lambda conn: draft(conn, chain_id, parts.ssh))


def hosts(conn: sa.Connection, minions: list[str], ssh: SshHosts) -> dict[str, MinionFacts]:
    """Return what is known of *minions*, by id, without names of no minion and no SSH host."""
    found = {}
    for name, known in ssh.known(conn, minions).items():
        found[name] = MinionFacts(known.machine_id, known.boot_id, agentless=True)
    found.update(dispatch_rows.minion_facts(conn, minions))
    return found


def plans_of(found: Draft, agent_packages: tuple[str, ...]) -> tuple[Batch, RenderedDraft]:
    """Return the plans to render, by minion, and a result that has the minions without a plan."""
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
        parts: what chains work with.
        found: the draft.
        write: whether to write the chunk files too. One batch is written while the next one is
            rendered, because writing waits for the disk and rendering uses the processor.

    Raises:
        TryLaterError: worker processes died while they rendered it, or are too busy.
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
    # Raise an error only after all batches have ended, so that none writes a file afterwards.
    results = await asyncio.gather(*each, return_exceptions=True)
    if failed:
        raise failed[0]
    done = [result for result in results if isinstance(result, RenderedBatch)]
    chains = {minion: chunks for batch in done for minion, chunks in batch.chains.items()}
    refused = {minion: why for batch in done for minion, why in batch.refused.items()}
    return replace(others, chains=chains, refused={**others.refused, **refused})


async def fire(parts: ChainParts, chain_id: int) -> None:
    """Dispatch a chain that is due.

    One transaction stores the job and claims the chain. After a crash before it, the chain is
    still scheduled, and rendering it again gives the same bytes. After a crash behind it, the job
    is in the store and is delivered without further help.

    Raises:
        ConflictError: the chain was claimed, cancelled or paused in the meantime.
        StoreUnavailableError: nothing was done; call it again.
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
        # Without this error the chain would stay scheduled for ever, and no log would say why.
        raise ConflictError(f"job {submitted.jid} has the idempotency key of chain {chain_id}")
    await parts.ssh.look_at(rendering.awaited)


async def expose(parts: ChainParts, found: Draft, rendering: RenderedDraft) -> None:
    """Write the chunk files of a rendering and make each minion's files visible to it."""
    await asyncio.to_thread(parts.files.write_chunks, texts(rendering.chains))
    _show(parts, found, rendering)


def _show(parts: ChainParts, found: Draft, rendering: RenderedDraft) -> None:
    """Make each minion's chunk files, which are written, visible to it."""
    failpoints.hit("master.chain.written")
    for minion, chain in rendering.chains.items():
        parts.files.expose(minion, [c.file for c in chain.chunks], found.plans[minion])


def request(parts: ChainParts, found: Draft, rendering: RenderedDraft, key: str) -> JobRequest:
    """Return the job that starts a chain on the minions of a rendering.

    Args:
        parts: what chains work with.
        found: the chain.
        rendering: the chunks of each minion.
        key: idempotency key of the job.
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
    """Return a manifest as a payload, with the seconds that this master waits for a boot.

    The default is left out, because an older agent refuses fields that it does not know.
    """
    body = manifest
    if rules.boundary_seconds != BOUNDARY_SECONDS:
        body = {**manifest, "boundary_seconds": int(rules.boundary_seconds)}
    return Payload(CHAIN, chain_id, manifest["epoch"], body)


def _claim(ledger: ChainLedger, found: Draft, rendering: RenderedDraft, jid: str) -> None:
    """Store that the chain is dispatched, with the chunks of each minion.

    Raises:
        ConflictError: the chain was paused while it was rendered, or has left its state.
    """
    row = found.row
    if pauses.on(pauses.of_run(ledger.conn, row.run), EVERYWHERE):
        raise ConflictError(f"{row.title} was paused")
    reason = f"can't run on {len(rendering.refused)} minions" if rendering.refused else ""
    ledger.move_chain(row, ChainEvent.dispatch, reason)
    claims.claim(ledger, found, rendering.chains, jid)
    claims.await_hosts(ledger, found, rendering.awaited)
    for minion, text in rendering.refused.items():
        some = rows.executions(ledger.conn, row.run, minion)
        ledger.apply(some, decide.fail_open([rows.fact(e) for e in some], text))
    ledger.settle(row.id, ())
