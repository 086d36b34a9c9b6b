"""Queries for the views of chains: outcomes, history, counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.master.chains import rows
from catena.master.chains.model import HistoryLine
from catena.master.executions.lifecycle import ExecutionState
from catena.master.store.chain_tables import CHAIN_MINIONS, CHUNKS, ENTRIES
from catena.master.store.execution_tables import EXECUTIONS, HISTORY, RUNS
from catena.master.store.lists import padded, slices


class StoredOutcome(NamedTuple):
    """The stored outcome of an execution."""

    comment: str
    #: None: the return has not arrived yet.
    changes: Mapping[str, Any] | None


def outcomes(conn: sa.Connection, chain_id: int) -> dict[int, StoredOutcome]:
    """Return comments and changes of all executions of a chain, by execution id."""
    query = sa.select(EXECUTIONS.c.id, EXECUTIONS.c.comment, EXECUTIONS.c.changes)
    query = query.join(RUNS, RUNS.c.id == EXECUTIONS.c.run)
    found = conn.execute(query.where(rows.OURS, RUNS.c.ref == str(chain_id)))
    return {key: StoredOutcome(comment, changes) for key, comment, changes in found}


def lacks_changes(chain_id: int, conn: sa.Connection) -> bool:
    """Return whether an action has ended by progress and its return has not arrived yet."""
    ended = (ExecutionState.DONE.value, ExecutionState.FAILED.value)
    found = [row.id for row in rows.newest(conn, chain_id).values() if row.state in ended]
    query = sa.select(EXECUTIONS.c.id).where(
        EXECUTIONS.c.started.is_not(None), EXECUTIONS.c.changes.is_(None)
    )
    return any(
        conn.execute(query.where(EXECUTIONS.c.id.in_(padded(some))).limit(1)).first() is not None
        for some in slices(found, rows.SLICE)
    )


# -- history -----------------------------------------------------------------------------------

_SUBJECTS = {"run": "chain", "execution": "action", "chain_chunk": "chunk", "chain_minion": "late"}
_LINES: sa.Select[Any] = (
    sa.select(HISTORY, RUNS.c.epoch)
    .outerjoin(RUNS, RUNS.c.id == HISTORY.c.run)
    .order_by(HISTORY.c.id.desc())
    .limit(sa.bindparam("b_limit"))
)
#: Lines of a run, without the moves of its minions: those follow from the moves of the actions.
_OF_RUN: sa.Select[Any] = _LINES.where(
    HISTORY.c.run == sa.bindparam("b_run"),
    HISTORY.c.subject.in_(("run", "execution", "chain_chunk")) | (HISTORY.c.event == "late"),
)
_OF_DRAFT: sa.Select[Any] = _LINES.where(
    HISTORY.c.run.is_(None),
    HISTORY.c.subject == "chain",
    HISTORY.c.subject_id == sa.bindparam("b_chain"),
)
_RUNS_OF = sa.select(RUNS.c.id).where(rows.OURS, RUNS.c.ref == sa.bindparam("b_ref"))


def history(conn: sa.Connection, chain_id: int, limit: int) -> list[HistoryLine]:
    """Return the last *limit* lines of a chain's history, oldest first."""
    lines = list(conn.execute(_OF_DRAFT, {"b_chain": chain_id, "b_limit": limit}))
    # One query per run: an index gives the last lines of each run without sorting all of them.
    for run in conn.execute(_RUNS_OF, {"b_ref": str(chain_id)}).scalars().all():
        lines += conn.execute(_OF_RUN, {"b_run": run, "b_limit": limit})
    found = sorted(lines, key=lambda line: -line.id)[:limit]
    places = _places(conn, found)
    return [
        HistoryLine(
            _SUBJECTS.get(row.subject, row.subject),
            *places.get((row.subject, row.subject_id), (0, "")),
            row.epoch or 0,
            row.source,
            row.event,
            row.target,
            row.who,
            row.reason,
            row.at,
        )
        for row in reversed(found)
    ]


def _places(conn: sa.Connection, found: Sequence[Any]) -> dict[tuple[str, int], tuple[int, str]]:
    """Return (subject, subject id) -> action id or chunk number, and minion, of history lines."""
    action_id = sa.cast(EXECUTIONS.c.ref, sa.BigInteger)
    where: tuple[tuple[str, sa.Table, sa.ColumnElement[Any]], ...] = (
        ("execution", EXECUTIONS, action_id),
        ("chain_chunk", CHUNKS, CHUNKS.c.number),
        ("chain_minion", CHAIN_MINIONS, sa.literal(0)),
    )
    places = {}
    for subject, table, number in where:
        ids = [row.subject_id for row in found if row.subject == subject]
        query = sa.select(table.c.id, number, table.c.minion).where(table.c.id.in_(padded(ids)))
        for key, value, minion in conn.execute(query) if ids else ():
            places[subject, key] = (int(value), minion)
    return places


# -- counts ------------------------------------------------------------------------------------


def count_states(
    conn: sa.Connection, sizes: Mapping[int, tuple[int, int]]
) -> Mapping[int, dict[str, int]]:
    """Return chain id -> state -> number of its newest executions in that state.

    Args:
        conn: a snapshot.
        sizes: the chains, as `count_entries` returns them.
    """
    found: defaultdict[int, dict[str, int]] = defaultdict(dict)
    query = (
        sa.select(rows.CHAIN_ID, EXECUTIONS.c.status, sa.func.count())
        .join_from(RUNS, EXECUTIONS, EXECUTIONS.c.run == RUNS.c.id)
        .where(rows.OURS, RUNS.c.ref.in_(padded(str(key) for key in sizes)))
        .group_by(RUNS.c.ref, EXECUTIONS.c.status)
    )
    for chain_id, state, count in conn.execute(query):
        found[chain_id][state] = count
    # A chain that was never retried has one execution per entry, so the counts above are right.
    for chain_id, states in list(found.items()):
        if sum(states.values()) > sizes[chain_id][0]:
            counts: defaultdict[str, int] = defaultdict(int)
            for row in rows.newest(conn, chain_id).values():
                counts[row.state] += 1
            found[chain_id] = dict(counts)
    return found


def count_entries(conn: sa.Connection, chain_ids: Sequence[int]) -> Mapping[int, tuple[int, int]]:
    """Return chain id -> its number of actions and its number of minions."""
    query = (
        sa.select(
            ENTRIES.c.chain_id,
            sa.func.count(),
            sa.func.count(ENTRIES.c.minion.distinct()),
        )
        .where(ENTRIES.c.chain_id.in_(padded(chain_ids)))
        .group_by(ENTRIES.c.chain_id)
    )
    return {row[0]: (row[1], row[2]) for row in conn.execute(query)}
