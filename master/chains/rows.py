"""Queries on the tables of chains; each runs in its caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.core import ids
from catena.core.errors import NotFoundError
from catena.core.job import Boundary
from catena.core.run_ref import RunRef
from catena.core.suggest import unknown
from catena.master.chains import actions
from catena.master.chains.actions import ActionPlan
from catena.master.chains.decide import ExecutionFact
from catena.master.chains.lifecycle import ChainState, MinionState
from catena.master.chains.model import (
    OPEN_MINIONS,
    ChainExecution,
    ChainMinion,
    ChainRecord,
    Chunk,
)
from catena.master.chains.render import PlannedAction
from catena.master.executions.lifecycle import OPEN, ExecutionState
from catena.master.process.clocks import ClockReading, rebased, same_host
from catena.master.store.chain_tables import (
    ACTIONS,
    CHAIN_EXECUTIONS,
    CHAIN_MINIONS,
    CHAINS,
    CHUNKS,
    ENTRIES,
    LIVE,
)
from catena.master.store.execution_tables import EXECUTIONS, HISTORY, RUNS
from catena.master.store.fast.lookup import Lookup
from catena.master.store.lists import padded, slices
from catena.master.store.metadata import MessagePackType

#: Name of this engine in the tables that all engines share.
ENGINE = "chains"
#: Maximum number of parameters in one list of a query; SQLite allows 32 766 in total.
SLICE = 500
#: Number of newest labels from which the nearest name is suggested.
_SUGGESTED_FROM = 200
OURS = RUNS.c.engine == sa.literal_column(f"'{ENGINE}'")
CHAIN_ID = sa.cast(RUNS.c.ref, sa.BigInteger).label("chain_id")
#: States in which a minion has something to do for a run.
_WITH_WORK = [state.value for state in (*OPEN_MINIONS, MinionState.fenced)]
_IS_OPEN = CHAIN_MINIONS.c.state.in_([state.value for state in OPEN_MINIONS])
#: Open runs on minions; matches a partial index that contains only live runs.
OPEN_RUNS = LIVE & _IS_OPEN

# -- chains ------------------------------------------------------------------------------------

#: Chains as `ChainRecord`s.
CHAIN_ROWS: sa.Select[Any] = sa.select(
    CHAINS.c.id,
    CHAINS.c.label,
    CHAINS.c.user,
    CHAINS.c.created,
    CHAINS.c.dispatched,
    CHAINS.c.archived,
    CHAINS.c.run,
    sa.func.coalesce(RUNS.c.state, ChainState.draft.value).label("state"),
    sa.func.coalesce(RUNS.c.reason, "").label("reason"),
    sa.func.coalesce(RUNS.c.epoch, 0).label("epoch"),
    RUNS.c.due,
    sa.func.coalesce(RUNS.c.anchor_wall, 0.0).label("anchor_wall"),
    sa.func.coalesce(RUNS.c.anchor_mono, 0.0).label("anchor_mono"),
    sa.func.coalesce(RUNS.c.anchor_boot, "").label("anchor_boot"),
    RUNS.c.approval,
    RUNS.c.ended,
).outerjoin_from(CHAINS, RUNS, RUNS.c.id == CHAINS.c.run)
#: Chains whose newest run has not ended, as `ChainRecord`s; starts from the table of runs.
RUNNING_CHAINS: sa.Select[Any] = (
    sa.select(*CHAIN_ROWS.selected_columns)
    .join_from(RUNS, CHAINS, CHAINS.c.run == RUNS.c.id)
    .where(OURS, RUNS.c.ended.is_(None))
)
_CHAIN = CHAIN_ROWS.where(CHAINS.c.id == sa.bindparam("b_chain"))


def chain(conn: sa.Connection, chain_id: int) -> ChainRecord:
    """Return a chain by its id.

    Raises:
        NotFoundError: there is no such chain.
    """
    row = conn.execute(_CHAIN, {"b_chain": chain_id}).first()
    if row is None:
        raise NotFoundError(f"there is no chain {chain_id}")
    return ChainRecord._make(row)


def chains(
    conn: sa.Connection, query: sa.Select[Any], values: Mapping[str, Any] | None = None
) -> list[ChainRecord]:
    """Return the chains that a query derived from CHAIN_ROWS or RUNNING_CHAINS selects."""
    return [ChainRecord._make(row) for row in conn.execute(query, values or {})]


def numbered_chain(conn: sa.Connection, ref: str) -> ChainRecord | None:
    """Return the chain whose id is *ref*; None if *ref* is no id or there is no such chain."""
    if not ids.is_chain_id(ref):
        return None
    row = conn.execute(_CHAIN, {"b_chain": int(ref)}).first()
    return None if row is None else ChainRecord._make(row)


def find_chain(conn: sa.Connection, ref: str) -> ChainRecord:
    """Return a chain by its id or its label (the newest one).

    An id wins over a label, because messages and commands of catena name chains by their ids.

    Raises:
        NotFoundError: there is no such chain; the message names the nearest label.
    """
    numbered = numbered_chain(conn, ref)
    if numbered is not None:
        return numbered
    newest = CHAIN_ROWS.where(CHAINS.c.label == ref).order_by(CHAINS.c.id.desc()).limit(1)
    row = conn.execute(newest).first()
    if row is None:
        labels = sa.select(CHAINS.c.label).order_by(CHAINS.c.id.desc()).limit(_SUGGESTED_FROM)
        raise NotFoundError(unknown("chain", ref[:80], list(conn.execute(labels).scalars())))
    return ChainRecord._make(row)


def listed(conn: sa.Connection, limit: int, *, archived: bool) -> list[ChainRecord]:
    """Return the newest chains, including archived ones only if *archived*."""
    query = CHAIN_ROWS.order_by(CHAINS.c.id.desc()).limit(limit)
    if not archived:
        query = query.where(CHAINS.c.archived == sa.false())
    return chains(conn, query)


def due_by(conn: sa.Connection, at: float) -> list[ChainRecord]:
    """Return the scheduled chains that were due by *at*, in seconds since the epoch."""
    rule = (RUNS.c.state == ChainState.scheduled.value) & (RUNS.c.due <= at)
    return chains(conn, RUNNING_CHAINS.where(rule).order_by(RUNS.c.id))


# -- entries -----------------------------------------------------------------------------------


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
        # Leave the data packed: it is part of the key by which equal actions are restored once.
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

    Entries with equal actions share one plan object.
    """
    query = _ENTRIES_OF if minion else _ENTRIES
    unpacked = partial(MessagePackType().process_result_value, dialect=conn.dialect)
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
    """Return minion -> its actions, in the order of *entries*."""
    found: defaultdict[str, list[PlannedAction]] = defaultdict(list)
    for entry in entries:
        found[entry.minion].append(PlannedAction(entry.action_id, entry.plan))
    return dict(found)


