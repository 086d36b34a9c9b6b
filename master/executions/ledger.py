"""The only writer of states: compare-and-set, history row and event, in one transaction.

A move is checked against its life cycle, and stored only if the row still is in the state that the
decision saw. Therefore two masters on one database can't both make the same move.

`Ledger` makes moves that are recorded in the history; `PlainLifeCycle` makes moves that are not.
Code that changes other columns of a table with states passes them through `besides_state`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from catena.core.errors import TryLaterError
from catena.core.fsm import Actor, Machine
from catena.master.executions.lifecycle import EXECUTION, ExecutionState
from catena.master.executions.model import EventItem, Movable
from catena.master.process.clocks import ClockReading
from catena.master.store.execution_tables import EXECUTIONS, HISTORY, RUNS
from catena.master.store.fast.many_rows import ManyRows
from catena.master.store.lists import padded, slices

S = TypeVar("S", bound=Any)
E = TypeVar("E", bound=Any)

#: Maximum length of a stored reason or comment, characters.
TEXT_LIMIT = 64 * 1024
#: Maximum rows in one statement of a bulk move.
_SLICE = 4096

_COLUMNS = (
    "subject", "subject_id", "run", "source", "event", "target", "actor", "who", "at", "reason",
)  # fmt: skip
_INSERT = ManyRows(sa.insert(HISTORY), _COLUMNS)


class ConflictError(TryLaterError):
    """Another transaction has moved the row since it was read; retry."""


@dataclass(frozen=True, eq=False)
class LifeCycle(Generic[S, E]):
    """A state machine, the table of the rows that it moves, and the common status of each state.

    Args:
        subject: name of the moving rows in the history.
        table: has the columns id and state, and status if *statuses* are given.
        machine: the states and transitions.
        statuses: the common status of each state; None: the table has no column status.
    """

    subject: str
    table: sa.Table
    machine: Machine[S, E]
    statuses: Mapping[S, str] | None = None
    #: Compiled updates by the names of the columns that they set.
    _updates: dict[tuple[str, ...], ManyRows] = field(default_factory=dict, repr=False)

    def columns(self, target: S) -> dict[str, Any]:
        """Return the column values of a row in state *target*."""
        found = {"state": target.value}
        if self.statuses is not None:
            found["status"] = str(self.statuses[target])
        return found

    def update(self, names: tuple[str, ...]) -> ManyRows:
        """Return the update of columns *names*; its parameter rows end with id and seen state."""
        known = self._updates.get(names)
        if known is None:
            known = self._updates[names] = self._made(names)
        return known

    def _made(self, names: tuple[str, ...]) -> ManyRows:
        table = self.table
        values: dict[str, Any] = {
            name: sa.bindparam(f"v_{name}", type_=table.c[name].type) for name in names
        }
        if table is RUNS:
            values["revision"] = RUNS.c.revision + sa.literal_column("1")
        rule = (table.c.id == sa.bindparam("b_id")) & (table.c.state == sa.bindparam("b_seen"))
        statement = sa.update(table).where(rule).values(values)
        return ManyRows(statement, (*(f"v_{name}" for name in names), "b_id", "b_seen"))


#: Life cycle of the executions of all engines; columns of one engine are in the engine's tables.
EXECUTION_CYCLE = LifeCycle(
    "execution", EXECUTIONS, EXECUTION, {state: state.value for state in ExecutionState}
)

#: One move of a row that has no history: the values of its key, the state that the decision saw,
#: the event, and the values of further columns. A plain tuple for speed: each return makes one.
PlainMove = tuple[tuple[str, ...], S, E, tuple[Any, ...]]


class PlainLifeCycle(Generic[S, E]):
    """A life cycle whose moves are not recorded in the history, because they are too many.

    Args:
        table: has the column state.
        machine: the states and transitions.
        key: columns that name a row.
        values: further columns that change with each move of `move` and `move_many`.
    """

    def __init__(
        self,
        table: sa.Table,
        machine: Machine[S, E],
        key: tuple[str, ...],
        values: tuple[str, ...] = (),
    ) -> None:
        self.machine = machine
        self._table = table
        self._key = key
        columns = {name: sa.bindparam(f"v_{name}", type_=table.c[name].type) for name in values}
        rule = sa.and_(*(table.c[name] == sa.bindparam(f"b_{name}") for name in key))
        self._one = ManyRows(
            sa.update(table)
            .where(rule, table.c.state == sa.bindparam("b_seen"))
            .values(state=sa.bindparam("b_target"), **columns),
            (
                "b_target",
                *(f"v_{name}" for name in values),
                *(f"b_{name}" for name in key),
                "b_seen",
            ),
        )
        #: State -> its stored text. This lookup is ten times as fast as an enum member's `value`.
        self._texts = {state: str(state.value) for state in machine.states}
        #: Actor -> (state, event) -> (next state, its text, text of the current state).
        self._next: dict[Actor, dict[tuple[S, E], tuple[S, str, str]]] = {
            actor: {
                way: (row.target, self._texts[row.target], self._texts[row.source])
                for way, row in machine.rows.items()
                if actor in row.actors
            }
            for actor in Actor
        }

    def move(self, conn: sa.Connection, move: PlainMove[S, E], actor: Actor) -> S | None:
        """Move one row; return its new state, or None if its state has changed since it was read.

        Raises:
            InvalidStateError: the life cycle has no such transition.
            ActorError: *actor* may not cause the transition.
        """
        moved = self.move_many(conn, [move], actor)
        return moved[0] if moved else None

    def move_many(
        self, conn: sa.Connection, moves: Sequence[PlainMove[S, E]], actor: Actor
    ) -> list[S] | None:
        """Move rows; return their new states.

        Returns:
            None if the state of a row has changed since it was read; the caller rolls back.

        Raises:
            InvalidStateError, ActorError: as `move`.
        """
        known = self._next[actor]
        targets, rows = [], []
        for key, source, event, values in moves:
            found = known.get((source, event))
            if found is None:
                # Raise the error with the reason.
                self.machine.next(source, event, actor)
                continue
            target, text, seen = found
            targets.append(target)
            rows.append((text, *values, *key, seen))
        return targets if self._one.run(conn, rows) == len(moves) else None

    def some(self, rule: sa.ColumnElement[bool], *names: str) -> sa.Update:
        """Return a statement for `move_some`; callers build frequent statements once.

        Args:
            rule: condition that selects rows.
            names: further columns that change; their parameters are `v_<name>`.
        """
        table = self._table
        values = {name: sa.bindparam(f"v_{name}", type_=table.c[name].type) for name in names}
        update = sa.update(table).where(rule, table.c.state == sa.bindparam("b_seen"))
        return update.values(besides_state(values)).values(state=sa.bindparam("b_target"))

    def move_some(
        self,
        conn: sa.Connection,
        statement: sa.Update,
        parameters: Mapping[str, Any],
        step: tuple[S, E],
        actor: Actor,
    ) -> int:
        """Move the selected rows that are in the state of *step*; return their number.

        Args:
            conn: the running transaction.
            statement: from `some`.
            parameters: of the statement's condition and columns.
            step: the rows' current state, and the event.
            actor: who causes the moves.

        Raises:
            InvalidStateError, ActorError: as `move`.
        """
        source, event = step
        target = self.machine.next(source, event, actor)
        moved = {"b_seen": self._texts[source], "b_target": self._texts[target]}
        return int(conn.execute(statement, {**parameters, **moved}).rowcount)


def besides_state(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return *values* after a check that they change no state.

    Raises:
        ValueError: *values* contain a state.
    """
    if "state" in values or "status" in values:
        raise ValueError("only a move changes a state")
    return dict(values)


