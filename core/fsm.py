"""Life cycles as literal tables (the engine of `semantics/one-model.md`).

A machine is data: states, and rows (from, event) -> (to, actor). It decides only; who asks stores
the outcome with a compare-and-set on the state it decided from.
"""

from __future__ import annotations

from enum import Enum
from typing import Dict, Generic, Iterable, Optional, Tuple, TypeVar

from catena.core.errors import CatenaError, InvalidStateError
from catena.core.frozen import dataclass

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class Kind(str, Enum):
    """What sort of place a state is."""

    working = "working"  #: something runs and will end by itself
    wait = "wait"  #: something outside must happen first
    final = "final"  #: nothing leads out


class Actor(str, Enum):
    """Who may cause a transition."""

    api = "api"
    system = "system"
    agent = "agent"


class TableError(CatenaError):
    """A life cycle's table contradicts itself."""


@dataclass(frozen=True)
class Row(Generic[S, E]):
    """One transition and the sentence that licenses it."""

    source: S
    event: E
    target: S
    actor: Actor
    why: str


class Machine(Generic[S, E]):
    """A checked, frozen life cycle.

    Raises:
        TableError: two rows for one (state, event), a row out of a final state, a state that no
            row reaches, or a state that is not final and has no way out.
    """

    def __init__(
        self, name: str, states: Dict[S, Kind], initial: Iterable[S], rows: Iterable[Row[S, E]]
    ) -> None:
        self.name = name
        self.states = dict(states)
        self.initial = frozenset(initial)
        self.rows: Dict[Tuple[S, E], Row[S, E]] = {}
        for row in rows:
            if (row.source, row.event) in self.rows:
                raise TableError(f"{name}: two rows for {row.source.value} on {row.event.value}")
            self.rows[row.source, row.event] = row
        self._check()

    def _check(self) -> None:
        left = {row.source for row in self.rows.values()}
        reached = self.initial | {row.target for row in self.rows.values()}
        for state, kind in self.states.items():
            if state not in reached:
                raise TableError(f"{self.name}: nothing leads to {state.value}")
            if (kind is Kind.final) == (state in left):
                raise TableError(f"{self.name}: {state.value} is {kind.value}, its rows differ")

    def allows(self, state: S, event: E) -> bool:
        """Return whether *event* may happen in *state*."""
        return (state, event) in self.rows

    def next(self, state: S, event: E) -> S:
        """Return where *event* takes a thing that stands at *state*.

        Raises:
            InvalidStateError: the table has no such row.
        """
        try:
            return self.rows[state, event].target
        except KeyError:
            raise InvalidStateError(
                f"{self.name}: {event.value!r} can't happen while {state.value!r}"
            ) from None

    def after(self, state: S, event: E) -> Optional[S]:
        """Return where *event* takes a thing that stands at *state*; None: it can't happen."""
        row = self.rows.get((state, event))
        return None if row is None else row.target

    def is_final(self, state: S) -> bool:
        """Return whether nothing leads out of *state*."""
        return self.states[state] is Kind.final

    def mermaid(self) -> str:
        """Return the table as a Mermaid state diagram, for the docs."""
        lines = ["stateDiagram-v2"]
        lines += [f"    [*] --> {state.value}" for state in self.states if state in self.initial]
        lines += [
            f"    {row.source.value} --> {row.target.value}: {row.event.value} ({row.actor.value})"
            for row in self.rows.values()
        ]
        return "\n".join(lines) + "\n"
