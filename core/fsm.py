"""Life cycles as literal tables (design.md §6).

A machine is data: the kind of each state, and rows (from, event) -> (to, actor). It only decides.
The caller stores the outcome with a compare-and-set on the state that it decided from.
`core/fsm_export.py` writes a machine as a diagram or as JSON.
"""

from __future__ import annotations

from enum import Enum
from typing import (
    Dict,
    FrozenSet,
    Generic,
    Iterable,
    Mapping,
    Optional,
    Set,
    Tuple,
    TypeVar,
    Union,
)

from catena.core.errors import CatenaError, InvalidStateError, NotAllowedError
from catena.core.frozen import dataclass

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class Kind(str, Enum):
    """What a state means for the subject of a life cycle."""

    working = "working"  #: a program of catena processes the subject and will move it on
    wait = "wait"  #: something outside must happen first: a message, a boot, a time
    hold = "hold"  #: stopped until a person lets it continue
    failure = "failure"  #: stopped by an error; kept for another attempt
    stable = "stable"  #: at rest until a new request
    final = "final"  #: ended; no transition leads out


class Actor(str, Enum):
    """Who causes a transition."""

    api = "api"  #: a person or program, by a request
    system = "system"  #: the master, also when it concludes something from a report
    agent = "agent"  #: the minion or host concerned


#: Kinds of states that need a transition to failure without a request.
_MAY_FAIL = frozenset({Kind.working, Kind.wait})
#: Kinds of states at which a path may end; every other state must be able to reach one.
_RESTS = frozenset({Kind.stable, Kind.failure, Kind.final})
#: Kinds of states that may be a default target.
_GOALS = frozenset({Kind.stable, Kind.final})


class TableError(CatenaError):
    """A life cycle's table is inconsistent."""


class ActorError(NotAllowedError):
    """An actor tried to cause a transition reserved for others."""


@dataclass(frozen=True)
class Row(Generic[S, E]):
    """One transition, who may cause it, and the reason for it."""

    source: S
    event: E
    target: S
    actor: Union[Actor, Tuple[Actor, ...]]
    why: str

    @property
    def actors(self) -> Tuple[Actor, ...]:
        """Return the actors who may cause this transition."""
        return self.actor if isinstance(self.actor, tuple) else (self.actor,)


class Machine(Generic[S, E]):
    """A checked, frozen life cycle.

    Args:
        name: what has this life cycle; used in errors.
        states: the kind of every member of the enumeration of states.
        initial: the possible first states.
        rows: the transitions.
        failures: the events that mean a failure. Each working and waiting state needs a row for
            one of them that the system or an agent causes.
        unfailing: states that need no such row, with the reason.
        default_targets: for states on the way to a stable or final state, that state.

    Raises:
        TableError: the table is inconsistent; the message names the state.
    """

    def __init__(
        self,
        name: str,
        states: Mapping[S, Kind],
        initial: Iterable[S],
        rows: Iterable[Row[S, E]],
        *,
        failures: Iterable[E] = (),
        unfailing: Optional[Mapping[S, str]] = None,
        default_targets: Optional[Mapping[S, S]] = None,
    ) -> None:
        self.name = name
        self.states = dict(states)
        self.initial = frozenset(initial)
        self.failures = frozenset(failures)
        self.unfailing = dict(unfailing or {})
        self.default_targets = dict(default_targets or {})
        self.rows: Dict[Tuple[S, E], Row[S, E]] = {}
        for row in rows:
            if (row.source, row.event) in self.rows:
                raise TableError(f"{name}: two rows for {row.source.value} on {row.event.value}")
            self.rows[row.source, row.event] = row
        _check(self)

    def allows(self, state: S, event: E, actor: Optional[Actor] = None) -> bool:
        """Return whether *event* may happen in *state* and, if given, if *actor* may cause it."""
        row = self.rows.get((state, event))
        return row is not None and (actor is None or actor in row.actors)

    def next(self, state: S, event: E, actor: Actor) -> S:
        """Return the state that *event* leads to from *state*.

        Args:
            state: the current state.
            event: what happens.
            actor: who causes it.

        Raises:
            InvalidStateError: the table has no such row.
            ActorError: the row is reserved for other actors.
        """
        row = self._row(state, event)
        if actor not in row.actors:
            allowed = " or ".join(one.value for one in row.actors)
            raise ActorError(
                f"{self.name}: {event.value!r} in state {state.value!r} is for {allowed} only; "
                f"{actor.value} may not cause it"
            )
        return row.target

    def after(self, state: S, event: E, actor: Actor) -> Optional[S]:
        """Return the state that *event* leads to from *state*; None if the table has no such row.

        Raises:
            ActorError: the row is reserved for other actors.
        """
        return self.next(state, event, actor) if (state, event) in self.rows else None

    def replay(self, state: S, event: E) -> S:
        """Return the state that a stored transition led to; its actor was checked before.

        Raises:
            InvalidStateError: the table has no such row.
        """
        return self._row(state, event).target

    def _row(self, state: S, event: E) -> Row[S, E]:
        row = self.rows.get((state, event))
        if row is None:
            raise InvalidStateError(
                f"{self.name}: {event.value!r} is not possible in state {state.value!r}"
            )
        return row

    def is_final(self, state: S) -> bool:
        """Return whether no transition leads out of *state*."""
        return self.states[state] is Kind.final

    def of_kind(self, *kinds: Kind) -> FrozenSet[S]:
        """Return the states of one of *kinds*."""
        return frozenset(state for state, kind in self.states.items() if kind in kinds)

    def target_in(self, state: S, asked: Optional[S] = None) -> Optional[S]:
        """Return the target of a subject that has entered *state*.

        Args:
            state: the state that was entered.
            asked: the target named in the request instead of the default.

        Returns:
            None in a stable or final state, where the path has ended.
        """
        if self.states[state] in _GOALS:
            return None
        return asked or self.default_targets.get(state)


