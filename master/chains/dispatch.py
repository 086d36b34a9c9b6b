"""Starts a due chain: renders it, and claims it in the transaction that stores its job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import sqlalchemy as sa

from catena.core import failpoints
from catena.core.errors import CatenaError
from catena.core.job import BOUNDARY_SECONDS, ChainManifest, FunctionCall
from catena.master.chains import claims, decide, rows
from catena.master.chains.claims import Draft, Host
from catena.master.chains.dependencies import ChainParts, ChainRules, SshHosts
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import (
    ChainEvent,
    ChainState,
)
from catena.master.chains.render import ChainPlan, RenderedChain, render
from catena.master.chains.run_jobs import START
from catena.master.executions.ledger import ConflictError
from catena.master.jobs.model import JobRequest, Submitted
from catena.master.store.lists import padded, slices
from catena.master.store.metadata import Packed, Ready
from catena.master.store.tables import KEYS, MINIONS
from catena.transport.messages.session import TRANSACTIONAL_CHUNKS

#: The grain `transactional: true` as it is stored.
_TRANSACTIONAL = Ready.of({"transactional": True}).packed[1:]
#: Minions whose chunk files are written together.
_SLICE = 256


@dataclass(frozen=True)
class Rendering:
    """What came of rendering a draft: chunk files, or per minion why there are none."""

    chains: Mapping[str, RenderedChain]
    refused: Mapping[str, str] = field(default_factory=dict)
    #: Hosts that must be looked at before they can be rendered for; they join later.
    awaited: frozenset[str] = frozenset()

    def texts(self) -> dict[str, str]:
        """Return every chunk file by its name."""
        return {chunk.file: chunk.text for c in self.chains.values() for chunk in c.chunks}


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


def hosts(conn: sa.Connection, minions: list[str], ssh: SshHosts) -> dict[str, Host]:
    """Return what is known of *minions*, by id; who is neither minion nor host is left out."""
    found = {}
    for name, known in ssh.known(conn, minions).items():
        found[name] = Host(known.machine_id, known.boot_id, agentless=True)
    for start in range(0, len(minions), rows.SLICE):
        some = minions[start : start + rows.SLICE]
        query = (
            sa.select(
                KEYS.c.minion,
                KEYS.c.machine_id.label("of_key"),
                MINIONS.c.machine_id,
                MINIONS.c.boot_id,
                MINIONS.c.wire,
                sa.type_coerce(MINIONS.c.grains, sa.LargeBinary).label("grains"),
            )
            .outerjoin(MINIONS, MINIONS.c.id == KEYS.c.minion)
            .where(KEYS.c.state == "accepted", KEYS.c.minion.in_(padded(some)))
        )
        for row in conn.execute(query):
            found[row.minion] = Host(
                row.machine_id or row.of_key,
                row.boot_id or "",
                # An older agent gets a state that reboots.
                transactional=(row.wire or 0) >= TRANSACTIONAL_CHUNKS
                and _is_transactional(conn, row.grains),
            )
    return found


def _is_transactional(conn: sa.Connection, packed: bytes | None) -> bool:
    """Return whether stored grains say that a minion's root is changed by snapshots."""
    # Nearly all minions' say that it is not: they need not be unpacked to see that.
    if not packed or _TRANSACTIONAL not in packed:
        return False
    grains: dict[str, object] = Packed().process_result_value(packed, conn.dialect)
    return grains.get("transactional") is True


def render_all(found: Draft, agent_packages: tuple[str, ...]) -> Rendering:
    """Render a chain for each of its minions. Pure; may run in any thread."""
    chains, refused = {}, {}
    awaited = set()
    for minion, plans in found.plans.items():
        host = found.hosts.get(minion)
        if host is None or not (host.machine_id or host.agentless):
            refused[minion] = decide.EMPTY_RESULT
            continue
        if not host.machine_id:
            awaited.add(minion)
            continue
        epoch = max(1, found.row.epoch)
        plan = ChainPlan(
            found.row.id,
            host.machine_id,
            plans,
            agent_packages,
            epoch,
            host.agentless,
            host.transactional,
        )
        try:
            chains[minion] = render(plan)
        except CatenaError as error:
            refused[minion] = str(error)
    return Rendering(chains, refused, frozenset(awaited))


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
    rendering = await _prepare(parts, found)
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


async def _prepare(parts: ChainParts, found: Draft) -> Rendering:
    """Render a draft, and write its chunk files.

    Those of some minions are written while the next are rendered: the one waits for the disk, the
    other for the processor.
    """
    chains: dict[str, RenderedChain] = {}
    refused: dict[str, str] = {}
    awaited: set[str] = set()
    writing: asyncio.Future[None] | None = None
    try:
        for some in slices(list(found.plans), _SLICE):
            part = replace(found, plans={minion: found.plans[minion] for minion in some})
            done = await asyncio.to_thread(render_all, part, parts.rules.agent_packages)
            chains.update(done.chains)
            refused.update(done.refused)
            awaited.update(done.awaited)
            if not done.chains:
                continue
            failpoints.hit("master.chain.rendered")
            if writing is not None:
                await writing
            write = asyncio.to_thread(parts.files.write_chunks, done.texts())
            writing = asyncio.ensure_future(write)
    finally:
        if writing is not None:
            await writing
    return Rendering(chains, refused, frozenset(awaited))


async def expose(parts: ChainParts, found: Draft, rendering: Rendering) -> None:
    """Write the chunk files of a rendering, and let each minion see its own."""
    await asyncio.to_thread(parts.files.write_chunks, rendering.texts())
    _show(parts, found, rendering)


def _show(parts: ChainParts, found: Draft, rendering: Rendering) -> None:
    """Let each minion see its chunk files, which are there."""
    failpoints.hit("master.chain.written")
    for minion, chain in rendering.chains.items():
        parts.files.expose(minion, [c.file for c in chain.chunks], found.plans[minion])


def request(parts: ChainParts, found: Draft, rendering: Rendering, key: str) -> JobRequest:
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
        chains={
            minion: _told(chain.manifest, parts.rules)
            for minion, chain in rendering.chains.items()
        },
        expiry_seconds=parts.rules.due.late_seconds,
        idempotency_key=key,
    )


def _told(manifest: ChainManifest, rules: ChainRules) -> ChainManifest:
    """Return a manifest that says how long this master waits for the boot of the chain.

    Not where that is what everybody expects: an older agent refuses what it does not know.
    """
    if rules.boundary_seconds == BOUNDARY_SECONDS:
        return manifest
    return replace(manifest, boundary_seconds=int(rules.boundary_seconds))


def _claim(ledger: ChainLedger, found: Draft, rendering: Rendering, jid: str) -> None:
    """Store that the chain is dispatched, with what was rendered for whom."""
    row = found.row
    reason = f"{len(rendering.refused)} minions can't take it" if rendering.refused else ""
    ledger.move_chain(row, ChainEvent.dispatch, reason)
    claims.claim(ledger, found, rendering.chains, jid)
    claims.await_hosts(ledger, found, rendering.awaited)
    for minion, text in rendering.refused.items():
        some = rows.executions(ledger.conn, row.run, minion)
        ledger.apply(some, decide.fail_open([rows.fact(e) for e in some], text))
    ledger.settle(row.id, ())
