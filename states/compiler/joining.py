"""Find the groups of `aggregate`, and extend requisites to whole groups.

A state joins the first group of its module that it does not need, directly or indirectly; a state
that needs one member needs the whole group. Checking everything that each state needs would take
quadratic time. Two facts are recorded per state instead: how many of its module's first groups it
can't join, and the newest group that it needs. Groups before the first limit are excluded and
groups newer than the second are allowed; only the rare groups in between need a search.
"""

from __future__ import annotations

from typing import (
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from catena.core.frozen import dataclass
from catena.states.compiler.requisites import Plan, RequisiteGroup

GROUP_LIMIT = 500
#: Number of a module, number of a group among its groups.
_Place = Tuple[int, int]


@dataclass(frozen=True)
class _Reach:
    """Summary of everything that a state or a requisite's group needs."""

    #: The newest group that is needed; -1: none.
    youngest: int
    #: By module: how many of its first groups are needed or full.
    shut: Tuple[int, ...]
    #: The groups of the state itself.
    own: FrozenSet[_Place] = frozenset()


class Grouping:
    """Assigns the states of a run to groups, in run order.

    Args:
        plan: of the run.
        able: positions of the states that may join, in run order.
    """

    def __init__(self, plan: Plan, able: Sequence[int]) -> None:
        self._plan = plan
        self._able = able
        modules = dict.fromkeys(plan.lows[position].state for position in able)
        self._modules = {name: number for number, name in enumerate(modules)}
        self._groups: List[List[List[int]]] = [[] for _ in modules]
        #: Creation number of each group, by module; all modules share one counter.
        self._ages: List[List[int]] = [[] for _ in modules]
        self._made = 0
        self._places: Dict[int, _Place] = {}
        #: Summaries by position, for the states processed so far, and by number of a requisite
        #: group.
        self._reaches: List[_Reach] = []
        self._needed_reaches: Dict[int, _Reach] = {}
        #: True while no group needs a newer one; otherwise the recorded summaries become outdated.
        self._in_order = True

    def groups(self) -> Dict[int, List[int]]:
        """Return the members, in order, of the group of each state that shares one."""
        able = set(self._able)
        for position in range(self._able[-1] + 1 if self._able else 0):
            if self._in_order:
                self._look_at(position)
            if position in able:
                self._join(position)
        groups = (group for some in self._groups for group in some if len(group) > 1)
        return {position: group for group in groups for position in group}

    def _join(self, position: int) -> None:
        module = self._modules[self._plan.lows[position].state]
        groups = self._groups[module]
        index = self._first_free(position, module)
        if index == len(groups):
            groups.append([])
            self._ages[module].append(self._made)
            self._made += 1
        groups[index].append(position)
        self._places[position] = module, index

    def _first_free(self, position: int, module: int) -> int:
        """Return the number of the group to join; the number of groups means a new one."""
        reach = self._reaches[position] if self._in_order else None
        groups, ages = self._groups[module], self._ages[module]
        needed: Optional[Set[int]] = None
        for index in range(reach.shut[module] if reach else 0, len(groups)):
            if len(groups[index]) >= GROUP_LIMIT:
                continue
            if reach and ages[index] > reach.youngest:
                return index
            needed = self._needed(position) if needed is None else needed
            if needed.isdisjoint(groups[index]):
                self._in_order = False
                return index
        return len(groups)

    def _look_at(self, position: int) -> None:
        """Record the summary of everything that a state needs."""
        links = self._plan.links[position]
        needs = [self._needing(group) for group in _asked(self._plan, position)]
        needs += [self._being(owner) for owner in links.prereq_owners]
        if None in needs:
            # A needed state comes later in the run and has no summary yet.
            self._in_order = False
            return
        self._reaches.append(self._together(each for each in needs if each))

    def _needing(self, group: RequisiteGroup) -> Optional[_Reach]:
        """Return the summary of a requisite's group and of everything that it needs."""
        found = self._needed_reaches.get(group.number)
        if found is None:
            every = [self._being(member) for member in group.members]
            if None in every:
                return None
            known = [each for each in every if each]
            own = frozenset(place for each in known for place in each.own)
            found = self._together(known)
            found = self._needed_reaches[group.number] = _Reach(found.youngest, found.shut, own)
        return found

    def _being(self, position: int) -> Optional[_Reach]:
        """Return the summary of a state, its group and everything that they need."""
        if position >= len(self._reaches):
            return None
        reach = self._reaches[position]
        place = self._places.get(position)
        if place is None:
            return reach
        age = self._ages[place[0]][place[1]]
        return _Reach(max(age, reach.youngest), reach.shut, frozenset((place,)))

    def _together(self, reaches: Iterable[_Reach]) -> _Reach:
        every = list(reaches)
        own = {place for reach in every for place in reach.own}
        shut = []
        for module, groups in enumerate(self._groups):
            index = max((reach.shut[module] for reach in every), default=0)
            while index < len(groups) and (
                (module, index) in own or len(groups[index]) >= GROUP_LIMIT
            ):
                index += 1
            shut.append(index)
        return _Reach(max((reach.youngest for reach in every), default=-1), tuple(shut))

    def _needed(self, position: int) -> Set[int]:
        """Return everything that a state needs, directly or indirectly, with whole groups."""
        needed: Set[int] = set()
        met: Set[int] = set()
        waiting = [position]
        while waiting:
            for one in directly(self._plan, waiting.pop(), met):
                for mate in self._mates(one):
                    if mate not in needed:
                        needed.add(mate)
                        waiting.append(mate)
        return needed

    def _mates(self, position: int) -> Sequence[int]:
        place = self._places.get(position)
        return (position,) if place is None else self._groups[place[0]][place[1]]


def _asked(plan: Plan, position: int) -> Iterator[RequisiteGroup]:
    """Yield the requisite groups of a state."""
    for kind, groups in plan.links[position].needs.items():
        if kind != "prereq":
            yield from groups


def directly(plan: Plan, position: int, met: Set[int]) -> Iterator[int]:
    """Yield what a state needs directly; skip requisite groups in *met*."""
    for group in _asked(plan, position):
        if group.number not in met:
            met.add(group.number)
            yield from group.members
    yield from plan.links[position].prereq_owners


def widen(plan: Plan, found: Mapping[int, List[int]]) -> None:
    """Make every state that needs one member of a group need the whole group."""
    widened: Dict[int, RequisiteGroup] = {}
    #: Shared requisite groups of states that need a single member, by the group's first member.
    wholes: Dict[int, RequisiteGroup] = {}
    for links in plan.links:
        for kind, groups in links.needs.items():
            for group in groups if kind != "prereq" else ():
                if group.number not in widened:
                    widened[group.number] = _wider(plan, group, found, wholes)
            if kind != "prereq":
                links.needs[kind] = [widened[group.number] for group in groups]


def _wider(
    plan: Plan,
    group: RequisiteGroup,
    found: Mapping[int, List[int]],
    wholes: Dict[int, RequisiteGroup],
) -> RequisiteGroup:
    if len(group.members) == 1:
        mates = found.get(group.members[0])
        if mates is None:
            return group
        if mates[0] not in wholes:
            wholes[mates[0]] = plan.index.group(tuple(mates))
        return wholes[mates[0]]
    members: Tuple[int, ...] = tuple(
        dict.fromkeys(mate for one in group.members for mate in found.get(one, (one,)))
    )
    return group if members == group.members else plan.index.group(members)
