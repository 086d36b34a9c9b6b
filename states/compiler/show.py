"""Low states as `state.show_low_sls` and `state.show_lowstate` print them.

What a run knows of requisites is shown where Salt shows it: a `*_in` also as the requisite that it
puts into the other state, a state that a `prereq` names with its trial as an entry of its own.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Set

from catena.states.compiler.model import REVERSE, Low, Row
from catena.states.compiler.order import steps
from catena.states.compiler.requisites import Plan, pairs


def shown_chunks(plan: Plan, lows: Sequence[Low]) -> List[Row]:
    """Return Salt's low chunks in the order of the run; empty when there is none.

    Args:
        plan: has the requisites that count; its `errors` say why there is no order.
        lows: as they are shown, one for each of the plan.
    """
    chunks = [low.as_dict() for low in lows]
    _show_reverse(plan, chunks)
    for links, chunk in zip(plan.links, chunks):
        if "prereq" in links.needs:
            chunk["__prerequiring__"] = True
        if links.prereq_owners:
            chunk["__prereq__"] = True
    return [dict(chunks[step.position]) for step in steps(plan) or ()]


def _show_reverse(plan: Plan, chunks: List[Dict[str, Any]]) -> None:
    seen: Set[Any] = set()
    for low in plan.lows:
        for key, kind in REVERSE.items():
            if key == "use_in" or key not in low.keywords:
                continue
            for pair in pairs(low, key):
                group = plan.index.find(*pair)
                for member in group.members if group else ():
                    once = (member, kind, low.state, low.id)
                    if once not in seen and plan.lows[member] is not low:
                        seen.add(once)
                        chunk = chunks[member]
                        chunk[kind] = [*(chunk.get(kind) or ()), {low.state: low.id}]
