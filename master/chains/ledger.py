"""Moves the life cycles of chains, executions, runs on minions and chunks, with their events.

`executions.ledger` stores each move. This module adds the columns and events of the move and its
consequences: a run on a minion ends with its last execution, a chain with its last such run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from catena.core import events
from catena.core.errors import InvalidStateError
from catena.core.fsm import Actor
from catena.core.records import encode
from catena.master.chains import decide, ledger_rows, rows
from catena.master.chains.decide import Change, Outcome
from catena.master.chains.lifecycle import (
    ACTIVE_CHAINS,
    CHAIN,
    CHUNK,
    ENDED_CHAINS,
    MINION,
    STATUSES,
    ChainEvent,
    ChainState,
    ChunkEvent,
    ChunkState,
    MinionEvent,
    MinionState,
)
from catena.master.chains.model import ChainExecution, ChainMinion, ChainRecord, Chunk
from catena.master.executions import pauses
from catena.master.executions import rows as execution_rows
from catena.master.executions.ledger import (
    EXECUTION_CYCLE,
    TEXT_LIMIT,
    ConflictError,
    Ledger,
    LifeCycle,
)
from catena.master.executions.lifecycle import EXECUTION, ExecutionEvent, ExecutionState, status
from catena.master.executions.model import Movable
from catena.master.store.chain_tables import CHAIN_MINIONS, CHUNKS
from catena.master.store.execution_tables import RUNS

CHAIN_CYCLE = LifeCycle("run", RUNS, CHAIN, STATUSES)
MINION_CYCLE = LifeCycle("chain_minion", CHAIN_MINIONS, MINION)
CHUNK_CYCLE = LifeCycle("chain_chunk", CHUNKS, CHUNK)

#: Maximum length of a stored comment or reason, characters.
COMMENT_LIMIT = TEXT_LIMIT
#: Maximum length of the repr() of stored changes, characters.
CHANGES_LIMIT = 1024 * 1024


def _not_now(row: ChainRecord, source: ChainState, event: ChainEvent) -> str:
    """Return why a chain can't take *event* now, and which events a person can cause."""
    open_to_people = [
        other.value
        for (state, other), rule in CHAIN.rows.items()
        if state is source and Actor.api in rule.actors and other is not ChainEvent.ask_approval
    ]
    possible = f"; possible now: {', '.join(open_to_people)}" if open_to_people else ""
    return f"can't {event.value} {row.title}: it is {source.value}{possible}"


class Place(NamedTuple):
    """The chunk and boundary of an action, from rendering."""

    chunk: int
    #: Boundary that must be proven after the action's success.
    waits_for: str
    delay_seconds: float


class Placed(NamedTuple):
    """An execution with its chunk and boundary."""

    id: int
    action_id: int
    place: Place


@dataclass(frozen=True, slots=True)
class Shipment:
    """The executions and chunks of a run that one minion gets."""

    minion: str
    placed: Sequence[Placed]
    #: Numbers of the chunks.
    chunks: Sequence[int]


