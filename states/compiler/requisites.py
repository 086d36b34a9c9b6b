"""Requisites of low states, resolved: who needs whom, and in which order all can run.

A target that means many states (`sls: x`, a glob, an id with several modules) is one Group, shared
by all who name it and a node of its own in the graph: a thousand states that require an SLS file
of a thousand states make two thousand edges, not a million.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fnmatch import translate
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from catena.states.compiler.faults import at, can_not_extend, meant
from catena.states.compiler.model import FORWARD, REVERSE, Low

_GLOB = frozenset("*?[")
#: Of the faults of a run, so many get a "did you mean".
_HINTS = 5


@dataclass(frozen=True)
class Group:
    """What one requisite means: positions in the list of low states."""

    number: int
    members: Tuple[int, ...]


@dataclass
class Links:
    """The resolved requisites of one low state, by kind."""

    needs: Dict[str, List[Group]] = field(default_factory=dict)
    #: Positions of states that run before this one if it would change.
    prereq_owners: List[int] = field(default_factory=list)


class Index:
    """Finds low states by what requisites call them."""

    def __init__(self, lows: Sequence[Low]) -> None:
        self.lows = lows
        #: By module ("": any), then by id or name.
        self._exact: Dict[str, Dict[str, List[int]]] = {}
        self._sls: Optional[Dict[str, List[int]]] = None
        self._groups: Dict[Tuple[str, str], Optional[Group]] = {}
        self._single: Dict[int, Group] = {}
        self.groups: List[Group] = []
        for position, low in enumerate(lows):
            for module in {low.state, ""}:
                names = self._exact.setdefault(module, {})
                for name in {low.id, low.name}:
                    names.setdefault(name, []).append(position)

    def find(self, module: str, target: str) -> Optional[Group]:
        """Return what `module: target` means ("" as module: any), or None."""
        if module == "id":
            module = ""
        key = (module, target)
        if key not in self._groups:
            members = self._members(module, target)
            self._groups[key] = self._group(tuple(members)) if members else None
        return self._groups[key]

    def single(self, position: int) -> Group:
        """Return the group of one state."""
        if position not in self._single:
            self._single[position] = self._group((position,))
        return self._single[position]

    def without(self, group: Group, position: int) -> Group:
        """Return *group* without one of its states."""
        return self._group(tuple(one for one in group.members if one != position))

    def names(self, module: str) -> Iterator[str]:
        """Yield the ids that could have been meant."""
        if module == "sls":
            yield from dict.fromkeys(str(low.sls) for low in self.lows)
        yield from (low.id for low in self.lows if module in ("", low.state))

    def _group(self, members: Tuple[int, ...]) -> Group:
        group = Group(len(self.groups), members)
        self.groups.append(group)
        return group

    def _members(self, module: str, target: str) -> List[int]:
        if module == "sls":
            return self._of_sls(target)
        return _matching(self._exact.get(module, {}), target)

    def _of_sls(self, target: str) -> List[int]:
        if self._sls is None:
            self._sls = {}
            for position, low in enumerate(self.lows):
                for name in dict.fromkeys((low.sls, *low.included_from)):
                    self._sls.setdefault(str(name), []).append(position)
        return _matching(self._sls, target)


def _matching(names: Mapping[str, List[int]], target: str) -> List[int]:
    """Return what stands under *target*, or under all names that it matches as a glob."""
    found = names.get(target)
    if found or not _GLOB & set(target):
        return found or []
    match = re.compile(translate(target)).match
    return sorted({one for name, members in names.items() if match(name) for one in members})


@dataclass
class Plan:
    """A run's low states with their requisites resolved; positions are those of `lows`."""

    lows: Sequence[Low]
    links: List[Links]
    index: Index
    errors: List[str]


_NO_LINKS = Links()


