"""The order of a run: requisites first, and otherwise as written.

A state that something earlier needs moves up to just before it: among the states that may run
next, the one goes first that the lowest order (its own, or of any state that needs it, however far
away) waits for. Time and memory grow with states plus requisites.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Dict, List, Optional, Sequence, Set

from catena.states.compiler.model import Order
from catena.states.compiler.requisites import Plan


def ordered(plan: Plan) -> Optional[List[int]]:
    """Return the positions of *plan*'s states as they run; None when requisites form a loop.

    The fault is then in `plan.errors`, with the states of one loop.
    """
    graph = _Graph(plan)
    result = graph.sort()
    if result is None:
        plan.errors.append(_loop(plan, graph.one_loop()))
    return result


def _loop(plan: Plan, positions: Sequence[int]) -> str:
    steps = []
    for position in positions:
        low = plan.lows[position]
        place = f" ({low.line})" if low.line.file else ""
        steps.append(f"{low.state}: {low.id}{place}")
    return f"Recursive requisites were found: {' needs '.join(steps)}"


class _Graph:
    """Nodes are states, then one per shared group."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._count = len(plan.lows)
        total = self._count + len(plan.index.groups)
        self._needs: List[List[int]] = [[] for _ in range(total)]
        self._used: Set[int] = set()
        for position in range(self._count):
            self._add(position)
        #: Nodes that wait for each node.
        self._waiting: List[List[int]] = [[] for _ in range(total)]
        for node, needs in enumerate(self._needs):
            for need in needs:
                self._waiting[need].append(node)

    def _add(self, position: int) -> None:
        links = self._plan.links[position]
        if links.needs or links.prereq_owners:
            mine = self._needs[position]
            for kind, groups in links.needs.items():
                if kind != "prereq":
                    mine += [self._group(group.number) for group in groups]
            mine += links.prereq_owners
            if "prereq" in links.needs:
                mine += self._needs_of_trials(position)

    def _group(self, number: int) -> int:
        """Return the node of a group, or its only state."""
        members = self._plan.index.groups[number].members
        if len(members) == 1:
            return members[0]
        node = self._count + number
        if number not in self._used:
            self._used.add(number)
            self._needs[node] = list(members)
        return node

    def _needs_of_trials(self, position: int) -> List[int]:
        """Return what must have run before the targets of a prereq can be tried in test mode."""
        found: Dict[int, None] = {}
        seen: Set[int] = set()
        todo = [position]
        while todo:
            links = self._plan.links[todo.pop()]
            for group in links.needs.get("prereq", ()):
                for member in group.members:
                    if member in seen:
                        continue
                    seen.add(member)
                    todo.append(member)
                    for kind, groups in self._plan.links[member].needs.items():
                        if kind != "prereq":
                            found.update((self._group(each.number), None) for each in groups)
        return list(found)

    def sort(self) -> Optional[List[int]]:
        """Return the states in order, or None when there is a loop."""
        urgency = self._urgency()
        if urgency is None:
            return None
        missing = [len(needs) for needs in self._needs]
        ready = [(urgency[node], node) for node in range(self._count) if not missing[node]]
        heapify(ready)
        result: List[int] = []
        while ready:
            node = heappop(ready)[1]
            result.append(node)
            freed = [node]
            while freed:
                for waiting in self._waiting[freed.pop()]:
                    missing[waiting] -= 1
                    if missing[waiting]:
                        continue
                    if waiting < self._count:
                        heappush(ready, (urgency[waiting], waiting))
                    else:
                        freed.append(waiting)
        return result

    def _urgency(self) -> Optional[List[Order]]:
        """Return for each node the lowest order of itself and of all that wait for it."""
        top = float("inf")
        lows = self._plan.lows
        urgency: List[Order] = [low.order for low in lows]
        urgency += [top] * (len(self._needs) - self._count)
        open_waiters = [len(waiting) for waiting in self._waiting]
        todo = [node for node, count in enumerate(open_waiters) if not count]
        done = 0
        while todo:
            node = todo.pop()
            done += 1
            mine = urgency[node]
            for need in self._needs[node]:
                if mine < urgency[need]:
                    urgency[need] = mine
                open_waiters[need] -= 1
                if not open_waiters[need]:
                    todo.append(need)
        return urgency if done == len(self._needs) else None

    def one_loop(self) -> List[int]:
        """Return the states of one loop, the first one again at the end."""
        alive = self._looping()
        node = min(node for node in alive)
        path: List[int] = []
        place: Dict[int, int] = {}
        while node not in place:
            place[node] = len(path)
            path.append(node)
            node = next(need for need in self._needs[node] if need in alive)
        loop = [one for one in path[place[node] :] if one < self._count]
        return [*loop, loop[0]]

    def _looping(self) -> Set[int]:
        """Return the nodes that can never run."""
        missing = [len(needs) for needs in self._needs]
        todo = [node for node, count in enumerate(missing) if not count]
        while todo:
            for waiting in self._waiting[todo.pop()]:
                missing[waiting] -= 1
                if not missing[waiting]:
                    todo.append(waiting)
        return {node for node, count in enumerate(missing) if count}