class Ledger:
    """The moves of one transaction.

    Args:
        conn: inside `Store.write` or an observer.
        now: both clocks.
        actor: who causes the moves, unless a move names another actor.
        who: a user's name, a minion's id, or "" for the master itself.
    """

    def __init__(
        self, conn: sa.Connection, now: ClockReading, actor: Actor = Actor.system, who: str = ""
    ) -> None:
        self.conn = conn
        self.now = now
        self.actor = actor
        self.who = who
        #: Events for the bus; the caller records them in the same transaction.
        self.events: list[EventItem] = []

    def move(
        self,
        cycle: LifeCycle[S, E],
        subject: Movable,
        event: E,
        reason: str = "",
        *,
        actor: Actor | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> S:
        """Move one row by its life cycle; return its new state.

        Args:
            cycle: the life cycle.
            subject: the row as the decision saw it.
            event: the event that causes the transition.
            reason: reason for the history.
            actor: who causes the move; None: the ledger's actor.
            values: further columns that change with the state.

        Raises:
            InvalidStateError: the life cycle has no such transition.
            ActorError: *actor* may not cause the transition.
            ConflictError: the row is no longer in the state that *subject* names.
        """
        actor = actor or self.actor
        machine = cycle.machine
        target = machine.next(_state(machine, subject.state), event, actor)
        columns = {**(values or {}), **cycle.columns(target)}
        row = (*columns.values(), subject.id, subject.state)
        if cycle.update(tuple(columns)).run(self.conn, [row]) != 1:
            raise ConflictError
        self._record(cycle.subject, subject, event.value, target.value, actor, reason)
        return target

    def move_all(
        self,
        cycle: LifeCycle[S, E],
        ids: Sequence[int],
        source: S,
        event: E,
        reason: str = "",
        *,
        actor: Actor | None = None,
    ) -> S:
        """Move rows that are all in state *source*, thousands per statement.

        Raises:
            InvalidStateError, ActorError: as `move`.
            ConflictError: a row is in another state.
        """
        actor = actor or self.actor
        target = cycle.machine.next(source, event, actor)
        table = cycle.table
        these = table.c.id.in_(sa.bindparam("b_ids", expanding=True))
        update = sa.update(table).where(these, table.c.state == source.value)
        update = update.values(cycle.columns(target))
        what = (cycle.subject, source.value, event.value, target.value, actor.value)
        note = _history_insert(table, these, what, (self.who, self.now.wall, reason[:TEXT_LIMIT]))
        for some in slices(ids, _SLICE):
            chosen = {"b_ids": padded(some)}
            if self.conn.execute(update, chosen).rowcount != len(some):
                raise ConflictError
            self.conn.execute(note, chosen)
        return target

    def open(
        self,
        cycle: LifeCycle[S, E],
        subject: Movable,
        event: E,
        reason: str = "",
        *,
        actor: Actor | None = None,
    ) -> None:
        """Record in the history that *event* created a new row.

        Args:
            cycle: the life cycle.
            subject: the new row, with the state of its predecessor.
            event: leads from that state to the state in which the row was inserted.
            reason: reason for the history.
            actor: who causes it; None: the ledger's actor.
        """
        actor = actor or self.actor
        target = cycle.machine.next(_state(cycle.machine, subject.state), event, actor)
        self._record(cycle.subject, subject, event.value, target.value, actor, reason)

    def note(self, name: str, subject: Movable, event: str, reason: str = "") -> None:
        """Record something other than a move in the history (an edit, a late report)."""
        self._record(name, subject, event, subject.state, self.actor, reason)

    def _record(
        self, name: str, subject: Movable, event: str, target: str, actor: Actor, reason: str
    ) -> None:
        row = (
            name, subject.id, subject.run, subject.state, event, target, actor.value, self.who,
            self.now.wall, reason[:TEXT_LIMIT],
        )  # fmt: skip
        _INSERT.run(self.conn, [row])


def _state(machine: Machine[S, E], value: str) -> S:
    """Return the state of *machine* whose stored text is *value*."""
    first: Any = next(iter(machine.states))
    return type(first)(value)  # type: ignore[no-any-return]


def _history_insert(
    table: sa.Table,
    rule: sa.ColumnElement[bool],
    what: Iterable[str],
    by: tuple[str, float, str],
) -> sa.Insert:
    """Return the statement that inserts a history row for each row of *table* matching *rule*."""
    subject, source, event, target, actor = (_text(text) for text in what)
    who, at, reason = by
    run = table.c.id if table is RUNS else table.c.run
    rows = sa.select(
        subject, table.c.id, run, source, event, target, actor, _text(who),
        sa.literal(at, sa.Double), _text(reason),
    )  # fmt: skip
    return sa.insert(HISTORY).from_select(_COLUMNS, rows.where(rule).order_by(table.c.id))


def _text(text: str) -> sa.ColumnElement[str]:
    return sa.literal(text, sa.String)
