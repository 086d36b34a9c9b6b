"""What people change of chains before and between their runs: entries, times, retries.

Every function works in the transaction of its ledger; the service calls them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import sqlalchemy as sa

from catena.client.requests.chains import ChainAction, ChainSchedule
from catena.core.errors import InvalidStateError, NotFoundError, UsageError
from catena.master.chains import actions, decide, rows
from catena.master.chains.actions import ActionPlan
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import (
    ENDED_CHAINS,
    ChainEvent,
    ChainState,
)
from catena.master.chains.model import ChainExecution, ChainRecord
from catena.master.executions import approvals
from catena.master.executions.lifecycle import ExecutionEvent, ExecutionState
from catena.master.store.backup import next_epoch
from catena.master.store.chain_tables import ACTIONS, CHAINS, ENTRIES
from catena.master.store.execution_tables import EXECUTIONS, RUNS
from catena.master.store.fast.serials import insert_many
from catena.master.store.metadata import Ready

_INSERT_ENTRY = sa.insert(ENTRIES)
_INSERT_EXECUTION = sa.insert(EXECUTIONS)
#: One for each entry of a chain, without a way through this process: a fleet's are many.
_INSERT_EVERY_EXECUTION = _INSERT_EXECUTION.from_select(
    [
        "run",
        "engine",
        "kind",
        "ref",
        "epoch",
        "minion",
        "position",
        "state",
        "status",
        "created",
    ],
    sa.select(
        sa.bindparam("b_run", type_=sa.BigInteger),
        sa.literal(rows.ENGINE, sa.String),
        ACTIONS.c.repeat,
        sa.cast(ENTRIES.c.action_id, sa.String(64)),
        sa.bindparam("b_epoch", type_=sa.Integer),
        ENTRIES.c.minion,
        ENTRIES.c.sort_order,
        sa.bindparam("b_state", type_=sa.String),
        sa.bindparam("b_state", type_=sa.String),
        sa.bindparam("b_now", type_=sa.Double),
    )
    .join(ACTIONS, ACTIONS.c.id == ENTRIES.c.action_id)
    .where(ENTRIES.c.chain_id == sa.bindparam("b_chain"))
    .order_by(ENTRIES.c.sort_order, ENTRIES.c.minion),
)

MAX_ENTRIES = 200_000
MAX_ACTIONS = 1_000

UNDISPATCHED = (
    ChainState.draft.value,
    ChainState.pending_approval.value,
    ChainState.scheduled.value,
    ChainState.waiting.value,
)


@dataclass(frozen=True)
class DocumentEntry:
    """One entry of a ChainDocument."""

    tgt: str
    action: ChainAction
    tgt_type: str = "glob"


@dataclass(frozen=True)
class Step:
    """A checked action and the minions that it is for."""

    plan: ActionPlan
    minions: tuple[str, ...]


def draft(conn: sa.Connection, label: str) -> ChainRecord | None:
    """Return the draft of a label, or None."""
    return _newest(conn, label, CHAINS.c.run.is_(None))


def _newest(conn: sa.Connection, label: str, rule: sa.ColumnElement[bool]) -> ChainRecord | None:
    query = rows.CHAIN_ROWS.where(CHAINS.c.label == label, rule)
    return next(iter(rows.chains(conn, query.order_by(CHAINS.c.id.desc()).limit(1))), None)


def editable(conn: sa.Connection, ref: str) -> ChainRecord:
    """Return a chain that may be edited: a draft of that label, else the chain that *ref* names.

    Raises:
        InvalidStateError: it is past that.
        NotFoundError: there is none; the message says how to make one.
    """
    try:
        row = draft(conn, ref) or rows.find_chain(conn, ref)
    except NotFoundError as error:
        raise NotFoundError(f"{error}; a new one: catena chain create {ref[:80]}") from None
    if row.state != ChainState.draft.value:
        raise InvalidStateError(f"{row.title} is {row.state}; only a draft can be edited")
    return row


def create(ledger: ChainLedger, label: str, again: bool = False) -> int:
    """Make an empty draft; return its id.

    Args:
        ledger: of the running transaction.
        label: of the chain.
        again: a chain of that label may be under way; without it, who repeats a command would
            run everything twice.

    Raises:
        UsageError: a chain of that label has not ended, or is a draft.
    """
    known = draft(ledger.conn, label)
    if known is not None:
        raise UsageError(f"there is already {known.title}, which is {known.state}")
    ended = [state.value for state in ENDED_CHAINS]
    unended = CHAINS.c.run.is_(None) | RUNS.c.state.not_in(ended)
    known = None if again else _newest(ledger.conn, label, unended)
    if known is not None:
        raise UsageError(
            f"{known.title} is {known.state}: it was taken already, see catena chain show "
            f"{known.id}; --again makes another chain of this label"
        )
    values = {
        "label": label,
        "user": ledger.who,
        "created": ledger.now.wall,
        "dispatched": False,
        "archived": False,
    }
    key = ledger.conn.execute(sa.insert(CHAINS).values(values)).inserted_primary_key
    assert key is not None
    ledger.note_chain(rows.chain(ledger.conn, key[0]), "created")
    return int(key[0])


def append(ledger: ChainLedger, row: ChainRecord, steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Put actions behind the last one of a draft; return sort order, minions, ids of each.

    Raises:
        UsageError: too many.
    """
    first = len(orders(ledger.conn, row))
    if first + len(steps) > MAX_ACTIONS:
        raise UsageError(f"a chain holds at most {MAX_ACTIONS} actions in a row")
    if sum(len(step.minions) for step in steps) > MAX_ENTRIES:
        raise UsageError(f"at most {MAX_ENTRIES} actions can be added at once")
    added = []
    for order, step in enumerate(steps, first):
        action_ids = _insert(ledger, row, step, order)
        added.append(
            {"sort_order": order, "minions": list(step.minions), "action_ids": action_ids}
        )
        names = ", ".join(step.minions[:3]) + (", …" if len(step.minions) > 3 else "")
        ledger.note_chain(row, "added", f"{order}: {actions.title(step.plan)} on {names}")
    return added


