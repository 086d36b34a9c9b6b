"""Order the states of a run: requisites first, otherwise as written.

Among the states whose requisites have run, the one with the lowest order runs next. A state
inherits the lowest order of the states that need it directly, so it moves up to just before them.
Only those count whose requisite is not weaker than an earlier one (`_WEIGHTS`). Salt orders states
in the same way, and existing trees rely on that. Time and memory are linear in states plus
requisites.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from catena.core.frozen import replace
from catena.states.compiler.model import Low, Order
from catena.states.compiler.requisites import Plan, RequisiteGroup

#: Kinds of requisites in order of evaluation, with their strengths.
_WEIGHTS = {
    "require": 3,
    "require_any": 4,
    "watch": 7,
    "watch_any": 8,
    "prereq": 9,
    "onfail": 0,
    "onfail_any": 1,
    "onfail_all": 2,
    "onchanges": 5,
    "onchanges_any": 6,
}
_NEVER = float("inf")

#: A waiting node: sequence number of the wait, the node, the strength of its requisite.
_Wait = Tuple[int, int, int]
_Rank = Tuple[Order, Order, str, str, int]


class Step(NamedTuple):
    """One step of a run: a state or a trial."""

    #: Position of the state in the plan.
    position: int
    #: The state is only tried, because a `prereq` depends on whether it would change anything.
    trial: bool


def arranged(plan: Plan) -> Optional[Tuple[Low, ...]]:
    """Return *plan*'s states in run order, each with its trials; None as for `steps`."""
    found = steps(plan)
    if found is None:
        return None
    lows: List[Low] = []
    tries: List[str] = []
    for step in found:
        low = plan.lows[step.position]
        if step.trial:
            tries.append(low.key)
        else:
            lows.append(replace(low, tries=tuple(tries)) if tries else low)
            tries = []
    return tuple(lows)


def steps(plan: Plan) -> Optional[List[Step]]:
    """Return *plan*'s states and trials in run order; None if requisites form a loop.

    The error is then in `plan.errors` and names the states of one loop.
    """
    graph = _Graph(plan)
    result = graph.sort()
    if result is None:
        plan.errors.append(_loop(plan, graph.one_loop()))
    return result


def _loop(plan: Plan, positions: Sequence[int]) -> str:
    shown = []
    for position in positions:
        low = plan.lows[position]
        place = f" ({low.line})" if low.line.file else ""
        shown.append(f"{low.state}: {low.id}{place}")
    return f"Recursive requisites were found: {' needs '.join(shown)}"