def pairs(low: Low, kind: str) -> Iterator[Tuple[str, str]]:
    """Yield one kind of *low*'s requisites as (module, id); "" for a bare id."""
    for entry in low.keywords.get(kind) or ():
        if isinstance(entry, Mapping):
            for module, target in entry.items():
                yield str(module), str(target)
        else:
            yield "", str(entry)


def link(lows: Sequence[Low], gone: Sequence[Low] = ()) -> Plan:
    """Return *lows* with their requisites resolved.

    Args:
        lows: the low states of a run.
        gone: those that `exclude` took out: a `*_in` towards them is no fault.
    """
    index = Index(lows)
    links = [Links() if low.keywords else _NO_LINKS for low in lows]
    plan = Plan(lows, links, index, [])
    vanished: List[Index] = []
    for position, low in enumerate(lows):
        for kind in low.keywords:
            # Who listens is looked for at the end: a target that is not there is then a row.
            if kind in REVERSE and kind != "listen_in":
                for module, target in pairs(low, kind):
                    group = index.find(module, target)
                    if group is not None:
                        _reverse(plan, position, REVERSE[kind], group)
                        continue
                    vanished = vanished or [Index(gone)]
                    if vanished[0].find(module, target) is None:
                        plan.errors.append(
                            can_not_extend(target, low.env, low.sls, low.line, index.names(module))
                        )
    for position, low in enumerate(lows):
        if low.keywords:
            _forward(plan, position)
    return plan


def _own(plan: Plan, position: int) -> Links:
    if plan.links[position] is _NO_LINKS:
        plan.links[position] = Links()
    return plan.links[position]


def _reverse(plan: Plan, position: int, kind: str, group: Group) -> None:
    low = plan.lows[position]
    for member in group.members:
        if member == position and len(group.members) > 1:
            continue
        if kind != "use":
            _need(plan, member, kind, plan.index.single(position))


def _need(plan: Plan, position: int, kind: str, group: Group) -> None:
    _own(plan, position).needs.setdefault(kind, []).append(group)
    if kind == "prereq":
        for member in group.members:
            _own(plan, member).prereq_owners.append(position)


def _forward(plan: Plan, position: int) -> None:
    low = plan.lows[position]
    for kind in low.keywords:
        if kind in FORWARD:
            for module, target in pairs(low, kind):
                group = plan.index.find(module, target)
                if group is None:
                    _missing(plan, low, kind, (module, target))
                    continue
                if module != "sls" and len(group.members) > 1 and position in group.members:
                    # `'*'` means the others.
                    group = plan.index.without(group, position)
                _need(plan, position, kind, group)


def _missing(plan: Plan, low: Low, kind: str, wanted: Tuple[str, str]) -> None:
    module, target = wanted
    hint = meant(target, plan.index.names(module)) if len(plan.errors) < _HINTS else ""
    shown = f"{module}: {target}" if module else target
    plan.errors.append(
        f"Referenced state does not exist for requisite [{kind}: ({shown})] in state "
        f"[{low.id}] in SLS [{low.sls}]{hint}{at(low.line)}"
    )


def apply_use(lows: Sequence[Low]) -> List[Low]:
    """Return *lows* with the arguments that `use` and `use_in` copy, where a state has none."""
    if not any("use" in low.keywords or "use_in" in low.keywords for low in lows):
        return list(lows)
    index = Index(lows)
    result = list(lows)
    for low in lows:
        for module, target in pairs(low, "use_in"):
            group = index.find(module, target)
            for member in group.members if group else ():
                result[member] = _using(result[member], low)
    for position, low in enumerate(lows):
        for module, target in pairs(low, "use"):
            group = index.find(module, target)
            for member in group.members if group else ():
                if member != position:
                    result[position] = _using(result[position], lows[member])
    return result


def _using(low: Low, source: Low) -> Low:
    args: Dict[str, Any] = {**source.args, **low.args}
    copied = {
        key: value
        for key, value in source.keywords.items()
        if key not in FORWARD and key not in REVERSE and key not in ("use", "listen")
    }
    return replace(low, args=args, keywords={**copied, **low.keywords})