# -- executions --------------------------------------------------------------------------------

#: Executions as `ChainExecution`s.
EXECUTION_ROWS: sa.Select[Any] = (
    sa.select(
        EXECUTIONS.c.id,
        EXECUTIONS.c.run,
        CHAIN_ID,
        sa.cast(EXECUTIONS.c.ref, sa.BigInteger).label("action_id"),
        EXECUTIONS.c.epoch,
        EXECUTIONS.c.kind,
        EXECUTIONS.c.minion,
        EXECUTIONS.c.position,
        EXECUTIONS.c.state,
        EXECUTIONS.c.reason,
        EXECUTIONS.c.started,
        EXECUTIONS.c.ended,
        sa.func.coalesce(CHAIN_EXECUTIONS.c.chunk, 0).label("chunk"),
        sa.func.coalesce(CHAIN_EXECUTIONS.c.boundary, Boundary.none.value).label("waits_for"),
        sa.func.coalesce(CHAIN_EXECUTIONS.c.delay_seconds, 0.0).label("delay_seconds"),
        CHAIN_EXECUTIONS.c.picked_up,
        sa.func.coalesce(CHAIN_EXECUTIONS.c.picked_mono, 0.0).label("picked_mono"),
        sa.func.coalesce(CHAIN_EXECUTIONS.c.picked_host_boot, "").label("picked_host_boot"),
        sa.func.coalesce(CHAIN_EXECUTIONS.c.picked_host, "").label("picked_host"),
        sa.func.coalesce(CHAIN_EXECUTIONS.c.boot_id, "").label("boot_id"),
    )
    .join_from(EXECUTIONS, RUNS, RUNS.c.id == EXECUTIONS.c.run)
    .outerjoin(CHAIN_EXECUTIONS, CHAIN_EXECUTIONS.c.execution == EXECUTIONS.c.id)
)
_ORDER = (EXECUTIONS.c.epoch, EXECUTIONS.c.position, EXECUTIONS.c.minion)
_OF_CHAIN = EXECUTION_ROWS.where(OURS, RUNS.c.ref == sa.bindparam("b_ref")).order_by(*_ORDER)
_OF_RUN = EXECUTION_ROWS.where(EXECUTIONS.c.run == sa.bindparam("b_run")).order_by(*_ORDER)
_OF_MINION = _OF_RUN.where(EXECUTIONS.c.minion == sa.bindparam("b_minion"))
_PICKED_UP = (
    EXECUTION_ROWS.join(
        CHAIN_MINIONS,
        (CHAIN_MINIONS.c.run == EXECUTIONS.c.run)
        & (CHAIN_MINIONS.c.minion == EXECUTIONS.c.minion),
    )
    .where(LIVE, CHAIN_MINIONS.c.state == MinionState.waiting.value)
    .where(EXECUTIONS.c.state == ExecutionState.RUNNING.value)
    .where(CHAIN_EXECUTIONS.c.picked_up.is_not(None))
    .order_by(EXECUTIONS.c.position.desc())
)


