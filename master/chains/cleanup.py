"""Removes what chains leave behind: chunk files after their results, uploads and lists by age."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial

import sqlalchemy as sa

from catena.core import failpoints
from catena.master.chains import actions, rows
from catena.master.chains.actions import ActionType
from catena.master.chains.dependencies import ChainParts, ChainRules
from catena.master.chains.files import FRESH_SECONDS, hashes
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import ENDED_CHAINS, ChainState, ChunkEvent, ChunkState
from catena.master.chains.model import Chunk
from catena.master.store.chain_tables import ACTIONS, CHAINS, CHUNKS
from catena.master.store.execution_tables import APPROVALS, HISTORY, RUNS
from catena.master.store.lists import padded, slices

#: Chunk files removed in one transaction.
BATCH = 200
PREVIEW_SECONDS = 24 * 3600

UPLOADING = (ActionType.script, ActionType.upgrade_agent)

_OVER = (ChunkState.applied.value, ChunkState.failed.value)
# Built once: every tick of the scheduler asks, and building costs more than running it.
_FIRST_OVER = rows.CHUNK_ROWS.where(CHUNKS.c.state.in_(_OVER)).limit(BATCH)
_IN_USE = (ChunkState.rendered.value, ChunkState.shipped.value)
_DROPPED = (ChainState.done.value, ChainState.cancelled.value)


async def clear_files(parts: ChainParts) -> None:
    """Remove the files of chunks whose results are processed; minions no longer see them."""
    while True:
        some = await parts.store.read(_over)
        if not some:
            return
        failpoints.hit("master.clean")
        in_use = await parts.store.read(partial(_in_use, some))
        for chunk in some:
            # A retry writes files of the same names; those of the new run stay.
            if chunk.file not in in_use:
                await asyncio.to_thread(parts.files.remove_chunk, chunk.file)
        await parts.change(partial(_removed, some))
        minions = {chunk.minion for chunk in some}
        parts.files.replace(await parts.store.read(partial(parts.files.hide, minions)))
        if len(some) < BATCH:
            return


def _over(conn: sa.Connection) -> list[Chunk]:
    return [Chunk._make(row) for row in conn.execute(_FIRST_OVER)]


def _in_use(some: Collection[Chunk], conn: sa.Connection) -> set[str]:
    names = [chunk.file for chunk in some]
    query = sa.select(CHUNKS.c.file).where(CHUNKS.c.file.in_(names), CHUNKS.c.state.in_(_IN_USE))
    return set(conn.execute(query).scalars())


def _removed(some: Collection[Chunk], ledger: ChainLedger) -> None:
    for chunk in some:
        ledger.move_chunk(chunk, ChunkEvent.remove)


async def archive(parts: ChainParts) -> None:
    """Take old chains off the list, and drop uploads and previews that nobody needs."""
    now = parts.clocks.read().wall
    await parts.store.write(lambda conn: _archive(conn, parts.rules, now))
    before = now - parts.rules.archive_seconds
    used = await parts.store.read(lambda conn: _used(conn, before))
    await asyncio.to_thread(parts.files.drop_uploads, used, now - FRESH_SECONDS)
    await asyncio.to_thread(parts.files.sweep_previews, now - PREVIEW_SECONDS)


def _archive(conn: sa.Connection, rules: ChainRules, now: float) -> None:
    if rules.retention == "forever":
        return
    rule = CHAINS.c.archived == sa.false()
    if rules.retention == "dispatch":
        rule = rule & (CHAINS.c.dispatched == sa.true())
    else:
        ended = sa.select(RUNS.c.id).where(RUNS.c.engine == rows.ENGINE)
        ended = ended.where(RUNS.c.ended < now - rules.archive_seconds)
        ended = ended.where(RUNS.c.state.in_([state.value for state in ENDED_CHAINS]))
        rule = rule & CHAINS.c.run.in_(ended)
    conn.execute(sa.update(CHAINS).where(rule).values(archived=True))


def _used(conn: sa.Connection, before: float) -> set[str]:
    """Return the hashes of uploads of chains that are not over for good since *before*."""
    kept = sa.or_(CHAINS.c.run.is_(None), RUNS.c.state.not_in(_DROPPED), RUNS.c.ended >= before)
    query = (
        sa.select(ACTIONS.c.kind, ACTIONS.c.data, ACTIONS.c.repeat)
        .join(CHAINS, CHAINS.c.id == ACTIONS.c.chain_id)
        .outerjoin(RUNS, RUNS.c.id == CHAINS.c.run)
        .where(kept, ACTIONS.c.kind.in_([kind.value for kind in UPLOADING]))
    )
    plans = (actions.restore(row.kind, row.data, row.repeat) for row in conn.execute(query))
    return {sha256 for plan in plans for sha256 in hashes(plan)}


def forget(conn: sa.Connection, chain_ids: Collection[int]) -> None:
    """Delete chains, with their runs and everything that hangs on those."""
    notes = (HISTORY.c.subject == "chain") & HISTORY.c.run.is_(None)
    for some in slices(list(chain_ids), rows.SLICE):
        conn.execute(sa.delete(CHAINS).where(CHAINS.c.id.in_(padded(some))))
        refs = padded(str(chain_id) for chain_id in some)
        mine = (RUNS.c.engine == rows.ENGINE) & RUNS.c.ref.in_(refs)
        asked = sa.select(RUNS.c.approval).where(mine, RUNS.c.approval.is_not(None))
        approvals = conn.execute(asked).scalars().all()
        conn.execute(sa.delete(RUNS).where(mine))
        conn.execute(sa.delete(APPROVALS).where(APPROVALS.c.id.in_(padded(approvals))))
        conn.execute(sa.delete(HISTORY).where(notes, HISTORY.c.subject_id.in_(padded(some))))
