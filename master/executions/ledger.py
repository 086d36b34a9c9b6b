"""The only writer of states: compare-and-set, history row and event, in one transaction.

A move is checked against its life cycle, and stored only if the row still is in the state that the
decision saw. So two masters on one database can't both make it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from catena.core.errors import TryLaterError
from catena.core.fsm import Actor, Machine
from catena.master.executions.model import Movable
from catena.master.jobs.model import EventItem
from catena.master.process.clocks import ClockReading
from catena.master.store.execution_tables import HISTORY, RUNS
from catena.master.store.fast.many_rows import ManyRows
from catena.master.store.lists import padded, slices

S = TypeVar("S", bound=Any)
E = TypeVar("E", bound=Any)

#: Characters of a reason or comment that are stored.
TEXT_LIMIT = 64 * 1024
#: Rows in one statement of a bulk move.
_SLICE = 4096

_COLUMNS = (
    "subject", "subject_id", "run", "source", "event", "target", "actor", "who", "at", "reason",
)  # fmt: skip
_INSERT = ManyRows(sa.insert(HISTORY), _COLUMNS)


class ConflictError(TryLaterError):
    """Somebody else moved it in the same moment; ask again."""


@dataclass(frozen=True, eq=False)
class LifeCycle(Generic[S, E]):
    """A machine, the table of what it moves, and the common status of each state.

    Args:
        subject: the name of what moves, in the history.
        table: has the columns id and state; status too, if *statuses* are given.
        machine: the states and transitions.
        statuses: the common status of each state; None: the table has no such column.
    """

    subject: str
    table: sa.Table
    machine: Machine[S, E]
    statuses: Mapping[S, str] | None = None
    #: Compiled updates by the names of the columns that they set.
    _updates: dict[tuple[str, ...], ManyRows] = field(default_factory=dict, repr=False)

    def columns(self, target: S) -> dict[str, Any]:
        """Return the columns that say that a row is in state *target*."""
        found = {"state": target.value}
        if self.statuses is not None:
            found["status"] = str(self.statuses[target])
        return found

    def update(self, names: tuple[str, ...]) -> ManyRows:
        """Return the update of columns *names*; its rows end with id and seen state."""
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


class Ledger:
    """The moves of one transaction.

    Args:
        conn: inside `Store.write` or an observer.
        now: both clocks.
        actor: who causes the moves, unless a move names somebody else.
        who: a user's name, a minion's id, or "" for the master itself.
    """

    def __init__(
        self, conn: sa.Connection, now: ClockReading, actor: Actor = Actor.system, who: str = ""
    ) -> None:
        self.conn = conn
        self.now = now
        self.actor = actor
        self.who = who
        #: What happened, for the bus; the caller records it in the same transaction.
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
            event: what happens to it.
            reason: why, for the history.
            actor: who causes it; None: the ledger's.
            values: further columns that change with it.

        Raises:
            InvalidStateError: the life cycle has no such row.
            ActorError: the row is not for *actor*.
            ConflictError: it is no longer in the state that *subject* names.
        """
        actor = actor or self.actor
        machine = cycle.machine
        target = machine.next(_state(machine, subject.state), event, actor)
        columns = {**(values or {}), **cycle.columns(target)}
        row = (*columns.values(), subject.id, subject.state)
        if cycle.update(tuple(columns)).run(self.conn, [row]) != 1:
            raise ConflictError
        self._tell(cycle.subject, subject, event.value, target.value, actor, reason)
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
        """Move rows that are all in state *source*, thousands in a statement.

        Raises:
            InvalidStateError, ActorError: as `move`.
            ConflictError: one of them is in another state.
        """
        actor = actor or self.actor
        target = cycle.machine.next(source, event, actor)
        table = cycle.table
        these = table.c.id.in_(sa.bindparam("b_ids", expanding=True))
        update = sa.update(table).where(these, table.c.state == source.value)
        update = update.values(cycle.columns(target))
        what = (cycle.subject, source.value, event.value, target.value, actor.value)
        tell = _told_of(table, these, what, (self.who, self.now.wall, reason[:TEXT_LIMIT]))
        for some in slices(ids, _SLICE):
            chosen = {"b_ids": padded(some)}
            if self.conn.execute(update, chosen).rowcount != len(some):
                raise ConflictError
            self.conn.execute(tell, chosen)
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
        """Put into the history that a new row began, by *event*, in a state of its life cycle.

        Args:
            cycle: the life cycle.
            subject: the new row, with the state of what it follows.
            event: leads from that state to the state in which the row was inserted.
            reason: why.
            actor: who causes it; None: the ledger's.
        """
        actor = actor or self.actor
        target = cycle.machine.next(_state(cycle.machine, subject.state), event, actor)
        self._tell(cycle.subject, subject, event.value, target.value, actor, reason)

    def note(self, name: str, subject: Movable, event: str, reason: str = "") -> None:
        """Put something that is no move into the history (an edit, a late report)."""
        self._tell(name, subject, event, subject.state, self.actor, reason)

    def _tell(
        self, name: str, subject: Movable, event: str, target: str, actor: Actor, reason: str
    ) -> None:
        row = (
            name, subject.id, subject.run, subject.state, event, target, actor.value, self.who,
            self.now.wall, reason[:TEXT_LIMIT],
        )  # fmt: skip
        _INSERT.run(self.conn, [row])


def _state(machine: Machine[S, E], value: str) -> S:
    """Return the state of a machine that is stored as *value*."""
    first: Any = next(iter(machine.states))
    return type(first)(value)  # type: ignore[no-any-return]


def _told_of(
    table: sa.Table,
    rule: sa.ColumnElement[bool],
    what: Iterable[str],
    told: tuple[str, float, str],
) -> sa.Insert:
    """Return the insert of one history row for each row of *table* that *rule* picks."""
    subject, source, event, target, actor = (_word(text) for text in what)
    who, at, reason = told
    run = table.c.id if table is RUNS else table.c.run
    rows = sa.select(
        subject, table.c.id, run, source, event, target, actor, _word(who),
        sa.literal(at, sa.Double), _word(reason),
    )  # fmt: skip
    return sa.insert(HISTORY).from_select(_COLUMNS, rows.where(rule).order_by(table.c.id))


def _word(text: str) -> sa.ColumnElement[str]:
    return sa.literal(text, sa.String)
