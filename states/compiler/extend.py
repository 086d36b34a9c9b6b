"""Apply `extend` blocks to the declarations that they change."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from catena.core.frozen import replace
from catena.states.compiler.faults import can_not_extend
from catena.states.compiler.model import REQUISITES, Declaration, High, first_key, sets_order


def extended(high: High, errors: List[str]) -> Tuple[Declaration, ...]:
    """Return the declarations of *high* after its `extend` blocks, applied in reading order."""
    if not high.extends:
        return high.states
    states = list(high.states)
    by_id: Dict[str, List[int]] = {}
    for index, one in enumerate(states):
        by_id.setdefault(one.id, []).append(index)
    for change in high.extends:
        if change.sls in high.excluded_sls:
            continue
        indexes = by_id.get(change.id) or _named(states, change)
        if not indexes:
            errors.append(can_not_extend(change.id, change.env, change.sls, change.line, by_id))
            continue
        same = [index for index in indexes if states[index].state == change.state]
        for index in same:
            states[index] = _changed(states[index], change)
        if not same:
            by_id[change.id].append(len(states))
            owner = states[indexes[0]]
            states.append(replace(change, sls=owner.sls, env=owner.env))
    return tuple(states)


def _changed(one: Declaration, change: Declaration) -> Declaration:
    position = None if sets_order(change.items) else one.position
    return replace(one, items=merged(one.items, change.items), position=position)


def _named(states: Sequence[Declaration], change: Declaration) -> List[int]:
    """Return the states of the same module whose name is the id of the block."""
    wanted = {"name": change.id}
    found = [
        index
        for index, one in enumerate(states)
        if one.state == change.state and wanted in one.items
    ]
    return found if len(found) == 1 else []


def merged(items: Sequence[Any], changes: Sequence[Any]) -> Tuple[Any, ...]:
    """Return *items* with *changes*: functions and arguments are replaced, requisites added."""
    result = list(items)
    for change in changes:
        key = first_key(change)
        # A new `name` also replaces `names`.
        taken = (key, "names") if key == "name" else (key,)
        same = (
            i
            for i, item in enumerate(result)
            if first_key(item) in taken and isinstance(item, str) == isinstance(change, str)
        )
        index = next(same, None)
        if index is None:
            result.append(change)
        elif key in REQUISITES:
            result[index] = {**result[index], key: [*result[index][key], *change[key]]}
        else:
            result[index] = change
    return tuple(result)
