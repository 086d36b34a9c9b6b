"""A part of a run: some states, and what they need."""

from __future__ import annotations

from typing import Callable, List, Sequence, Set

from catena.states.compiler.model import Low
from catena.states.compiler.requisites import link


def with_needs(lows: Sequence[Low], wanted: Callable[[Low], bool]) -> List[Low]:
    """Return the states that are *wanted* and all that they need, in the order of *lows*."""
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
