"""Queries on the tables of chains; every function runs inside somebody's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from catena.core.errors import NotFoundError
from catena.core.job import Boundary, ChainManifest
from catena.core.records import decode
from catena.core.run_ref import RunRef
from catena.core.suggest import unknown
from catena.master.chains import actions
from catena.master.chains.actions import ActionPlan
from catena.master.chains.decide import ExecutionFact
from catena.master.chains.lifecycle import EXECUTION, ExecutionState
from catena.master.chains.render import PlannedAction
from catena.master.process.clocks import ClockReading, rebased, same_host
from catena.master.store.chain_tables import (
    ACTIONS,
    CHAINS,
    CHUNKS,
    ENTRIES,
    EXECUTIONS,
    HISTORY,
    RUNS,
)
from catena.master.store.fast.lookup import Lookup
from catena.master.store.lists import padded, slices
from catena.master.store.metadata import Packed

#: Rows asked for at once; SQLite takes at most 32 766 parameters.
SLICE = 500
#: Names looked at to suggest the right one.
_SUGGESTED_FROM = 200
_MINIONS = RUNS.c.minion.in_(sa.bindparam("b_minions", expanding=True))
#: Two selects: each has an index of its own.
_WITH_WORK = sa.union_all(
    sa.select(RUNS.c.minion).where(_MINIONS, RUNS.c.open == sa.true()),
    sa.select(RUNS.c.minion).where(_MINIONS, RUNS.c.fence == sa.true()),
)
#: Asked with every return that may be of a chain.
_BY_JID = Lookup(
    sa.select(RUNS).where(
        RUNS.c.jid == sa.bindparam("b_jid"), RUNS.c.minion == sa.bindparam("b_minion")
    )
)
_OPEN = tuple(state.value for state in ExecutionState if not EXECUTION.is_final(state))


def chain(conn: sa.Connection, chain_id: int) -> sa.Row[Any]:
    """Return a chain by its id.

    Raises:
        NotFoundError: there is none.
    """
    row = conn.execute(sa.select(CHAINS).where(CHAINS.c.id == chain_id)).first()
    if row is None:
        raise NotFoundError(f"there is no chain {chain_id}")
    return row


def title(row: Any) -> str:
    """Return how a message names the chain of a row; two of one label differ by their number."""
    return f"chain {row.label!r} ({row.id})"


def find_chain(conn: sa.Connection, ref: str) -> sa.Row[Any]:
    """Return a chain by its label (the newest one) or its id.

    A label wins over an id, so that a chain named "12" can be reached.

    Raises:
        NotFoundError: there is none; the message names the nearest label.
    """
    newest = sa.select(CHAINS).where(CHAINS.c.label == ref).order_by(CHAINS.c.id.desc()).limit(1)
    row = conn.execute(newest).first()
    if row is None and ref.isascii() and ref.isdigit() and len(ref) < 19:
        row = conn.execute(sa.select(CHAINS).where(CHAINS.c.id == int(ref))).first()
    if row is None:
        labels = sa.select(CHAINS.c.label).order_by(CHAINS.c.id.desc()).limit(_SUGGESTED_FROM)
        raise NotFoundError(unknown("chain", ref[:80], list(conn.execute(labels).scalars())))
    return row


@dataclass(frozen=True, slots=True)
class Entry:
    """An action of a chain on one minion."""

    action_id: int
    minion: str
    sort_order: int
    plan: ActionPlan


_ENTRIES = (
    sa.select(
        ENTRIES.c.action_id,
        ENTRIES.c.minion,
        ENTRIES.c.sort_order,
        ACTIONS.c.kind,
        # Packed as it is: it is the key by which equal actions are restored once.
        sa.type_coerce(ACTIONS.c.data, sa.LargeBinary).label("data"),
        ACTIONS.c.repeat,
    )
    .join(ACTIONS, ACTIONS.c.id == ENTRIES.c.action_id)
    .where(ENTRIES.c.chain_id == sa.bindparam("b_chain"))
    .order_by(ENTRIES.c.sort_order, ENTRIES.c.minion)
)
_ENTRIES_OF = _ENTRIES.where(ENTRIES.c.minion == sa.bindparam("b_minion"))


def entries(conn: sa.Connection, chain_id: int, minion: str = "") -> list[Entry]:
    """Return the entries of a chain, or those on one minion, by sort order and minion.

    Actions that are alike, as those of a fleet are, share one plan.
    """
    query = _ENTRIES_OF if minion else _ENTRIES
    unpacked = partial(Packed().process_result_value, dialect=conn.dialect)
    plans: dict[tuple[str, bytes, str], ActionPlan] = {}
    found = []
    asked = {"b_chain": chain_id, **({"b_minion": minion} if minion else {})}
    for action_id, on, order, kind, data, repeat in conn.execute(query, asked):
        key = (kind, data, repeat)
        plan = plans.get(key)
        if plan is None:
            plan = plans[key] = actions.restore(kind, unpacked(data), repeat)
        found.append(Entry(action_id, on, order, plan))
    return found


def has_entries(conn: sa.Connection, chain_id: int) -> bool:
    """Return whether a chain has actions."""
    query = sa.select(ENTRIES.c.action_id).where(ENTRIES.c.chain_id == chain_id).limit(1)
    return conn.execute(query).first() is not None


def planned(entries: Iterable[Entry]) -> dict[str, list[PlannedAction]]:
    """Return entries as the actions of each minion, in order."""
    found: defaultdict[str, list[PlannedAction]] = defaultdict(list)
    for entry in entries:
        found[entry.minion].append(PlannedAction(entry.action_id, entry.plan))
    return dict(found)


def executions(
    conn: sa.Connection, chain_id: int, minion: str = "", epoch: int = 0
) -> Sequence[sa.Row[Any]]:
    """Return executions of a chain, oldest run first, by sort order; of one minion or run."""
    query = sa.select(EXECUTIONS).where(EXECUTIONS.c.chain_id == chain_id)
    if minion:
        query = query.where(EXECUTIONS.c.minion == minion)
    if epoch:
        query = query.where(EXECUTIONS.c.epoch == epoch)
    order = (EXECUTIONS.c.epoch, EXECUTIONS.c.sort_order, EXECUTIONS.c.minion)
    return conn.execute(query.order_by(*order)).all()


_WAITING: sa.Select[Any] = (
    sa.select(EXECUTIONS.c.id, EXECUTIONS.c.action_id, EXECUTIONS.c.minion)
    .where(
        EXECUTIONS.c.chain_id == sa.bindparam("b_chain"),
        EXECUTIONS.c.epoch == sa.bindparam("b_epoch"),
        EXECUTIONS.c.state == ExecutionState.PENDING_SCHEDULE.value,
    )
    .order_by(EXECUTIONS.c.sort_order, EXECUTIONS.c.minion)
)
_WAITING_OF: sa.Select[Any] = _WAITING.where(EXECUTIONS.c.minion == sa.bindparam("b_minion"))


def waiting(
    conn: sa.Connection, chain_id: int, epoch: int, minion: str = ""
) -> Sequence[sa.Row[Any]]:
    """Return id, action and minion of the executions of a run that wait to be dispatched."""
    asked: dict[str, Any] = {"b_chain": chain_id, "b_epoch": epoch}
    if minion:
        return conn.execute(_WAITING_OF, {**asked, "b_minion": minion}).all()
    return conn.execute(_WAITING, asked).all()


def newest(conn: sa.Connection, chain_id: int) -> dict[int, sa.Row[Any]]:
    """Return the newest execution of each action of a chain, by action id."""
    return {row.action_id: row for row in executions(conn, chain_id)}


def has_open(conn: sa.Connection, chain_id: int, minion: str = "") -> bool:
    """Return whether an execution of a chain (on one minion) has not ended."""
    rule = (EXECUTIONS.c.chain_id == chain_id) & EXECUTIONS.c.state.in_(_OPEN)
    if minion:
        rule = rule & (EXECUTIONS.c.minion == minion)
    return conn.execute(sa.select(EXECUTIONS.c.id).where(rule).limit(1)).first() is not None


def fact(row: sa.Row[Any]) -> ExecutionFact:
    """Return an execution as the decisions see it."""
    return ExecutionFact(
        action_id=row.action_id,
        sort_order=row.sort_order,
        state=ExecutionState(row.state),
        chunk=row.chunk,
        waits_for=Boundary(row.waits_for),
        picked_up=row.picked_up is not None,
        boot_id=row.boot_id,
    )


def picked_up(row: sa.Row[Any]) -> ClockReading:
    """Return when an execution was picked up, by the clocks of the master's host at that time."""
    return ClockReading(row.picked_up, row.picked_mono, row.picked_host_boot, row.picked_host)


