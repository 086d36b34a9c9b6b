"""Moves chains, executions and chunks: compare-and-set, history row, event. Nothing else does.

Every move is checked against its life cycle and stored only if the thing still stands where the
decision saw it, so that two masters on one database can't both make it. Events are collected and
recorded by the caller in the same transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.core import events
from catena.core.errors import InvalidStateError, TryLaterError
from catena.core.fsm import Actor
from catena.core.records import encode
from catena.master.chains import decide, fence_rows, rows
from catena.master.chains.decide import Change, Outcome
from catena.master.chains.lifecycle import (
    ACTIVE_CHAINS,
    CHAIN,
    CHUNK,
    EXECUTION,
    ChainEvent,
    ChainState,
    ChunkEvent,
    ChunkState,
    ExecutionEvent,
    ExecutionState,
    status,
)
from catena.master.jobs.model import EventItem
from catena.master.process.clocks import ClockReading
from catena.master.store.chain_tables import CHAINS, CHUNKS, EXECUTIONS, HISTORY, RUNS
from catena.master.store.lists import padded, slices

_INSERT_HISTORY = sa.insert(HISTORY)
_THESE = EXECUTIONS.c.id.in_(sa.bindparam("b_ids", expanding=True))
_DISPATCHED = EXECUTION.next(ExecutionState.PENDING_SCHEDULE, ExecutionEvent.dispatch)
_DISPATCH = (
    sa.update(EXECUTIONS)
    .where(_THESE, EXECUTIONS.c.state == ExecutionState.PENDING_SCHEDULE.value)
    .values(
        state=_DISPATCHED.value,
        chunk=sa.bindparam("b_chunk"),
        waits_for=sa.bindparam("b_waits_for"),
        delay_seconds=sa.bindparam("b_delay"),
    )
)
_THERE = sa.and_(
    CHUNKS.c.chain_id == sa.bindparam("b_chain"),
    CHUNKS.c.epoch == sa.bindparam("b_epoch"),
    CHUNKS.c.minion.in_(sa.bindparam("b_minions", expanding=True)),
)
_SHIPPED = CHUNK.next(ChunkState.rendered, ChunkEvent.ship)
_SHIP = sa.update(CHUNKS).where(_THERE).values(state=_SHIPPED.value)


def _history_of(
    table: sa.Table, number: sa.Column[Any], what: tuple[str, str, str, str]
) -> sa.Select[Any]:
    """Return rows of the history, a row of *table* each: it has the same move behind it in all."""
    subject, source, event, target = (sa.literal(word, sa.String) for word in what)
    by, at = sa.bindparam("b_by", type_=sa.String), sa.bindparam("b_now", type_=sa.Double)
    return sa.select(
        table.c.chain_id, subject, number, table.c.minion, table.c.epoch, source, event, target,
        by, sa.literal("", sa.String), at,
    )  # fmt: skip


_HISTORY_COLUMNS = (
    "chain_id", "subject", "number", "minion", "epoch", "source", "event", "target",
    "by", "reason", "at",
)  # fmt: skip
_TELL_DISPATCH = _INSERT_HISTORY.from_select(
    _HISTORY_COLUMNS,
    _history_of(
        EXECUTIONS,
        EXECUTIONS.c.action_id,
        (
            "action",
            ExecutionState.PENDING_SCHEDULE.value,
            ExecutionEvent.dispatch.value,
            _DISPATCHED.value,
        ),
    )
    .where(_THESE)
    .order_by(EXECUTIONS.c.id),
)
_TELL_SHIP = _INSERT_HISTORY.from_select(
    _HISTORY_COLUMNS,
    _history_of(
        CHUNKS,
        CHUNKS.c.number,
        ("chunk", ChunkState.rendered.value, ChunkEvent.ship.value, _SHIPPED.value),
    )
    .where(_THERE)
    .order_by(CHUNKS.c.minion, CHUNKS.c.number),
)
#: Executions, or minions, in one statement.
_SLICE = 4096

COMMENT_LIMIT = 64 * 1024
CHANGES_LIMIT = 1024 * 1024


def _not_now(row: sa.Row[Any], source: ChainState, event: ChainEvent) -> str:
    """Return why a chain can't take *event*, and what a person can do with it as it stands."""
    open_to_people = [
        other.value
        for (state, other), rule in CHAIN.rows.items()
        if state is source and rule.actor is Actor.api and other is not ChainEvent.ask_approval
    ]
    possible = f"; possible now: {', '.join(open_to_people)}" if open_to_people else ""
    return f"can't {event.value} {rows.title(row)}: it is {source.value}{possible}"


