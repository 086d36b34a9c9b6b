"""Select some states of a run together with the states that they need."""

from __future__ import annotations

from typing import Callable, List, Sequence, Set

from catena.states.compiler.model import Low
from catena.states.compiler.requisites import link


def with_needs(lows: Sequence[Low], wanted: Callable[[Low], bool]) -> List[Low]:
    """Return the *wanted* states and all states that they need, in the order of *lows*."""
    plan = link(lows, linked_before=True)
    chosen: Set[int] = set()
    todo = [position for position, low in enumerate(lows) if wanted(low)]
    while todo:
        position = todo.pop()
        if position in chosen:
            continue
        chosen.add(position)
        for groups in plan.links[position].needs.values():
            todo += [member for group in groups for member in group.members]
    return [low for position, low in enumerate(lows) if position in chosen]
