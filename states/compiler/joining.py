"""Who may join whom: the groups of `aggregate`, and the requisites that follow from them.

Each state joins the first group of its module of which it needs nobody, directly or not; who needs
one of a group needs them all. To look at all that a state needs, for each state, would take time
that grows with their square. So of what a state needs two things are kept: how many of its
module's first groups it can't join, and the youngest group in it. Groups before the one are out
of the question, groups younger than the other are free, and seldom is there one in between.
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
from catena.states.compiler.requisites import Group, Plan

GROUP_LIMIT = 500
#: Number of a module, number of a group among its groups.
_Place = Tuple[int, int]


@dataclass(frozen=True)
class _Reach:
    """What is known of all that something needs."""

    #: The youngest group in it; -1: there is none.
    youngest: int
    #: By module, so many of its first groups are in it, or full.
    shut: Tuple[int, ...]
    #: Groups that it is, rather than needs.
    own: FrozenSet[_Place] = frozenset()


class Grouping:
    """Puts the states of a run into groups, in the order of the run.

    Args:
        plan: of the run.
        able: positions of the states that may join, in order.
    """

    def __init__(self, plan: Plan, able: Sequence[int]) -> None:
        self._plan = plan
        self._able = able
        modules = dict.fromkeys(plan.lows[position].state for position in able)
        self._modules = {name: number for number, name in enumerate(modules)}
        self._groups: List[List[List[int]]] = [[] for _ in modules]
        #: When each group was made: all of them are counted together.
        self._ages: List[List[int]] = [[] for _ in modules]
        self._made = 0
        self._places: Dict[int, _Place] = {}
        #: By position, as far as the run has been looked at, and by number of a requisite's group.
        self._reaches: List[_Reach] = []
        self._needed_reaches: Dict[int, _Reach] = {}
        #: No group needs one that was made after it; else what is known of needs grows old.
        self._in_order = True

    def groups(self) -> Dict[int, List[int]]:
        """Return the group of each state that is in one with others: positions in order."""
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
        """Return the number of the group to join; one more than there are: a new one."""
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
        """Keep what is known of all that a state needs."""
        links = self._plan.links[position]
        needs = [self._needing(group) for group in _asked(self._plan, position)]
        needs += [self._being(owner) for owner in links.prereq_owners]
        if None in needs:
            # One that comes later in the run: nothing is known of it.
            self._in_order = False
            return
        self._reaches.append(self._together(each for each in needs if each))

    def _needing(self, group: Group) -> Optional[_Reach]:
        """Return what is known of a requisite's group and of all that it needs."""
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
        """Return what is known of a state, its group and all that they need."""
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
        """Return all that a state needs, directly or not, with the groups of each."""
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


def _asked(plan: Plan, position: int) -> Iterator[Group]:
    """Yield the groups that a state's requisites name."""
    for kind, groups in plan.links[position].needs.items():
        if kind != "prereq":
            yield from groups


def directly(plan: Plan, position: int, met: Set[int]) -> Iterator[int]:
    """Yield what a state needs; requisites' groups that were *met* before are left out."""
    for group in _asked(plan, position):
        if group.number not in met:
            met.add(group.number)
            yield from group.members
    yield from plan.links[position].prereq_owners


def widen(plan: Plan, found: Mapping[int, List[int]]) -> None:
    """Let who needs one of a group need all of it."""
    widened: Dict[int, Group] = {}
    #: What needs one state alone shares one requisite's group, by the first of the joined.
    wholes: Dict[int, Group] = {}
    for links in plan.links:
        for kind, groups in links.needs.items():
            for group in groups if kind != "prereq" else ():
                if group.number not in widened:
                    widened[group.number] = _wider(plan, group, found, wholes)
            if kind != "prereq":
                links.needs[kind] = [widened[group.number] for group in groups]


def _wider(
    plan: Plan, group: Group, found: Mapping[int, List[int]], wholes: Dict[int, Group]
) -> Group:
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