def executions(conn: sa.Connection, run: int | None, minion: str = "") -> list[ChainExecution]:
    """Return the executions of a run, or those on one minion, by sort order and minion."""
    if minion:
        found = conn.execute(_OF_MINION, {"b_run": run, "b_minion": minion})
    else:
        found = conn.execute(_OF_RUN, {"b_run": run})
    return [ChainExecution._make(row) for row in found]


def waiting_for_proof(conn: sa.Connection) -> list[ChainExecution]:
    """Return the executions that wait for the proof of a boundary, the last actions first."""
    return [ChainExecution._make(row) for row in conn.execute(_PICKED_UP)]


class Waiting(NamedTuple):
    """An execution that waits to be dispatched."""

    id: int
    action_id: int
    minion: str


_WAITING: sa.Select[Any] = (
    sa.select(
        EXECUTIONS.c.id,
        sa.cast(EXECUTIONS.c.ref, sa.BigInteger).label("action_id"),
        EXECUTIONS.c.minion,
    )
    .where(
        EXECUTIONS.c.run == sa.bindparam("b_run"),
        EXECUTIONS.c.state == ExecutionState.PENDING_SCHEDULE.value,
    )
    .order_by(EXECUTIONS.c.position, EXECUTIONS.c.minion)
)
_WAITING_OF: sa.Select[Any] = _WAITING.where(EXECUTIONS.c.minion == sa.bindparam("b_minion"))


def waiting(conn: sa.Connection, run: int | None, minion: str = "") -> list[Waiting]:
    """Return the executions of a run that wait to be dispatched, by sort order and minion."""
    asked: dict[str, Any] = {"b_run": run}
    query = _WAITING
    if minion:
        query = _WAITING_OF
        asked["b_minion"] = minion
    return [Waiting._make(row) for row in conn.execute(query, asked)]


def newest(conn: sa.Connection, chain_id: int) -> dict[int, ChainExecution]:
    """Return the newest execution of each action of a chain, by action id."""
    found = map(ChainExecution._make, conn.execute(_OF_CHAIN, {"b_ref": str(chain_id)}))
    return {row.action_id: row for row in found}


_ANY_OPEN = (
    sa.select(EXECUTIONS.c.id)
    .where(EXECUTIONS.c.run == sa.bindparam("b_run"), EXECUTIONS.c.status.in_(OPEN))
    .limit(1)
)
_ANY_OPEN_OF = (
    sa.select(EXECUTIONS.c.id)
    .where(
        EXECUTIONS.c.run == sa.bindparam("b_run"),
        EXECUTIONS.c.minion == sa.bindparam("b_minion"),
        EXECUTIONS.c.ended.is_(None),
    )
    .limit(1)
)


def has_open(conn: sa.Connection, run: int | None, minion: str = "") -> bool:
    """Return whether an execution of a run (on one minion) has not ended."""
    if minion:
        found = conn.execute(_ANY_OPEN_OF, {"b_run": run, "b_minion": minion})
    else:
        found = conn.execute(_ANY_OPEN, {"b_run": run})
    return found.first() is not None


#: Value -> member; five times as fast as calling the enumeration, and used for every execution.
_STATES = {state.value: state for state in ExecutionState}
_BOUNDARIES = {boundary.value: boundary for boundary in Boundary}


def fact(row: ChainExecution) -> ExecutionFact:
    """Return an execution as a fact for `decide`."""
    return ExecutionFact(
        action_id=row.action_id,
        sort_order=row.sort_order,
        state=_STATES[row.state],
        chunk=row.chunk,
        waits_for=_BOUNDARIES[row.waits_for],
        picked_up=row.picked_up is not None,
        boot_id=row.boot_id,
    )