def _insert(ledger: ChainLedger, row: ChainRecord, step: Step, order: int) -> list[int]:
    """Store an action and an entry for each minion of a step; return the actions' ids."""
    values = {
        "chain_id": row.id,
        "kind": step.plan.type.value,
        "data": Ready.of(step.plan.stored()),
        "repeat": step.plan.repeat.value,
        "created": ledger.now.wall,
    }
    if not step.minions:
        return []
    keys = insert_many(ledger.conn, ACTIONS.c.id, [values] * len(step.minions))
    entries = [
        {"action_id": key, "chain_id": row.id, "minion": minion, "sort_order": order}
        for key, minion in zip(keys, step.minions, strict=True)
    ]
    ledger.conn.execute(_INSERT_ENTRY, entries)
    return list(keys)


def orders(conn: sa.Connection, row: ChainRecord) -> list[int]:
    """Return the sort orders of a chain that have entries, ascending."""
    query = sa.select(ENTRIES.c.sort_order).where(ENTRIES.c.chain_id == row.id).distinct()
    return sorted(conn.execute(query).scalars())


def entries_at(conn: sa.Connection, row: ChainRecord, order: int) -> Sequence[sa.Row[Any]]:
    """Return the entries at a sort order.

    Raises:
        NotFoundError: there are none.
    """
    rule = (ENTRIES.c.chain_id == row.id) & (ENTRIES.c.sort_order == order)
    found = conn.execute(sa.select(ENTRIES).where(rule)).all()
    if not found:
        raise NotFoundError(f"{row.title} has no action with sort order {order}")
    return found


