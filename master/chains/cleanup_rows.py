"""Queries for the cleanup of chains: files of chunks, uploads, ended chains."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import sqlalchemy as sa

from catena.master.chains import actions, rows
from catena.master.chains.actions import ActionPlan, ActionType
from catena.master.chains.lifecycle import ENDED_CHAINS, ChainState, ChunkState
from catena.master.chains.model import Chunk
from catena.master.store.chain_tables import ACTIONS, CHAIN_MINIONS, CHAINS, CHUNKS
from catena.master.store.execution_tables import APPROVALS, HISTORY, RUNS
from catena.master.store.lists import padded, slices

#: Maximum number of chunks whose files are deleted together.
BATCH = 200

_UPLOADING = (ActionType.script.value, ActionType.upgrade_agent.value)
_OVER = (ChunkState.applied.value, ChunkState.failed.value)
# Built once: the scheduler runs it at every tick, and building costs more than running.
#: Jobs of open runs, whose returns may still be needed.
JOBS_IN_USE = sa.select(CHAIN_MINIONS.c.jid).where(rows.OPEN_RUNS)
_FIRST_OVER = rows.CHUNK_ROWS.where(CHUNKS.c.state.in_(_OVER)).limit(BATCH)
_IN_USE = (ChunkState.rendered.value, ChunkState.shipped.value)
_DROPPED = (ChainState.done.value, ChainState.cancelled.value)
_LISTED = CHAINS.c.archived == sa.false()


def over(conn: sa.Connection) -> list[Chunk]:
    """Return the first chunks whose results are processed and whose files still exist."""
    return [Chunk._make(row) for row in conn.execute(_FIRST_OVER)]


def in_use(some: Collection[Chunk], conn: sa.Connection) -> set[str]:
    """Return the files among those of *some* that chunks still to run share."""
    names = [chunk.file for chunk in some]
    query = sa.select(CHUNKS.c.file).where(CHUNKS.c.file.in_(names), CHUNKS.c.state.in_(_IN_USE))
    return set(conn.execute(query).scalars())


def archive_dispatched(conn: sa.Connection) -> None:
    """Archive the chains with a dispatched run."""
    _archive(conn, CHAINS.c.dispatched == sa.true())


def archive_ended(conn: sa.Connection, before: float) -> None:
    """Archive the chains whose newest run ended before *before* (epoch seconds)."""
    ended = sa.select(RUNS.c.id).where(RUNS.c.engine == rows.ENGINE, RUNS.c.ended < before)
    ended = ended.where(RUNS.c.state.in_([state.value for state in ENDED_CHAINS]))
    _archive(conn, CHAINS.c.run.in_(ended))


def _archive(conn: sa.Connection, rule: sa.ColumnElement[bool]) -> None:
    conn.execute(sa.update(CHAINS).where(_LISTED, rule).values(archived=True))


def plans_in_use(conn: sa.Connection, before: float) -> Iterator[ActionPlan]:
    """Yield the actions with uploads of chains that may still need them.

    A chain that was done or cancelled before *before* (seconds since the epoch) needs none.
    """
    kept = sa.or_(CHAINS.c.run.is_(None), RUNS.c.state.not_in(_DROPPED), RUNS.c.ended >= before)
    query = (
        sa.select(ACTIONS.c.kind, ACTIONS.c.data, ACTIONS.c.repeat)
        .join(CHAINS, CHAINS.c.id == ACTIONS.c.chain_id)
        .outerjoin(RUNS, RUNS.c.id == CHAINS.c.run)
        .where(kept, ACTIONS.c.kind.in_(_UPLOADING))
    )
    for kind, data, repeat in conn.execute(query):
        yield actions.restore(kind, data, repeat)


def unknown_chains(ids: Collection[int], conn: sa.Connection) -> set[int]:
    """Return those of *ids* that no chain has, archived chains included."""
    unknown = set(ids)
    for some in slices(sorted(unknown), rows.SLICE):
        known = sa.select(CHAINS.c.id).where(CHAINS.c.id.in_(padded(some)))
        unknown.difference_update(conn.execute(known).scalars())
    return unknown


def archived(conn: sa.Connection, before: float, limit: int) -> list[int]:
    """Return the ids of archived chains that ended before *before*, oldest first."""
    rule = (CHAINS.c.archived == sa.true()) & (RUNS.c.ended < before)
    old = sa.select(CHAINS.c.id).join(RUNS, RUNS.c.id == CHAINS.c.run).where(rule)
    return list(conn.execute(old.order_by(RUNS.c.ended).limit(limit)).scalars())


def forget(conn: sa.Connection, chain_ids: Collection[int]) -> None:
    """Delete chains with their runs and all dependent rows."""
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