# -- checks of a table -------------------------------------------------------------------------


def _check(machine: Machine[S, E]) -> None:
    """Check a whole table; raise TableError for the first finding."""
    _check_names(machine)
    _check_ways(machine)
    _check_failures(machine)
    _check_default_targets(machine)


def _check_names(machine: Machine[S, E]) -> None:
    named = {*machine.initial, *machine.unfailing}
    named |= {*machine.default_targets, *machine.default_targets.values()}
    for row in machine.rows.values():
        named |= {row.source, row.target}
        if not row.actors:
            raise TableError(f"{machine.name}: nobody may cause {_shown(row)}")
    for state in {member for one in named for member in type(one)}:
        if state not in machine.states:
            raise TableError(f"{machine.name}: {state.value} has no kind")


def _check_ways(machine: Machine[S, E]) -> None:
    """Check that each state is reachable, and that its rows fit its kind."""
    leads = _leads(machine)
    asked = {row.source for row in machine.rows.values() if Actor.api in row.actors}
    reached = _closure(machine.initial, leads)
    for state, kind in machine.states.items():
        if state not in reached:
            raise TableError(f"{machine.name}: nothing leads to {state.value}")
        if (kind is Kind.final) == bool(leads[state]):
            raise TableError(f"{machine.name}: {state.value} is {kind.value}, its rows differ")
        if kind is Kind.hold and state not in asked:
            raise TableError(f"{machine.name}: no request lets {state.value} continue")
        if not any(machine.states[end] in _RESTS for end in _closure([state], leads)):
            raise TableError(f"{machine.name}: no way leads from {state.value} to an end")


def _check_failures(machine: Machine[S, E]) -> None:
    """Check that working and waiting states can fail without a request."""
    failing = {
        row.source
        for row in machine.rows.values()
        if row.event in machine.failures and any(one is not Actor.api for one in row.actors)
    }
    for state in machine.of_kind(*_MAY_FAIL) - failing:
        if state not in machine.unfailing:
            raise TableError(f"{machine.name}: {state.value} can't fail")
    for state in machine.unfailing:
        if state in failing or machine.states[state] not in _MAY_FAIL:
            raise TableError(f"{machine.name}: {state.value} is exempt for no reason")


def _check_default_targets(machine: Machine[S, E]) -> None:
    leads = _leads(machine)
    for state, target in machine.default_targets.items():
        if machine.states[state] in _GOALS:
            raise TableError(f"{machine.name}: {state.value} is at rest and needs no target")
        if machine.states[target] not in _GOALS:
            raise TableError(f"{machine.name}: the target {target.value} is no state of rest")
        if target not in _closure([state], leads):
            raise TableError(f"{machine.name}: no way leads from {state.value} to {target.value}")


def _leads(machine: Machine[S, E]) -> Dict[S, Set[S]]:
    """Return the successors of each state."""
    leads: Dict[S, Set[S]] = {state: set() for state in machine.states}
    for row in machine.rows.values():
        leads[row.source].add(row.target)
    return leads


def _closure(begin: Iterable[S], leads: Mapping[S, Iterable[S]]) -> FrozenSet[S]:
    """Return all states reachable from *begin*, including *begin*."""
    found = set(begin)
    left = list(found)
    while left:
        for state in leads[left.pop()]:
            if state not in found:
                found.add(state)
                left.append(state)
    return frozenset(found)


def _shown(row: Row[S, E]) -> str:
    return f"{row.event.value} while {row.source.value}"