def rebase(conn: sa.Connection, now: ClockReading, boundary_seconds: float) -> None:
    """Convert the times of pending boundaries that another master's host recorded to this host.

    At least half of the allowed time is left: a proof may arrive as soon as the master listens.

    Args:
        conn: the running transaction.
        now: the clocks of this host.
        boundary_seconds: the time that a boundary is allowed, without its own delay.
    """
    running = EXECUTIONS.c.state == ExecutionState.RUNNING.value
    query = sa.select(EXECUTIONS).where(running, EXECUTIONS.c.picked_up.is_not(None))
    for row in conn.execute(query).all():
        then = picked_up(row)
        if same_host(then, now):
            continue
        here = rebased(then, now, (boundary_seconds + row.delay_seconds) / 2)
        values = {
            "picked_mono": here.mono,
            "picked_host_boot": here.boot,
            "picked_host": here.host,
        }
        conn.execute(sa.update(EXECUTIONS).where(EXECUTIONS.c.id == row.id).values(values))


def runs(conn: sa.Connection, chain_id: int, epoch: int) -> Sequence[sa.Row[Any]]:
    """Return what was sent to each minion in one run of a chain."""
    rule = (RUNS.c.chain_id == chain_id) & (RUNS.c.epoch == epoch)
    return conn.execute(sa.select(RUNS).where(rule).order_by(RUNS.c.minion)).all()


