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

from catena.client.replies.chains import ChainAdded
from catena.client.requests.chains import ChainAction, ChainSchedule
from catena.core.errors import InvalidStateError, NotFoundError, UsageError
from catena.master.chains import actions, decide, draft_rows, rows
from catena.master.chains.actions import ActionPlan
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import ChainEvent, ChainState
from catena.master.chains.model import ChainExecution, ChainRecord
from catena.master.executions import approvals
from catena.master.executions import rows as execution_rows
from catena.master.executions.approval_rules import ApprovalState
from catena.master.executions.lifecycle import ExecutionEvent, ExecutionState
from catena.master.store.backup import next_epoch
from catena.master.store.metadata import Ready

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
class DraftStep:
    """A checked action and the minions that it is for."""

    plan: ActionPlan
    minions: tuple[str, ...]


def editable(conn: sa.Connection, ref: str) -> ChainRecord:
    """Return a chain that may be edited: a draft of that label, else the chain that *ref* names.

    Raises:
        InvalidStateError: it is past that.
        NotFoundError: there is none; the message says how to make one.
    """
    try:
        row = draft_rows.draft(conn, ref) or rows.find_chain(conn, ref)
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
    known = draft_rows.draft(ledger.conn, label)
    if known is not None:
        raise UsageError(f"there is already {known.title}, which is {known.state}")
    known = None if again else draft_rows.unended(ledger.conn, label)
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
    chain_id = draft_rows.insert(ledger.conn, values)
    ledger.note_chain(rows.chain(ledger.conn, chain_id), "created")
    return chain_id


def append(ledger: ChainLedger, row: ChainRecord, steps: Sequence[DraftStep]) -> list[ChainAdded]:
    """Put actions behind the last one of a draft; return sort order, minions, ids of each.

    Raises:
        UsageError: too many.
    """
    first = len(draft_rows.orders(ledger.conn, row))
    if first + len(steps) > MAX_ACTIONS:
        raise UsageError(f"a chain holds at most {MAX_ACTIONS} actions in a row")
    if sum(len(step.minions) for step in steps) > MAX_ENTRIES:
        raise UsageError(f"at most {MAX_ENTRIES} actions can be added at once")
    added = []
    for order, step in enumerate(steps, first):
        action_ids = _insert(ledger, row, step, order)
        added.append(ChainAdded(order, step.minions, tuple(action_ids)))
        names = ", ".join(step.minions[:3]) + (", …" if len(step.minions) > 3 else "")
        ledger.note_chain(row, "added", f"{order}: {actions.title(step.plan)} on {names}")
    return added


def _insert(ledger: ChainLedger, row: ChainRecord, step: DraftStep, order: int) -> list[int]:
    """Store an action and an entry for each minion of a step; return the actions' ids."""
    if not step.minions:
        return []
    values = {
        "kind": step.plan.type.value,
        "data": Ready.of(step.plan.stored()),
        "repeat": step.plan.repeat.value,
        "created": ledger.now.wall,
    }
    return draft_rows.insert_step(ledger.conn, row.id, values, step.minions, order)


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
    draft_rows.insert_every_execution(ledger.conn, chain, state.value, ledger.now.wall)
    return int(row.id)


def approve(ledger: ChainLedger, row: ChainRecord) -> None:
    """Approve the present content of a chain; the chain is scheduled once enough people have.

    Raises:
        InvalidStateError: it waits for no approval, or for that of another content.
    """
    if row.state == ChainState.pending_approval and row.approval is not None:
        state = approvals.grant(ledger, row.approval, _content(ledger.conn, row.id))
        if state is not ApprovalState.granted:
            return
    ledger.move_chain(row, ChainEvent.approve)
    move_open(ledger, row, ExecutionEvent.approve)


def unapproved(ledger: ChainLedger, row: ChainRecord, reason: str) -> None:
    """Cancel a chain whose approval was refused or has expired."""
    ledger.move_chain(row, ChainEvent.cancel, reason)
    move_open(ledger, row, ExecutionEvent.cancel, reason)
    ledger.settle(row.id, ())


def _content(conn: sa.Connection, chain_id: int) -> str:
    """Return the SHA-256 of what a chain is to do, and where."""
    digest = hashlib.sha256()
    for entry in draft_rows.contents(conn, chain_id):
        digest.update(msgpack.packb(entry))
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
    execution_rows.insert_executions(ledger.conn, values)


def move_open(
    ledger: ChainLedger, row: ChainRecord, event: ExecutionEvent, reason: str = ""
) -> None:
    """Move every open execution of a chain's newest run."""
    for execution in rows.executions(ledger.conn, row.run):
        if rows.fact(execution).is_open:
            change = decide.Change(execution.action_id, event, reason)
            ledger.move_execution(execution, change)