def reorder(conn: sa.Connection, row: ChainRecord, orders: Sequence[int]) -> None:
    """Number the entries anew: those at orders[n] get n.

    Through negative numbers, because no two entries of a minion may share a sort order at any
    moment.
    """
    for step in (lambda n: -1 - n, None):
        for new, old in enumerate(orders):
            source = old if step else -1 - new
            rule = (ENTRIES.c.chain_id == row.id) & (ENTRIES.c.sort_order == source)
            target = step(new) if step else new
            conn.execute(sa.update(ENTRIES).where(rule).values(sort_order=target))


def due_now(ledger: ChainLedger, at: float = 0.0) -> dict[str, Any]:
    """Return the columns of a run that is due at *at* (0: now), with the clocks as they are."""
    now = ledger.now
    anchor = {"anchor_wall": now.wall, "anchor_mono": now.mono, "anchor_boot": now.boot}
    return {"due": at or now.wall, **anchor}


def schedule(ledger: ChainLedger, row: ChainRecord, request: ChainSchedule) -> int:
    """Give a draft its time and make its executions; return its id.

    Raises:
        UsageError: it has no actions.
        InvalidStateError: it is no draft.
    """
    if not rows.has_entries(ledger.conn, row.id):
        raise UsageError(f"{row.title} has no actions")
    event = ChainEvent.ask_approval if request.approve_required else ChainEvent.schedule
    epoch = next_epoch(ledger.conn, row.epoch)
    chain = ledger.open_run(row, event, epoch, due_now(ledger, request.at))
    if request.approve_required and chain.run is not None:
        approvals.ask(ledger, chain.run, _content(ledger.conn, row.id))
    state = (
        ExecutionState.PENDING_APPROVE
        if request.approve_required
        else ExecutionState.PENDING_SCHEDULE
    )
    every = {
        "b_chain": row.id,
        "b_run": chain.run,
        "b_epoch": epoch,
        "b_state": state.value,
        "b_now": ledger.now.wall,
    }
    ledger.conn.execute(_INSERT_EVERY_EXECUTION, every)
    return int(row.id)


def _content(conn: sa.Connection, chain_id: int) -> str:
    """Return the SHA-256 of what a chain is to do, and where."""
    query = (
        sa.select(ENTRIES.c.minion, ENTRIES.c.sort_order, ACTIONS.c.kind)
        .add_columns(sa.type_coerce(ACTIONS.c.data, sa.LargeBinary), ACTIONS.c.repeat)
        .join(ACTIONS, ACTIONS.c.id == ENTRIES.c.action_id)
        .where(ENTRIES.c.chain_id == chain_id)
        .order_by(ENTRIES.c.sort_order, ENTRIES.c.minion)
    )
    digest = hashlib.sha256()
    for row in conn.execute(query):
        digest.update(msgpack.packb(tuple(row)))
    return digest.hexdigest()


def add_executions(
    ledger: ChainLedger, chain: ChainRecord, again: Iterable[ChainExecution]
) -> None:
    """Store that actions of a chain are to run again, in its newest run."""
    values = [
        {
            "run": chain.run,
            "engine": rows.ENGINE,
            "kind": row.kind,
            "ref": str(row.action_id),
            "epoch": chain.epoch,
            "minion": row.minion,
            "position": row.sort_order,
            "state": ExecutionState.PENDING_SCHEDULE.value,
            "status": ExecutionState.PENDING_SCHEDULE.value,
            "created": ledger.now.wall,
        }
        for row in again
    ]
    if values:
        ledger.conn.execute(_INSERT_EXECUTION, values)


def move_open(
    ledger: ChainLedger, row: ChainRecord, event: ExecutionEvent, reason: str = ""
) -> None:
    """Move every open execution of a chain's newest run."""
    for execution in rows.executions(ledger.conn, row.run):
        if rows.fact(execution).is_open:
            change = decide.Change(execution.action_id, event, reason)
            ledger.move_execution(execution, change)