class ConflictError(TryLaterError):
    """Somebody else moved it in the same moment; ask again."""


class Place(NamedTuple):
    """What rendering says of an action."""

    chunk: int
    #: What proves it after its success.
    waits_for: str
    delay_seconds: float


class Placed(NamedTuple):
    """An execution and its place."""

    id: int
    action_id: int
    place: Place


@dataclass(frozen=True, slots=True)
class Shipment:
    """What of a run goes to one minion."""

    minion: str
    placed: Sequence[Placed]
    #: Numbers of its chunks.
    chunks: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Moved:
    """One row of the history."""

    chain_id: int
    epoch: int
    #: Source state, event, target state.
    what: tuple[str, str, str]
    reason: str = ""
    subject: str = "chain"
    number: int = 0
    minion: str = ""


class Ledger:
    """The moves of one transaction.

    Args:
        conn: inside `Store.write` or an observer.
        now: both clocks.
        by: a user's name, a minion's id, or "" for the master itself.
    """

    def __init__(self, conn: sa.Connection, now: ClockReading, by: str = "") -> None:
        self.conn = conn
        self.now = now
        self.by = by
        self.events: list[EventItem] = []

    # -- chains --------------------------------------------------------------------------------

    def move_chain(
        self, row: sa.Row[Any], event: ChainEvent, reason: str = "", **values: Any
    ) -> ChainState:
        """Move the chain of *row*; *values* are stored with it.

        Raises:
            InvalidStateError: the life cycle has no such row.
            ConflictError: it no longer stands where *row* says.
        """
        source = ChainState(row.state)
        if not CHAIN.allows(source, event):
            raise InvalidStateError(_not_now(row, source, event))
        target = CHAIN.next(source, event)
        found = {"state": target.value, "reason": reason, "modified": self.now.wall, **values}
        if target in (ChainState.done, ChainState.failed, ChainState.cancelled):
            found["ended"] = self.now.wall
        rule = (CHAINS.c.id == row.id) & (CHAINS.c.state == source.value)
        self._store(sa.update(CHAINS).where(rule).values(found))
        epoch = values.get("epoch", row.epoch)
        self._write(_Moved(row.id, epoch, (source.value, event.value, target.value), reason))
        data = {
            "chain": row.id,
            "label": row.label,
            "state": target.value,
            "event": event.value,
            "epoch": epoch,
            "reason": reason,
            "by": self.by,
        }
        self.events.append((events.chain(row.id, target.value), data))
        return target

    def note(self, row: sa.Row[Any], event: str, reason: str = "") -> None:
        """Put something that is no transition into the history and on the bus (an edit)."""
        self._write(_Moved(row.id, row.epoch, (row.state, event, row.state), reason))
        data = {"chain": row.id, "label": row.label, "event": event, "reason": reason}
        self.events.append((events.chain(row.id, event), {**data, "by": self.by}))

    def settle(self, chain_id: int, minions: Iterable[str]) -> None:
        """End the runs on *minions* that have ended, and with the last of all the chain.

        Asked after every end of an execution, so it looks at one minion and one index entry, not
        at the whole chain, until there is nothing open.
        """
        for minion in minions:
            run = rows.newest_run(self.conn, chain_id, minion)
            if run is not None and run.open and not rows.has_open(self.conn, chain_id, minion):
                self.conn.execute(sa.update(RUNS).where(rows.of_run(RUNS, run)).values(open=False))
                self._close_chunks(run)
        row = rows.chain(self.conn, chain_id)
        if ChainState(row.state) not in ACTIVE_CHAINS or rows.has_open(self.conn, chain_id):
            return
        newest = rows.newest(self.conn, chain_id)
        event = decide.settle(_state(execution) for execution in newest.values())
        if event is not None:
            failed = sum(1 for e in newest.values() if e.state != ExecutionState.DONE.value)
            reason = f"{failed} of {len(newest)} actions failed" if failed else ""
            self.move_chain(row, event, reason)

    def fence(self, run: sa.Row[Any]) -> None:
        """Have the scheduler stop a run on its minion, which may believe that it goes on."""
        fence_rows.owe(self.conn, rows.of_run(RUNS, run))

    def _close_chunks(self, run: sa.Row[Any]) -> None:
        """End the chunks of a run that is over; progress may have told all before the return."""
        found = rows.executions(self.conn, run.chain_id, run.minion, run.epoch)
        bad = {row.chunk for row in found if row.state != ExecutionState.DONE.value}
        for chunk in rows.chunks(self.conn, run):
            reached = not bad or chunk.number < min(bad)
            event = ChunkEvent.apply if reached else ChunkEvent.fail
            if CHUNK.allows(ChunkState(chunk.state), event):
                self.move_chunk(chunk, event)

    # -- executions ----------------------------------------------------------------------------

    def apply(self, run_rows: Sequence[sa.Row[Any]], changes: Iterable[Change], boot: str) -> None:
        """Make decided changes.

        Args:
            run_rows: the executions that the decision saw.
            changes: what it decided.
            boot: boot of the minion under which a reported success happened.
        """
        by_action = {row.action_id: row for row in run_rows}
        for change in changes:
            self.move_execution(by_action[change.action_id], change, boot)

    def move_execution(self, row: sa.Row[Any], change: Change, boot: str = "") -> None:
        """Make one decided change.

        Raises:
            InvalidStateError: the life cycle has no such row.
            ConflictError: it no longer stands where *row* says.
        """
        source = ExecutionState(row.state)
        values = self._values_of(row, change, boot)
        rule = (EXECUTIONS.c.id == row.id) & (EXECUTIONS.c.state == source.value)
        stays = change.picked_up and source is ExecutionState.RUNNING
        target = source if stays else EXECUTION.next(source, change.event)
        values["state"] = target.value
        ended = values.pop("ended", 0.0)
        if EXECUTION.is_final(target):
            values["ended"] = ended or self.now.wall
        self._store(sa.update(EXECUTIONS).where(rule).values(values))
        what = (source.value, "pick_up" if stays else change.event.value, target.value)
        number, minion = row.action_id, row.minion
        moved = _Moved(row.chain_id, row.epoch, what, change.reason, "action", number, minion)
        self._write(moved)
        self._tell_execution(row, what[1], target, values)

    def _values_of(self, row: sa.Row[Any], change: Change, boot: str) -> dict[str, Any]:
        values: dict[str, Any] = {"reason": change.reason[:COMMENT_LIMIT]}
        if change.picked_up:
            values |= {
                "picked_up": self.now.wall,
                "picked_mono": self.now.mono,
                "picked_host_boot": self.now.boot,
                "picked_host": self.now.host,
                "boot_id": boot,
            }
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
        return values

    def fill(self, row: sa.Row[Any], outcome: Outcome) -> None:
        """Add to an execution that has ended what its return says beyond its progress."""
        values = details(outcome)
        values.pop("ended", None)
        if row.started is not None:
            values.pop("started", None)
        rule = (EXECUTIONS.c.id == row.id) & EXECUTIONS.c.changes.is_(None)
        self.conn.execute(sa.update(EXECUTIONS).where(rule).values(values))

    def _tell_execution(
        self, row: sa.Row[Any], event: str, target: ExecutionState, values: dict[str, Any]
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

    def move_chunk(self, row: sa.Row[Any], event: ChunkEvent) -> None:
        """Move one chunk file of one minion."""
        source = ChunkState(row.state)
        target = CHUNK.next(source, event)
        rule = rows.of_run(CHUNKS, row) & (CHUNKS.c.number == row.number)
        rule = rule & (CHUNKS.c.state == source.value)
        self._store(sa.update(CHUNKS).where(rule).values(state=target.value))
        what = (source.value, event.value, target.value)
        self._write(_Moved(row.chain_id, row.epoch, what, "", "chunk", row.number, row.minion))
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

    def ship(self, chain_id: int, epoch: int, shipments: Sequence[Shipment]) -> None:
        """Dispatch executions and chunks of minions, with one event for each minion.

        A chain of many minions dispatches thousands at once; they are moved in bulk.

        Raises:
            ConflictError: one of the executions no longer stands where it was read.
        """
        ids: defaultdict[Place, list[int]] = defaultdict(list)
        for shipped in shipments:
            for placed in shipped.placed:
                ids[placed.place].append(placed.id)
            self._tell_shipment(chain_id, epoch, shipped)
        for place, every in ids.items():
            for some in slices(every, _SLICE):
                self._dispatch(place, some)
        said = {"b_chain": chain_id, "b_epoch": epoch, "b_by": self.by, "b_now": self.now.wall}
        for minions in slices([shipped.minion for shipped in shipments], _SLICE):
            chosen = {**said, "b_minions": padded(minions)}
            self.conn.execute(_SHIP, chosen)
            self.conn.execute(_TELL_SHIP, chosen)

    def _dispatch(self, place: Place, ids: Sequence[int]) -> None:
        """Dispatch executions that have the same place, and put each into the history."""
        chosen: dict[str, Any] = {"b_ids": padded(ids)}
        values = {
            "b_chunk": place.chunk,
            "b_waits_for": place.waits_for,
            "b_delay": place.delay_seconds,
        }
        if self.conn.execute(_DISPATCH, {**chosen, **values}).rowcount != len(ids):
            raise ConflictError
        self.conn.execute(_TELL_DISPATCH, {**chosen, "b_by": self.by, "b_now": self.now.wall})

    def _tell_shipment(self, chain_id: int, epoch: int, shipped: Shipment) -> None:
        event = ExecutionEvent.dispatch
        state = EXECUTION.next(ExecutionState.PENDING_SCHEDULE, event)
        data = {
            "chain": chain_id,
            "minion": shipped.minion,
            "epoch": epoch,
            "event": event.value,
            "state": state.value,
            "status": status(state).value,
            "actions": [placed.action_id for placed in shipped.placed],
            "chunks": list(shipped.chunks),
        }
        self.events.append((events.chain(chain_id, f"minion/{shipped.minion}/dispatch"), data))

    # -- history -------------------------------------------------------------------------------

    def late(self, run: sa.Row[Any], jid: str) -> None:
        """Keep that a minion reported on a run that is over; nothing else changes."""
        reason = f"job {jid} reported on a run that is over"
        what = ("", "late", "")
        self._write(_Moved(run.chain_id, run.epoch, what, reason, "late", 0, run.minion))
        data = {"chain": run.chain_id, "minion": run.minion, "jid": jid, "epoch": run.epoch}
        self.events.append((events.chain(run.chain_id, "late"), data))

    def _store(self, update: sa.Update) -> None:
        if self.conn.execute(update).rowcount != 1:
            raise ConflictError

    def _write(self, moved: _Moved) -> None:
        self.conn.execute(_INSERT_HISTORY, self._row(moved))

    def _row(self, moved: _Moved) -> dict[str, Any]:
        source, event, target = moved.what
        return {
            "chain_id": moved.chain_id,
            "subject": moved.subject,
            "number": moved.number,
            "minion": moved.minion,
            "epoch": moved.epoch,
            "source": source,
            "event": event,
            "target": target,
            "by": self.by,
            "reason": moved.reason[:COMMENT_LIMIT],
            "at": self.now.wall,
        }


def details(outcome: Outcome) -> dict[str, Any]:
    """Return the columns that a minion's word on an action fills."""
    values: dict[str, Any] = {"comment": outcome.comment[:COMMENT_LIMIT]}
    if outcome.changes is not None:
        values["changes"] = _bounded(encode(outcome.changes))
    if outcome.started:
        values["started"] = outcome.started
        values["ended"] = outcome.started + outcome.duration_seconds
    return values


def _bounded(changes: Any) -> Any:
    """Return *changes*, or a note in their place: the job's own return keeps them whole."""
    size = len(repr(changes))
    if size <= CHANGES_LIMIT:
        return changes
    return {"truncated": f"{size} characters; the job's return has them all"}


def _state(row: sa.Row[Any]) -> ExecutionState:
    return ExecutionState(row.state)