def run_by_jid(conn: sa.Connection, jid: str, minion: str) -> Any:
    """Return the run that a job started on a minion, or None."""
    return _BY_JID.one(conn, {"b_jid": jid, "b_minion": minion})


def run_of(conn: sa.Connection, ref: RunRef, minion: str) -> sa.Row[Any] | None:
    """Return a run of a chain on a minion by its number."""
    rule = (RUNS.c.chain_id == ref.chain_id) & (RUNS.c.epoch == ref.epoch)
    return conn.execute(sa.select(RUNS).where(rule & (RUNS.c.minion == minion))).first()


def newest_run(conn: sa.Connection, chain_id: int, minion: str) -> sa.Row[Any] | None:
    """Return the newest run of a chain on a minion."""
    rule = (RUNS.c.chain_id == chain_id) & (RUNS.c.minion == minion)
    query = sa.select(RUNS).where(rule).order_by(RUNS.c.epoch.desc()).limit(1)
    return conn.execute(query).first()


def open_runs(conn: sa.Connection, minion: str = "") -> Sequence[sa.Row[Any]]:
    """Return the runs that are under way, on one minion or all."""
    query = sa.select(RUNS).where(RUNS.c.open == sa.true())
    if minion:
        query = query.where(RUNS.c.minion == minion)
    return conn.execute(query.order_by(RUNS.c.jid)).all()


def with_work(minions: Collection[str], conn: sa.Connection) -> set[str]:
    """Return those of *minions* on which a run is under way, or that have one to forget."""
    found: set[str] = set()
    for some in slices(list(minions), SLICE):
        found.update(conn.execute(_WITH_WORK, {"b_minions": padded(some)}).scalars())
    return found


