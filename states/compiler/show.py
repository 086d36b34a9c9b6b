"""Low states as `state.show_low_sls` and `state.show_lowstate` print them.

What a run knows of requisites is shown where Salt shows it: a `*_in` also as the requisite that it
puts into the other state, a state that a `prereq` names with its trial as an entry of its own.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Sequence, Set, Tuple

from catena.states.compiler.model import LOOSE, REVERSE, Low, Row
from catena.states.compiler.order import steps
from catena.states.compiler.requisites import Plan, Targets, pairs
from catena.states.compiler.watch import Hearing, softened

#: What becomes part of the other state; of `listen_in` only the end of a run asks.
_PUT = {key: kind for key, kind in REVERSE.items() if kind not in LOOSE}


def shown_chunks(plan: Plan, lows: Sequence[Low], hears: Hearing) -> List[Row]:
    """Return Salt's low chunks in the order of the run; empty when there is none.

    Args:
        plan: has the requisites that count; its `errors` say why there is no order.
        lows: as they are shown, one for each of the plan.
        hears: which modules keep their `watch`.
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
    targets = Targets(plan.lows)
    seen: Set[Tuple[str, str]] = set()
    for low in plan.lows:
        # What `names` made many is one declaration, which puts itself in once.
        if (low.state, low.id) in seen:
            continue
        seen.add((low.state, low.id))
        for key, kind in _PUT.items():
            for member in _targets(targets, low, key):
                chunk = chunks[member]
                chunk[kind] = [*(chunk.get(kind) or ()), {low.state: low.id}]


def _targets(targets: Targets, low: Low, key: str) -> Iterator[int]:
    """Yield the states that one `*_in` goes to; as in Salt, each entry again with every later."""
    met: List[Tuple[str, str]] = []
    for pair in pairs(low, key):
        met = [pair] if pair[0] == "sls" else [*met, pair]
        for one in met:
            yield from targets.find(*one) or ()