class ChainLedger(Ledger):
    """The ledger of chains for one transaction."""

    # -- chains --------------------------------------------------------------------------------

    def move_chain(
        self,
        row: ChainRecord,
        event: ChainEvent,
        reason: str = "",
        *,
        actor: Actor | None = None,
        **values: Any,
    ) -> ChainState:
        """Apply an event to a chain's newest run; return its new state.

        Args:
            row: the chain.
            event: the event.
            reason: why, for people.
            actor: who causes the event; None: the actor of this ledger.
            values: further columns of the run to set.

        Raises:
            InvalidStateError: the chain's state does not allow the event.
            ConflictError: the chain is no longer in the state of *row*.
        """
        source = ChainState(row.state)
        if not CHAIN.allows(source, event):
            raise InvalidStateError(_not_now(row, source, event))
        values["reason"] = reason
        if CHAIN.next(source, event, actor or self.actor) in ENDED_CHAINS:
            values["ended"] = self.now.wall
            pauses.lift(self.conn, row.subject.id)
        if event is ChainEvent.dispatch:
            values["started"] = self.now.wall
            ledger_rows.mark_dispatched(self.conn, row.id)
        target = self.move(CHAIN_CYCLE, row.subject, event, reason, actor=actor, values=values)
        self._publish_chain(row, event, target, row.epoch, reason)
        return target

    def open_run(
        self,
        row: ChainRecord,
        event: ChainEvent,
        epoch: int,
        times: Mapping[str, Any] | None = None,
    ) -> ChainRecord:
        """Begin the next run of a chain; return the chain with the new run.

        Args:
            row: the chain with its last run, or a draft.
            event: leads from the state of *row* to that of the new run.
            epoch: of the new run.
            times: columns of the due time and its clocks.

        Raises:
            InvalidStateError: the chain's state does not allow the event.
            ConflictError: another transaction began a run in the meantime.
        """
        source = ChainState(row.state)
        if not CHAIN.allows(source, event):
            raise InvalidStateError(_not_now(row, source, event))
        state = CHAIN.next(source, event, self.actor)
        run = self._insert_run(row, state, epoch, "", times or {})
        self.open(CHAIN_CYCLE, Movable(run, run, row.state), event)
        self._publish_chain(row, event, state, epoch, "")
        return rows.chain(self.conn, row.id)

    def keep_failed(self, row: ChainRecord, epoch: int, event: str) -> ChainRecord:
        """Begin a run that is failed like the last one, for actions that a person marked done."""
        run = self._insert_run(row, ChainState.failed, epoch, row.reason, {})
        self.note("run", Movable(run, run, row.state), event)
        self._publish_note(row, event, "")
        return rows.chain(self.conn, row.id)

    def _insert_run(
        self,
        row: ChainRecord,
        state: ChainState,
        epoch: int,
        reason: str,
        times: Mapping[str, Any],
    ) -> int:
        values = {
            "engine": rows.ENGINE,
            "ref": str(row.id),
            "label": row.label,
            "owner": row.user,
            "state": state.value,
            "status": STATUSES[state].value,
            "reason": reason,
            "epoch": epoch,
            "created": self.now.wall,
            # The approval of the first run also covers its retries.
            "approval": row.approval,
            "ended": self.now.wall if state in ENDED_CHAINS else None,
            **times,
        }
        run = execution_rows.insert_run(self.conn, values)
        if not ledger_rows.replace_run(self.conn, row, run):
            raise ConflictError
        return run

    def _publish_chain(
        self, row: ChainRecord, event: ChainEvent, target: ChainState, epoch: int, reason: str
    ) -> None:
        data = {
            "chain": row.id,
            "label": row.label,
            "state": target.value,
            "event": event.value,
            "epoch": epoch,
            "reason": reason,
            "by": self.who,
        }
        self.events.append((events.chain(row.id, target.value), data))

    def note_chain(self, row: ChainRecord, event: str, reason: str = "", minion: str = "") -> None:
        """Record in history and events something that is no transition, such as an edit.

        Args:
            row: the chain.
            event: what happened.
            reason: for people.
            minion: where it happened; "": on no single minion.
        """
        if row.run is None:
            self.note("chain", Movable(row.id, None, row.state), event, reason)
        else:
            self.note("run", row.subject, event, reason)
        self._publish_note(row, event, reason, minion)

    def _publish_note(self, row: ChainRecord, event: str, reason: str, minion: str = "") -> None:
        data = {"chain": row.id, "label": row.label, "event": event, "reason": reason}
        if minion:
            data["minion"] = minion
        self.events.append((events.chain(row.id, event), {**data, "by": self.who}))

    def settle(self, chain_id: int, minions: Iterable[str]) -> None:
        """End the runs on *minions* without open executions, and the chain if none is left.

        It is called after every end of an execution. It therefore reads one minion and one index
        entry, and reads the whole chain only when nothing is open.
        """
        for minion in minions:
            run = rows.newest_run(self.conn, chain_id, minion)
            if run is not None and not run.over and not rows.has_open(self.conn, run.run, minion):
                self._end_minion(run)
        row = rows.chain(self.conn, chain_id)
        if ChainState(row.state) not in ACTIVE_CHAINS or rows.has_open(self.conn, row.run):
            return
        newest = rows.newest(self.conn, chain_id)
        event = decide.settle(ExecutionState(execution.state) for execution in newest.values())
        if event is not None:
            failed = sum(1 for e in newest.values() if e.state != ExecutionState.DONE.value)
            reason = f"{failed} of {len(newest)} actions failed" if failed else ""
            self.move_chain(row, event, reason, actor=Actor.system)

    # -- runs on minions -----------------------------------------------------------------------

    def move_minion(
        self,
        run: ChainMinion,
        event: MinionEvent,
        values: Mapping[str, Any] | None = None,
        *,
        actor: Actor | None = None,
    ) -> ChainMinion:
        """Apply an event to a run on a minion; return the run in its new state."""
        state = self.move(MINION_CYCLE, run.subject, event, actor=actor, values=values)
        return run._replace(state=state.value)

    def fence(self, run: ChainMinion) -> ChainMinion:
        """Make the scheduler remove a run from its minion, where it may still continue."""
        if run.state in (MinionState.fenced, MinionState.pending):
            return run
        return self.move_minion(run, MinionEvent.fence)

    def _end_minion(self, run: ChainMinion) -> None:
        """End a run on a minion with its chunks, whose returns may not have arrived yet."""
        found = rows.executions(self.conn, run.run, run.minion)
        if run.state != MinionState.fenced:
            lost = run.open and any(row.state == ExecutionState.LOST.value for row in found)
            actor = Actor.system if lost else None
            self.move_minion(run, MinionEvent.lose if lost else MinionEvent.end, actor=actor)
        bad = {row.chunk for row in found if row.state != ExecutionState.DONE.value}
        for chunk in rows.chunks(self.conn, run):
            reached = not bad or chunk.number < min(bad)
            event = ChunkEvent.apply if reached else ChunkEvent.fail
            if CHUNK.allows(ChunkState(chunk.state), event):
                self.move_chunk(chunk, event, Actor.system)

    # -- executions ----------------------------------------------------------------------------

    def report(
        self,
        run: ChainMinion,
        found: Sequence[ChainExecution],
        changes: Sequence[Change],
        boot: str = "",
    ) -> ChainMinion:
        """Apply the changes that a minion's report causes; return the run in its new state."""
        self.apply(found, changes, boot)
        if not changes or not run.open:
            return run
        moved = {change.action_id: change for change in changes}
        event = MinionEvent.wait if _waits(found, moved) else MinionEvent.begin
        if event is MinionEvent.begin and run.state == MinionState.waiting:
            event = MinionEvent.resume
        if not MINION.allows(MinionState(run.state), event):
            return run
        return self.move_minion(run, event)

    def apply(
        self, found: Sequence[ChainExecution], changes: Iterable[Change], boot: str = ""
    ) -> None:
        """Apply decided changes.

        Args:
            found: the executions on which the decision is based.
            changes: the decided changes.
            boot: boot id of the minion when a reported success happened.
        """
        by_action = {row.action_id: row for row in found}
        for change in changes:
            self.move_execution(by_action[change.action_id], change, boot)

    def move_execution(self, row: ChainExecution, change: Change, boot: str = "") -> None:
        """Apply one decided change.

        Raises:
            InvalidStateError: the execution's state does not allow the event.
            ConflictError: the execution is no longer in the state of *row*.
        """
        source, event = ExecutionState(row.state), change.event
        if change.picked_up and source is ExecutionState.RUNNING:
            event = ExecutionEvent.pick_up
        values = self._values_of(row, change)
        ended = values.pop("ended", 0.0)
        if EXECUTION.is_final(EXECUTION.next(source, event, self.actor)):
            values["ended"] = ended or self.now.wall
        target = self.move(EXECUTION_CYCLE, row.subject, event, change.reason, values=values)
        if change.picked_up:
            ledger_rows.pick_up(self.conn, row.id, self.now, boot)
        self._publish_execution(row, event.value, target, values)

    def _values_of(self, row: ChainExecution, change: Change) -> dict[str, Any]:
        values: dict[str, Any] = {"reason": change.reason[:COMMENT_LIMIT]}
        if change.event is ExecutionEvent.succeed:
            values["retcode"] = 0
        elif change.event in (ExecutionEvent.fail, ExecutionEvent.reject):
            values["retcode"] = -1
        if change.outcome is not None:
            values |= details(change.outcome)
        elif change.event is ExecutionEvent.fail:
            values["comment"] = change.reason
        if change.event is ExecutionEvent.begin:
            values.setdefault("started", self.now.wall)
        if row.started is not None:
            values.pop("started", None)
        elif "started" in values:
            values["attempts"] = 1
        return values

    def fill(self, row: ChainExecution, outcome: Outcome) -> None:
        """Add details of the return to an execution that progress has already ended."""
        values = details(outcome)
        values.pop("ended", None)
        if row.started is not None:
            values.pop("started", None)
        ledger_rows.fill(self.conn, row.id, values)

    def _publish_execution(
        self, row: ChainExecution, event: str, target: ExecutionState, values: dict[str, Any]
    ) -> None:
        data = {
            "chain": row.chain_id,
            "action": row.action_id,
            "minion": row.minion,
            "sort_order": row.sort_order,
            "epoch": row.epoch,
            "event": event,
            "state": target.value,
            "status": status(target).value,
            "reason": values.get("reason", ""),
            "comment": str(values.get("comment", ""))[:2000],
        }
        self.events.append((events.chain(row.chain_id, f"action/{row.action_id}/{event}"), data))

    # -- chunks --------------------------------------------------------------------------------

    def move_chunk(self, row: Chunk, event: ChunkEvent, actor: Actor | None = None) -> None:
        """Apply an event to one chunk file of one minion."""
        target = self.move(CHUNK_CYCLE, row.subject, event, actor=actor)
        data = {
            "chain": row.chain_id,
            "minion": row.minion,
            "chunk": row.number,
            "epoch": row.epoch,
            "event": event.value,
            "state": target.value,
        }
        self.events.append((events.chain(row.chain_id, f"chunk/{row.number}/{event.value}"), data))

    # -- dispatch ------------------------------------------------------------------------------

    def ship(
        self, chain: ChainRecord, shipments: Sequence[Shipment], chunks: Sequence[int]
    ) -> None:
        """Dispatch executions and chunks in bulk, with one event for each minion.

        Args:
            chain: the chain with the run that is dispatched.
            shipments: the executions and chunks of each minion.
            chunks: ids of all these chunks.

        Raises:
            ConflictError: the state of an execution has changed since it was read.
        """
        placed = [each for shipped in shipments for each in shipped.placed]
        places = [(each.id, *each.place) for each in placed]
        ledger_rows.insert_places(self.conn, places)
        waits, event = ExecutionState.PENDING_SCHEDULE, ExecutionEvent.dispatch
        self.move_all(EXECUTION_CYCLE, [each.id for each in placed], waits, event)
        self.move_all(CHUNK_CYCLE, chunks, ChunkState.rendered, ChunkEvent.ship)
        for shipped in shipments:
            self._publish_shipment(chain, shipped)

    def _publish_shipment(self, chain: ChainRecord, shipped: Shipment) -> None:
        event = ExecutionEvent.dispatch
        state = EXECUTION.next(ExecutionState.PENDING_SCHEDULE, event, Actor.system)
        data = {
            "chain": chain.id,
            "minion": shipped.minion,
            "epoch": chain.epoch,
            "event": event.value,
            "state": state.value,
            "status": status(state).value,
            "actions": [placed.action_id for placed in shipped.placed],
            "chunks": list(shipped.chunks),
        }
        self.events.append((events.chain(chain.id, f"minion/{shipped.minion}/dispatch"), data))

    # -- late reports --------------------------------------------------------------------------

    def note_late(self, run: ChainMinion, jid: str) -> None:
        """Record that a minion reported on a run that is over; nothing else changes."""
        reason = f"job {jid} reported on a run that is over"
        self.note("chain_minion", Movable(run.id, run.run, ""), "late", reason)
        data = {"chain": run.chain_id, "minion": run.minion, "jid": jid, "epoch": run.epoch}
        self.events.append((events.chain(run.chain_id, "late"), data))


def _waits(found: Sequence[ChainExecution], moved: Mapping[int, Change]) -> bool:
    """Return whether an action waits for the proof of a boundary after the changes *moved*."""
    for row in found:
        change = moved.get(row.action_id)
        if change is not None and change.picked_up:
            return True
        picked = row.picked_up is not None and row.state == ExecutionState.RUNNING.value
        if change is None and picked:
            return True
    return False


def details(outcome: Outcome) -> dict[str, Any]:
    """Return the columns of an execution that an outcome sets."""
    values: dict[str, Any] = {"comment": outcome.comment[:COMMENT_LIMIT]}
    if outcome.changes is not None:
        values["changes"] = _bounded(encode(outcome.changes))
    if outcome.started:
        values["started"] = outcome.started
        values["ended"] = outcome.started + outcome.duration_seconds
    return values


def _bounded(changes: Any) -> Any:
    """Return *changes*, or a note instead if they are too large; the job's return has them all."""
    size = len(repr(changes))
    if size <= CHANGES_LIMIT:
        return changes
    return {"truncated": f"{size} characters; the job's return has them all"}
