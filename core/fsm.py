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
    """What a state means for the thing that is in it."""

    working = "working"  #: a program of ours is busy with it and will move it
    wait = "wait"  #: something outside must happen first: a message, a boot, a time
    hold = "hold"  #: stopped on the way until a person lets it continue
    failure = "failure"  #: stopped by an error; kept for another try
    stable = "stable"  #: at rest; the way goes on with a new request
    final = "final"  #: ended; nothing leads out


class Actor(str, Enum):
    """Who causes a transition."""

    api = "api"  #: a person or program with a request
    system = "system"  #: the master itself, also when it concludes something from a report
    agent = "agent"  #: the minion or host that the thing is about


#: Kinds in which a thing must be able to fail although nobody asks for it.
_MAY_FAIL = frozenset({Kind.working, Kind.wait})
#: Kinds in which a way may end. From every other state one of them must be reachable.
_RESTS = frozenset({Kind.stable, Kind.failure, Kind.final})
#: Kinds that a default target may have.
_GOALS = frozenset({Kind.stable, Kind.final})


class TableError(CatenaError):
    """A life cycle's table contradicts itself."""


class ActorError(NotAllowedError):
    """An actor tried to cause a transition that the table allows to others only."""


@dataclass(frozen=True)
class Row(Generic[S, E]):
    """One transition, who may cause it, and the sentence that licenses it."""

    source: S
    event: E
    target: S
    actor: Union[Actor, Tuple[Actor, ...]]
    why: str

    @property
    def actors(self) -> Tuple[Actor, ...]:
        """Return everybody who may cause this transition."""
        return self.actor if isinstance(self.actor, tuple) else (self.actor,)


class Machine(Generic[S, E]):
    """A checked, frozen life cycle.

    Args:
        name: the thing that has this life cycle; used in errors.
        states: the kind of every member of the enumeration of states.
        initial: the states in which a thing can begin.
        rows: the transitions.
        failures: the events that mean a failure. Each working and waiting state needs a row for
            one of them that the system or an agent causes.
        unfailing: states that need no such row, with the reason.
        default_targets: for states that are on the way to a stable or final state, that state.

    Raises:
        TableError: the table contradicts itself; the message names the state.
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
        """Return whether *event* may happen in *state*, and, if given, *actor* may cause it."""
        row = self.rows.get((state, event))
        return row is not None and (actor is None or actor in row.actors)

    def next(self, state: S, event: E, actor: Optional[Actor] = None) -> S:
        """Return where *event* takes a thing that is in *state*.

        Args:
            state: the state in which the thing is.
            event: what happens to it.
            actor: who causes it; None for readers of stored moves, which were checked before.

        Raises:
            InvalidStateError: the table has no such row.
            ActorError: the row is not for *actor*.
        """
        row = self.rows.get((state, event))
        if row is None:
            raise InvalidStateError(
                f"{self.name}: {event.value!r} can't happen while {state.value!r}"
            )
        if actor is not None and actor not in row.actors:
            allowed = " or ".join(one.value for one in row.actors)
            raise ActorError(
                f"{self.name}: {event.value!r} while {state.value!r} is for {allowed}, "
                f"not for {actor.value}"
            )
        return row.target

    def after(self, state: S, event: E, actor: Optional[Actor] = None) -> Optional[S]:
        """Return where *event* takes a thing that is in *state*; None if it can't happen.

        Raises:
            ActorError: the row is not for *actor*.
        """
        return self.next(state, event, actor) if (state, event) in self.rows else None

    def is_final(self, state: S) -> bool:
        """Return whether nothing leads out of *state*."""
        return self.states[state] is Kind.final

    def of_kind(self, *kinds: Kind) -> FrozenSet[S]:
        """Return the states that are of one of *kinds*."""
        return frozenset(state for state, kind in self.states.items() if kind in kinds)

    def target_in(self, state: S, asked: Optional[S] = None) -> Optional[S]:
        """Return the state that a thing is on its way to when it has entered *state*.

        Args:
            state: the state that was entered.
            asked: the target that the request named instead of the default.

        Returns:
            None where the way has ended: in a stable or final state.
        """
        if self.states[state] in _GOALS:
            return None
        return asked or self.default_targets.get(state)


# -- checks of a table -------------------------------------------------------------------------


def _check(machine: Machine[S, E]) -> None:
    """Check everything that can be wrong with a table; raise TableError for the first finding."""
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
    """Check that each state is reached, and left as its kind says."""
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
    """Check that what works or waits can fail without a request."""
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
    """Return for each state those that one transition leads to."""
    leads: Dict[S, Set[S]] = {state: set() for state in machine.states}
    for row in machine.rows.values():
        leads[row.source].add(row.target)
    return leads


def _closure(begin: Iterable[S], leads: Mapping[S, Iterable[S]]) -> FrozenSet[S]:
    """Return all states that can be reached from *begin*, including it."""
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
