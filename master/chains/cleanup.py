"""Removes what chains leave behind: chunk files after their results, uploads and lists by age."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from typing import Any

import sqlalchemy as sa

from catena.core import failpoints
from catena.master.chains import actions
from catena.master.chains.actions import ActionType
from catena.master.chains.dependencies import ChainParts, ChainRules
from catena.master.chains.files import FRESH_SECONDS, hashes
from catena.master.chains.ledger import Ledger
from catena.master.chains.lifecycle import ChainState, ChunkEvent, ChunkState
from catena.master.store.chain_tables import ACTIONS, CHAINS, CHUNKS

#: Chunk files removed in one transaction.
BATCH = 200
PREVIEW_SECONDS = 24 * 3600

UPLOADING = (ActionType.script, ActionType.upgrade_agent)

_OVER = (ChunkState.applied.value, ChunkState.failed.value)
# Built once: every tick of the scheduler asks, and building costs more than running it.
_FIRST_OVER = sa.select(CHUNKS).where(CHUNKS.c.state.in_(_OVER)).limit(BATCH)
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


def _over(conn: sa.Connection) -> list[Any]:
    return list(conn.execute(_FIRST_OVER).all())


def _in_use(some: Collection[Any], conn: sa.Connection) -> set[str]:
    names = [chunk.file for chunk in some]
    query = sa.select(CHUNKS.c.file).where(CHUNKS.c.file.in_(names), CHUNKS.c.state.in_(_IN_USE))
    return set(conn.execute(query).scalars())


def _removed(some: Collection[Any], ledger: Ledger) -> None:
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
        rule = rule & (CHAINS.c.ended < now - rules.archive_seconds)
        # A retry of a failed chain sets `ended` again when it is over.
        ended = (ChainState.done.value, ChainState.failed.value, ChainState.cancelled.value)
        rule = rule & CHAINS.c.state.in_(ended)
    conn.execute(sa.update(CHAINS).where(rule).values(archived=True))


def _used(conn: sa.Connection, before: float) -> set[str]:
    """Return the hashes of uploads of chains that are not over for good since *before*."""
    kept = sa.or_(CHAINS.c.state.not_in(_DROPPED), CHAINS.c.ended >= before)
    query = (
        sa.select(ACTIONS.c.kind, ACTIONS.c.data, ACTIONS.c.repeat)
        .join(CHAINS, CHAINS.c.id == ACTIONS.c.chain_id)
        .where(kept, ACTIONS.c.kind.in_([kind.value for kind in UPLOADING]))
    )
    plans = (actions.restore(row.kind, row.data, row.repeat) for row in conn.execute(query))
    return {sha256 for plan in plans for sha256 in hashes(plan)}


def forget(conn: sa.Connection, row: sa.Row[Any]) -> None:
    """Delete a chain's rows."""
    conn.execute(sa.delete(CHAINS).where(CHAINS.c.id == row.id))