def picked_up(row: ChainExecution) -> ClockReading:
    """Return when an execution was picked up, by the clocks of the master's host at that time."""
    at = row.picked_up or 0.0
    return ClockReading(at, row.picked_mono, row.picked_host_boot, row.picked_host)


def rebase(conn: sa.Connection, now: ClockReading, boundary_seconds: float) -> None:
    """Convert the times of pending boundaries that another host recorded to this host's clocks.

    At least half of the allowed time is left, so that proofs can arrive after the master's start.

    Args:
        conn: the running transaction.
        now: the clocks of this host.
        boundary_seconds: the time allowed for a boundary, without the delay of its action.
    """
    for row in waiting_for_proof(conn):
        then = picked_up(row)
        if same_host(then, now):
            continue
        here = rebased(then, now, (boundary_seconds + row.delay_seconds) / 2)
        values = {
            "picked_mono": here.mono,
            "picked_host_boot": here.boot,
            "picked_host": here.host,
        }
        rule = CHAIN_EXECUTIONS.c.execution == row.id
        conn.execute(sa.update(CHAIN_EXECUTIONS).where(rule).values(values))


def last_noted(conn: sa.Connection, found: list[ChainExecution]) -> int:
    """Return the id of the newest history row of executions of one run; 0 if there is none."""
    query = sa.select(sa.func.max(HISTORY.c.id)).where(
        HISTORY.c.run == found[0].run if found else sa.false(),
        HISTORY.c.subject == "execution",
        HISTORY.c.subject_id.in_(padded(row.id for row in found)),
    )
    return int(conn.execute(query).scalar() or 0)


# -- runs on minions ---------------------------------------------------------------------------

#: Runs on minions as `ChainMinion`s.
MINION_ROWS: sa.Select[Any] = sa.select(
    CHAIN_MINIONS.c.id,
    CHAIN_MINIONS.c.run,
    CHAIN_ID,
    RUNS.c.label,
    RUNS.c.epoch,
    CHAIN_MINIONS.c.minion,
    CHAIN_MINIONS.c.jid,
    CHAIN_MINIONS.c.boot_id,
    CHAIN_MINIONS.c.state,
    CHAIN_MINIONS.c.fence_jid,
    CHAIN_MINIONS.c.fence_tries,
    CHAIN_MINIONS.c.fence_at,
    CHAIN_MINIONS.c.fence_why,
    CHAIN_MINIONS.c.disowned,
    CHAIN_MINIONS.c.over_ssh,
).join_from(CHAIN_MINIONS, RUNS, RUNS.c.id == CHAIN_MINIONS.c.run)
#: Prepared, because it runs for every return that may belong to a chain.
_BY_JID = Lookup(
    MINION_ROWS.where(
        CHAIN_MINIONS.c.jid == sa.bindparam("b_jid"),
        CHAIN_MINIONS.c.minion == sa.bindparam("b_minion"),
    ),
    ChainMinion,
)
_BY_REF = MINION_ROWS.where(
    OURS,
    RUNS.c.ref == sa.bindparam("b_ref"),
    CHAIN_MINIONS.c.minion == sa.bindparam("b_minion"),
)
_BY_EPOCH = _BY_REF.where(RUNS.c.epoch == sa.bindparam("b_epoch"))
_NEWEST = _BY_REF.order_by(RUNS.c.epoch.desc()).limit(1)
_BY_RUN = MINION_ROWS.where(
    CHAIN_MINIONS.c.run == sa.bindparam("b_run"),
    CHAIN_MINIONS.c.minion == sa.bindparam("b_minion"),
)
_OPEN_RUNS = MINION_ROWS.where(OPEN_RUNS).order_by(CHAIN_MINIONS.c.jid)
_OPEN_RUNS_OF = _OPEN_RUNS.where(CHAIN_MINIONS.c.minion == sa.bindparam("b_minion"))


def minion_runs(
    conn: sa.Connection, query: sa.Select[Any], values: Mapping[str, Any] | None = None
) -> list[ChainMinion]:
    """Return the runs on minions that a query derived from MINION_ROWS selects."""
    return [ChainMinion._make(row) for row in conn.execute(query, values or {})]


def _one(
    conn: sa.Connection, query: sa.Select[Any], values: Mapping[str, Any]
) -> ChainMinion | None:
    row = conn.execute(query, values).first()
    return None if row is None else ChainMinion._make(row)


def runs(conn: sa.Connection, chain_id: int, epoch: int = 0) -> list[ChainMinion]:
    """Return the runs of a chain on all minions: of one epoch, or of all (*epoch* 0)."""
    query = MINION_ROWS.where(OURS, RUNS.c.ref == str(chain_id))
    if epoch:
        query = query.where(RUNS.c.epoch == epoch)
    return minion_runs(conn, query.order_by(RUNS.c.epoch, CHAIN_MINIONS.c.minion))