def ahead(conn: sa.Connection, chain_id: int) -> dict[str, str]:
    """Return for each minion of a chain the title of the open chain right before it there."""
    mine = RUNS.alias()
    query = (
        sa.select(RUNS.c.minion, CHAINS.c.id, CHAINS.c.label)
        .join(CHAINS, CHAINS.c.id == RUNS.c.chain_id)
        .join(mine, mine.c.minion == RUNS.c.minion)
        .where(mine.c.chain_id == chain_id, mine.c.open == sa.true())
        .where(RUNS.c.open == sa.true(), RUNS.c.jid < mine.c.jid)
    )
    return {row.minion: title(row) for row in conn.execute(query.order_by(RUNS.c.jid))}


def owes_changes(chain_id: int, conn: sa.Connection) -> bool:
    """Return whether an action that ended by progress waits for its return to say what changed."""
    return any(
        row.started is not None and row.changes is None
        for row in newest(conn, chain_id).values()
        if row.state in (ExecutionState.DONE.value, ExecutionState.FAILED.value)
    )


def manifest(run: sa.Row[Any]) -> ChainManifest:
    """Return the manifest of a run."""
    return decode(ChainManifest, run.manifest, "manifest")


def chunks(conn: sa.Connection, run: sa.Row[Any]) -> Sequence[sa.Row[Any]]:
    """Return the chunk files of a run, in order."""
    query = sa.select(CHUNKS).where(of_run(CHUNKS, run)).order_by(CHUNKS.c.number)
    return conn.execute(query).all()


def of_run(table: sa.Table, run: sa.Row[Any]) -> sa.ColumnElement[bool]:
    """Return the rule that picks the rows of *run* in *table*."""
    return sa.and_(
        table.c.chain_id == run.chain_id,
        table.c.epoch == run.epoch,
        table.c.minion == run.minion,
    )


def history(conn: sa.Connection, chain_id: int, limit: int) -> Sequence[sa.Row[Any]]:
    """Return the last *limit* rows of a chain's history, oldest first."""
    query = sa.select(HISTORY).where(HISTORY.c.chain_id == chain_id)
    found = conn.execute(query.order_by(HISTORY.c.id.desc()).limit(limit)).all()
    return found[::-1]


def count_states(
    conn: sa.Connection, sizes: Mapping[int, tuple[int, int]]
) -> Mapping[int, dict[str, int]]:
    """Return, per chain, how many of its newest executions stand in each state.

    Args:
        conn: a snapshot.
        sizes: of the chains, from `count_entries`.
    """
    every = sa.select(EXECUTIONS.c.chain_id, EXECUTIONS.c.state, sa.func.count())
    found = _by_state(conn, every, list(sizes))
    # One that was never retried has one for each entry, and an index alone has told them.
    retried = [key for key, states in found.items() if sum(states.values()) > sizes[key][0]]
    if not retried:
        return found
    last = (
        sa.select(EXECUTIONS.c.action_id, sa.func.max(EXECUTIONS.c.epoch).label("epoch"))
        .where(EXECUTIONS.c.chain_id.in_(padded(retried)))
        .group_by(EXECUTIONS.c.action_id)
        .subquery()
    )
    is_last = (last.c.action_id == EXECUTIONS.c.action_id) & (last.c.epoch == EXECUTIONS.c.epoch)
    return {**found, **_by_state(conn, every.join(last, is_last), retried)}


def _by_state(
    conn: sa.Connection, query: sa.Select[Any], chain_ids: Sequence[int]
) -> dict[int, dict[str, int]]:
    query = query.where(EXECUTIONS.c.chain_id.in_(padded(chain_ids)))
    found: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for chain_id, state, count in conn.execute(
        query.group_by(EXECUTIONS.c.chain_id, EXECUTIONS.c.state)
    ):
        found[chain_id][state] = count
    return found


def count_entries(conn: sa.Connection, chain_ids: Sequence[int]) -> Mapping[int, tuple[int, int]]:
    """Return, per chain, how many actions and how many minions it has."""
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