class _Graph:
    """Nodes are states, then their trials in test mode (prereq), then shared groups."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._count = len(plan.lows)
        total = 2 * self._count + len(plan.index.groups)
        #: By node: the nodes that wait for it, in the order found.
        self._waits: List[List[_Wait]] = [[] for _ in range(total)]
        self._missing = [0] * total
        #: Nodes of requisite groups by member.
        self._groups: Dict[int, List[int]] = {}
        self._used: Set[int] = set()
        self._trials: Set[int] = set()
        self._met = 0
        #: By state with a prereq, or target of one: what it waits for.
        self._needs: Dict[int, List[Tuple[int, int]]] = {}
        #: Orders that other states inherit, before `order: last` and `names` are resolved.
        self._orders: List[Order] = [
            low.order if low.written_order is None else low.written_order for low in plan.lows
        ]
        self._lowest_of: Dict[Tuple[int, ...], Order] = {}
        for position in range(self._count):
            needs = plan.links[position].needs
            if needs:
                for kind, weight in _WEIGHTS.items():
                    for group in needs.get(kind, ()):
                        self._add(position, kind, group, weight)

    def _add(self, position: int, kind: str, group: RequisiteGroup, weight: int) -> None:
        if kind == "prereq":
            for member in group.members:
                self._try_first(position, member)
            return
        source = self._node(group)
        if position in self._trials:
            self._wait(source, self._count + position, weight)
        self._wait(source, position, weight)

    def _wait(self, source: int, node: int, weight: int) -> None:
        self._met += 1
        self._waits[source].append((self._met, node, weight))
        self._missing[node] += 1
        if node < self._count:
            self._needs.setdefault(node, []).append((source, weight))

    def _node(self, group: RequisiteGroup) -> int:
        """Return the node of a group, or the group's only state."""
        if len(group.members) == 1:
            return group.members[0]
        node = 2 * self._count + group.number
        if node not in self._used:
            self._used.add(node)
            self._missing[node] = len(group.members)
            for member in group.members:
                self._groups.setdefault(member, []).append(node)
        return node

    def _try_first(self, owner: int, target: int) -> None:
        """Add edges so that *target* is tried, then *owner* runs, then *target* runs."""
        trial = self._count + target
        if target not in self._trials:
            self._trials.add(target)
            for source, weight in self._needs.get(target, ()):
                self._wait(source, trial, weight)
        self._wait(trial, owner, _WEIGHTS["prereq"])
        self._wait(owner, target, _WEIGHTS["require"])
        if owner in self._trials:
            self._wait(trial, self._count + owner, _WEIGHTS["prereq"])

    def sort(self) -> Optional[List[Step]]:
        """Return states and trials in run order, or None if there is a loop."""
        missing = self._missing
        nodes = [*range(self._count), *(self._count + target for target in self._trials)]
        ready = [self._rank(node) for node in nodes if not missing[node]]
        heapify(ready)
        result: List[Step] = []
        while ready:
            node = heappop(ready)[-1]
            result.append(Step(node % self._count, node >= self._count))
            freed = [node]
            while freed:
                node = freed.pop()
                waiting = [wait[1] for wait in self._waits[node]]
                if node < self._count:
                    waiting += self._groups.get(node, ())
                for one in waiting:
                    missing[one] -= 1
                    if missing[one]:
                        continue
                    if one < 2 * self._count:
                        heappush(ready, self._rank(one))
                    else:
                        freed.append(one)
        return result if len(result) == len(nodes) else None

    def _rank(self, node: int) -> _Rank:
        position = node % self._count
        low = self._plan.lows[position]
        own = self._orders[position] = low.order
        lowest = min(own, self._lowest_waiting(node))
        return lowest, own, f"{low.state}{low.name}{low.fun}", low.key, node

    def _lowest_waiting(self, node: int) -> Order:
        """Return the lowest order of the nodes that wait for *node*."""
        waits = self._waits[node]
        groups = tuple(self._groups.get(node, ()))
        if not groups:
            return self._lowest(waits) if waits else _NEVER
        alone = not waits and not self._trials
        if alone and groups in self._lowest_of:
            return self._lowest_of[groups]
        lowest = self._lowest(
            sorted((*waits, *(wait for group in groups for wait in self._waits[group])))
        )
        if alone:
            # All members of the same groups have the same result, which is cached.
            self._lowest_of[groups] = lowest
        return lowest

    def _lowest(self, waits: Iterable[_Wait]) -> Order:
        by_node: Dict[int, List[int]] = {}
        for _, node, weight in waits:
            by_node.setdefault(node, []).append(weight)
        lowest: Order = _NEVER
        heaviest = -1
        for node, weights in by_node.items():
            for weight in weights:
                if weight >= heaviest:
                    heaviest = weight
                    lowest = min(lowest, self._orders[node % self._count])
        return lowest

    def one_loop(self) -> List[int]:
        """Return the states of one loop, the first one again at the end."""
        needs: Dict[int, List[int]] = {}
        for source, waits in enumerate(self._waits):
            for _, node, _ in waits:
                needs.setdefault(node, []).append(source)
        for member, groups in self._groups.items():
            for node in groups:
                needs.setdefault(node, []).append(member)
        alive = {node for node in needs if self._missing[node] > 0}
        node = min(alive)
        path: List[int] = []
        place: Dict[int, int] = {}
        while node not in place:
            place[node] = len(path)
            path.append(node)
            node = next(need for need in needs[node] if need in alive)
        loop = [one % self._count for one in path[place[node] :] if one < 2 * self._count]
        return [*loop, loop[0]]
