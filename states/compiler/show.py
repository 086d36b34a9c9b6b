"""Convert low states for `state.show_low_sls` and `state.show_lowstate`.

As in Salt, a `*_in` is also shown as a requisite of the other state, and the trial of a
`prereq`'s target is an entry of its own.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Sequence, Set, Tuple

from catena.states.compiler.model import LOOSE, REVERSE, Low, Row
from catena.states.compiler.order import steps
from catena.states.compiler.requisites import Plan, ReverseRequisites, pairs
from catena.states.compiler.watch import Hearing, softened

#: Reverse requisites that are shown in the other state too.
_PUT = {key: kind for key, kind in REVERSE.items() if kind not in LOOSE}


def shown_chunks(plan: Plan, lows: Sequence[Low], hears: Hearing) -> List[Row]:
    """Return Salt's low chunks in the order of the run; empty when there is none.

    Args:
        plan: provides the resolved requisites; its `errors` say why there is no order.
        lows: low states to show, one for each of the plan.
        hears: tells which modules keep their `watch`.
    """
    chunks = [low.as_dict() for low in lows]
    _show_reverse(plan, chunks)
    softened(chunks, hears)
    for links, chunk in zip(plan.links, chunks):
        if "prereq" in links.needs:
            chunk["__prerequiring__"] = True
        if links.prereq_owners:
            chunk["__prereq__"] = True
    return [dict(chunks[step.position]) for step in steps(plan) or ()]


def _show_reverse(plan: Plan, chunks: List[Dict[str, Any]]) -> None:
    if not any(key in _PUT for low in plan.lows for key in low.keywords):
        return
    targets = ReverseRequisites(plan.lows)
    seen: Set[Tuple[str, str]] = set()
    for low in plan.lows:
        # All states of a `names` list are one declaration, which adds itself once.
        if (low.state, low.id) in seen:
            continue
        seen.add((low.state, low.id))
        for key, kind in _PUT.items():
            for member in _targets(targets, low, key):
                chunk = chunks[member]
                chunk[kind] = [*(chunk.get(kind) or ()), {low.state: low.id}]


def _targets(targets: ReverseRequisites, low: Low, key: str) -> Iterator[int]:
    """Yield the targets of one `*_in`; as in Salt, earlier entries repeat with each later one."""
    met: List[Tuple[str, str]] = []
    for pair in pairs(low, key):
        met = [pair] if pair[0] == "sls" else [*met, pair]
        for one in met:
            yield from targets.find(*one) or ()