def run_by_jid(conn: sa.Connection, jid: str, minion: str) -> ChainMinion | None:
    """Return the run that a job starts on a minion; None if it starts none."""
    return _BY_JID.one(conn, {"b_jid": jid, "b_minion": minion})


def run_of(conn: sa.Connection, ref: RunRef, minion: str) -> ChainMinion | None:
    """Return a run of a chain on a minion by chain id and epoch; None if there is none."""
    asked = {"b_ref": str(ref.chain_id), "b_epoch": ref.epoch, "b_minion": minion}
    return _one(conn, _BY_EPOCH, asked)


def newest_run(conn: sa.Connection, chain_id: int, minion: str) -> ChainMinion | None:
    """Return the newest run of a chain on a minion; None if there is none."""
    return _one(conn, _NEWEST, {"b_ref": str(chain_id), "b_minion": minion})


def on_minion(conn: sa.Connection, run: int | None, minion: str) -> ChainMinion | None:
    """Return a run on a minion; None if the minion has no part in it."""
    return _one(conn, _BY_RUN, {"b_run": run, "b_minion": minion})


def open_runs(conn: sa.Connection, minion: str = "") -> list[ChainMinion]:
    """Return the open runs, on one minion or all, in the order of their start jobs."""
    if minion:
        return minion_runs(conn, _OPEN_RUNS_OF, {"b_minion": minion})
    return minion_runs(conn, _OPEN_RUNS)


def with_work(minions: Collection[str], conn: sa.Connection) -> set[str]:
    """Return those of *minions* that have an open run or one to remove."""
    found: set[str] = set()
    for some in slices(list(minions), SLICE):
        query = sa.select(CHAIN_MINIONS.c.minion).where(CHAIN_MINIONS.c.minion.in_(padded(some)))
        query = query.where(LIVE, CHAIN_MINIONS.c.state.in_(_WITH_WORK))
        found.update(conn.execute(query).scalars())
    return found


def ahead(conn: sa.Connection, run: int | None) -> dict[str, str]:
    """Return minion -> title of the open chain directly before *run* on that minion."""
    mine = CHAIN_MINIONS.alias()
    query = (
        MINION_ROWS.join(mine, mine.c.minion == CHAIN_MINIONS.c.minion)
        .where(mine.c.run == run, mine.c.state.in_([state.value for state in OPEN_MINIONS]))
        .where(OPEN_RUNS, CHAIN_MINIONS.c.jid < mine.c.jid)
    )
    found = minion_runs(conn, query.order_by(CHAIN_MINIONS.c.jid))
    return {row.minion: row.title for row in found}


_PENDING = MINION_ROWS.where(LIVE, CHAIN_MINIONS.c.state == MinionState.pending.value)


def pending(conn: sa.Connection) -> list[ChainMinion]:
    """Return the runs of hosts that join a chain after their first SSH visit."""
    return minion_runs(conn, _PENDING)


def pending_since(conn: sa.Connection, at: float) -> list[ChainMinion]:
    """Return the pending hosts of open runs that were due by *at* (seconds since the epoch)."""
    due = sa.select(RUNS.c.id).where(RUNS.c.due <= at, RUNS.c.ended.is_(None))
    early = set(conn.execute(due).scalars())
    return [run for run in pending(conn) if run.run in early]


# -- chunks ------------------------------------------------------------------------------------

#: Chunk files as `Chunk`s.
CHUNK_ROWS: sa.Select[Any] = sa.select(
    CHUNKS.c.id,
    CHUNKS.c.run,
    CHAIN_ID,
    RUNS.c.epoch,
    CHUNKS.c.minion,
    CHUNKS.c.number,
    CHUNKS.c.file,
    CHUNKS.c.state,
).join_from(CHUNKS, RUNS, RUNS.c.id == CHUNKS.c.run)
_CHUNKS_OF = CHUNK_ROWS.where(
    CHUNKS.c.run == sa.bindparam("b_run"), CHUNKS.c.minion == sa.bindparam("b_minion")
).order_by(CHUNKS.c.number)


def chunks(conn: sa.Connection, run: ChainMinion) -> list[Chunk]:
    """Return the chunk files of a run on a minion, in order."""
    found = conn.execute(_CHUNKS_OF, {"b_run": run.run, "b_minion": run.minion})
    return [Chunk._make(row) for row in found]
