"""Changes chains before and between their runs, for people: entries, due times, retries.

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
from catena.master.store.metadata import Ready
from catena.master.store.used_numbers import next_epoch

#: Maximum number of entries that one request adds, over all minions.
MAX_ENTRIES = 200_000
#: Maximum number of sort orders of a chain.
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
    """Return the chain with the id *ref*, or else a draft or a chain with that label, for editing.

    Raises:
        InvalidStateError: the chain is no draft; the message names a draft with that label.
        NotFoundError: there is no such chain; the message says how to create one.
    """
    try:
        labelled = draft_rows.draft(conn, ref)
        row = rows.numbered_chain(conn, ref) or labelled or rows.find_chain(conn, ref)
    except NotFoundError as error:
        raise NotFoundError(f"{error}; to create it: catena chain create {ref[:80]}") from None
    if row.state != ChainState.draft.value:
        other = f"; {labelled.title} is one, name it {labelled.id}" if labelled else ""
        raise InvalidStateError(f"{row.title} is {row.state}; only a draft can be edited{other}")
    return row


def create(ledger: ChainLedger, label: str, again: bool = False) -> int:
    """Create an empty draft; return its id.

    Args:
        ledger: of the running transaction.
        label: of the chain.
        again: allow it although a chain with that label has not ended. The default refuses it,
            because a repeated command would run everything twice.

    Raises:
        UsageError: there is a draft with that label, or a chain with it has not ended.
    """
    known = draft_rows.draft(ledger.conn, label)
    if known is not None:
        raise UsageError(f"there is already {known.title}, which is {known.state}")
    known = None if again else draft_rows.unended(ledger.conn, label)
    if known is not None:
        raise UsageError(
            f"there is already {known.title}, which is {known.state} (catena chain show "
            f"{known.id}); --again creates another chain with this label"
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
    """Append actions to a draft; return the sort order, minions and action ids of each step.

    Raises:
        UsageError: there would be too many actions.
    """
    first = len(draft_rows.orders(ledger.conn, row))
    if first + len(steps) > MAX_ACTIONS:
        raise UsageError(f"a chain has at most {MAX_ACTIONS} actions on each minion")
    if sum(len(step.minions) for step in steps) > MAX_ENTRIES:
        raise UsageError(
            f"at most {MAX_ENTRIES} actions, counted on each minion, can be added at once"
        )
    added = []
    for order, step in enumerate(steps, first):
        action_ids = _insert(ledger, row, step, order)
        added.append(ChainAdded(order, step.minions, tuple(action_ids)))
        names = ", ".join(step.minions[:3]) + (", …" if len(step.minions) > 3 else "")
        ledger.note_chain(row, "added", f"{order}: {actions.title(step.plan)} on {names}")
    return added


def _insert(ledger: ChainLedger, row: ChainRecord, step: DraftStep, order: int) -> list[int]:
    """Store an action and an entry for each minion of a step; return the action ids."""
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
    """Return the columns of a run that is due at *at*, with both clocks as they are now.

    Args:
        ledger: of the running transaction.
        at: seconds since the epoch; 0: now.
    """
    now = ledger.now
    anchor = {"anchor_wall": now.wall, "anchor_mono": now.mono, "anchor_boot": now.boot}
    return {"due": at or now.wall, **anchor}


def schedule(ledger: ChainLedger, row: ChainRecord, request: ChainSchedule) -> int:
    """Set the due time of a draft and create its executions; return the chain's id.

    Raises:
        UsageError: the chain has no actions.
        InvalidStateError: the chain is no draft.
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
    """Return the SHA-256 of a chain's entries, which an approval is bound to."""
    digest = hashlib.sha256()
    for entry in draft_rows.contents(conn, chain_id):
        digest.update(msgpack.packb(entry))
    return digest.hexdigest()


def add_executions(
    ledger: ChainLedger, chain: ChainRecord, again: Iterable[ChainExecution]
) -> None:
    """Store new executions of *again*'s actions in the newest run of a chain."""
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
    """Apply an event to every open execution of a chain's newest run."""
    for execution in rows.executions(ledger.conn, row.run):
        if rows.fact(execution).is_open:
            change = decide.Change(execution.action_id, event, reason)
            ledger.move_execution(execution, change)
