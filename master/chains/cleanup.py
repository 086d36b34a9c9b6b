"""Deletes files that chains no longer need, and archives old chains."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from functools import partial

import sqlalchemy as sa

from catena.core import failpoints
from catena.master.chains import cleanup_rows
from catena.master.chains.dependencies import ChainParts, ChainRules
from catena.master.chains.files import FRESH_SECONDS, ChainFiles, hashes
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import ChunkEvent
from catena.master.chains.model import Chunk

LOG = logging.getLogger(__name__)

#: Age at which a preview is deleted.
PREVIEW_SECONDS = 24 * 3600


async def clear_files(parts: ChainParts) -> None:
    """Delete the files of chunks whose results are processed; minions no longer see them."""
    while True:
        some = await parts.store.read(cleanup_rows.over)
        if not some:
            return
        failpoints.hit("master.clean")
        in_use = await parts.store.read(partial(cleanup_rows.in_use, some))
        gone = []
        for chunk in some:
            # A retry writes files of the same names; keep those of the new run.
            if chunk.file in in_use or await asyncio.to_thread(_remove, parts.files, chunk.file):
                gone.append(chunk)
        await parts.change(partial(_removed, gone))
        minions = {chunk.minion for chunk in gone}
        parts.files.replace(await parts.store.read(partial(parts.files.hide, minions)))
        if len(gone) < cleanup_rows.BATCH:
            return


def _remove(files: ChainFiles, name: str) -> bool:
    """Remove a chunk file; return False if that fails, so that the next call retries it."""
    try:
        files.remove_chunk(name)
    except OSError as error:
        LOG.warning("can't remove the file of an ended chain: %s", error)
        return False
    return True


def _removed(some: Collection[Chunk], ledger: ChainLedger) -> None:
    for chunk in some:
        ledger.move_chunk(chunk, ChunkEvent.remove)


async def archive(parts: ChainParts) -> None:
    """Archive old chains, and delete uploads, previews and chunks that are no longer needed."""
    now = parts.clocks.read().wall
    await parts.store.write(lambda conn: _archive(conn, parts.rules, now))
    before = now - parts.rules.archive_seconds
    used = await parts.store.read(lambda conn: _used(conn, before))
    await asyncio.to_thread(parts.files.drop_uploads, used, now - FRESH_SECONDS)
    await asyncio.to_thread(parts.files.sweep_previews, now - PREVIEW_SECONDS)
    await _drop_orphans(parts, now - FRESH_SECONDS)


async def _drop_orphans(parts: ChainParts, before: float) -> None:
    """Delete chunk files, older than *before*, of chains that do not exist.

    A master that is killed while it deletes a chain leaves them. A chain exists before its first
    chunk is written, and no id is used twice.
    """
    ids = await asyncio.to_thread(parts.files.chains_before, before)
    gone = await parts.store.read(partial(cleanup_rows.unknown_chains, ids)) if ids else ()
    if gone:
        await asyncio.to_thread(parts.files.drop_chunks, gone, before)


def _archive(conn: sa.Connection, rules: ChainRules, now: float) -> None:
    if rules.retention == "forever":
        return
    if rules.retention == "dispatch":
        cleanup_rows.archive_dispatched(conn)
    else:
        cleanup_rows.archive_ended(conn, now - rules.archive_seconds)


def _used(conn: sa.Connection, before: float) -> set[str]:
    """Return the hashes of uploads that are still needed by chains.

    A chain that was done or cancelled before *before* (seconds since the epoch) needs none.
    """
    plans = cleanup_rows.plans_in_use(conn, before)
    return {sha256 for plan in plans for sha256 in hashes(plan)}
