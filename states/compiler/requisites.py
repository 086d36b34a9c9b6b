"""Resolve the requisites of low states to positions.

A target that means many states (`sls: x`, a glob, an id with several modules) becomes one
`RequisiteGroup`, a node of its own in the graph that all states with this target share. A thousand
states that require an SLS file of a thousand states give two thousand edges, not a million.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import translate
from itertools import count
from typing import Any, Container, Dict, FrozenSet, Iterator, List, Optional, Sequence, Set, Tuple

from catena.core.frozen import dataclass, field, replace
from catena.core.logs import logger
from catena.states.compiler.faults import at, can_not_extend, meant
from catena.states.compiler.model import FORWARD, REQUISITES, REVERSE, Low

log = logger(__name__)

_GLOB = frozenset("*?[")
#: Maximum number of errors of a run that get a "did you mean".
_HINTS = 5


@dataclass(frozen=True)
class RequisiteGroup:
    """The states that one requisite means, as positions in the list of low states."""

    number: int
    members: Tuple[int, ...]


@dataclass
class Links:
    """The resolved requisites of one low state, by kind."""

    needs: Dict[str, List[RequisiteGroup]] = field(default_factory=dict)
    #: Positions of states with a prereq on this one; they run first if it would change.
    prereq_owners: List[int] = field(default_factory=list)


class Index:
    """Finds low states by module and id or name."""

    def __init__(self, lows: Sequence[Low]) -> None:
        self.lows = lows
        #: By module ("": any), then by id or name; built on first use.
        self._exact: Optional[Dict[str, Dict[str, List[int]]]] = None
        self._sls: Optional[Dict[str, List[int]]] = None
        self._groups: Dict[Tuple[str, str], Optional[RequisiteGroup]] = {}
        self.groups: List[RequisiteGroup] = []

    def find(self, module: str, target: str) -> Optional[RequisiteGroup]:
        """Return the group of `module: target` ("" as module: any), or None."""
        if module == "id":
            module = ""
        key = (module, target)
        if key not in self._groups:
            members = self._members(module, target)
            self._groups[key] = self.group(tuple(members)) if members else None
        return self._groups[key]

    def without(self, group: RequisiteGroup, position: int) -> RequisiteGroup:
        """Return *group* without one of its states."""
        return self.group(tuple(one for one in group.members if one != position))

    def names(self, module: str) -> Iterator[str]:
        """Yield the ids that a misspelled target may mean."""
        if module == "sls":
            yield from dict.fromkeys(str(low.sls) for low in self.lows)
        yield from (low.id for low in self.lows if module in ("", low.state))

    def group(self, members: Tuple[int, ...]) -> RequisiteGroup:
        """Return a new group of some positions."""
        group = RequisiteGroup(len(self.groups), members)
        self.groups.append(group)
        return group

    def _members(self, module: str, target: str) -> List[int]:
        if module == "sls":
            return self._of_sls(target)
        if self._exact is None:
            self._exact = self._by_name()
        return _matching(self._exact.get(module, {}), target)

    def _by_name(self) -> Dict[str, Dict[str, List[int]]]:
        anything: Dict[str, List[int]] = {}
        found = {"": anything}
        for position, low in enumerate(self.lows):
            modules = (anything, found.setdefault(low.state, {})) if low.state else (anything,)
            for name in (low.id,) if low.id == low.name else (low.id, low.name):
                for names in modules:
                    names.setdefault(name, []).append(position)
        return found

    def _of_sls(self, target: str) -> List[int]:
        if self._sls is None:
            self._sls = {}
            for position, low in enumerate(self.lows):
                for name in dict.fromkeys((low.sls, *low.included_from)):
                    self._sls.setdefault(str(name), []).append(position)
        return _matching(self._sls, target)


def _matching(names: Mapping[str, List[int]], target: str) -> List[int]:
    """Return the positions of *target*, or of all names that it matches as a glob."""
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
#: Reverse requisites that become requisites of other states before the run. `listen_in` takes
#: effect at the end of the run, and `use_in` is already applied.
_PUT = frozenset(REVERSE) - {"listen_in", "use_in"}
_Pair = Tuple[str, str]


class _Put:
    """The states that others add to a state as one kind of requisite, in the order found."""

    def __init__(self, pairs: List[_Pair]) -> None:
        self.pairs = pairs
        #: Several states share this list.
        self.shared = False
        self._group: Optional[RequisiteGroup] = None
        self._members: FrozenSet[int] = frozenset()

    def group(self, index: Index, position: int) -> Optional[RequisiteGroup]:
        """Return the whole list as one group, if that has the same meaning as single requisites.

        Otherwise, a thousand states with `require_in` to an SLS file of a thousand would need a
        million groups. Returns None if only one state has the list, if a member does not exist, or
        if the state at *position* is a member.
        """
        if self._group is None and self.shared and len(self.pairs) > 1:
            found = [index.find(*pair) for pair in self.pairs]
            self.shared = None not in found
            if self.shared:
                members = tuple(one for group in found if group for one in group.members)
                self._group = index.group(members)
                self._members = frozenset(members)
        return self._group if position not in self._members else None


#: By kind of requisite.
_Puts = Dict[str, _Put]
#: Target of one requisite_in: the kind that it becomes, module, id.
_Named = Tuple[str, str, str]


def pairs(low: Low, kind: str) -> Iterator[Tuple[str, str]]:
    """Yield one kind of *low*'s requisites as (module, id); "" for a bare id."""
    for entry in low.keywords.get(kind) or ():
        if isinstance(entry, Mapping):
            for module, target in entry.items():
                yield str(module), str(target)
        else:
            yield "", str(entry)


def link(
    lows: Sequence[Low],
    gone: Sequence[Low] = (),
    unheard: Container[str] = (),
    linked_before: bool = False,
) -> Plan:
    """Resolve the requisites of *lows*.

    Args:
        lows: the low states of a run.
        gone: states that `exclude` removed. A `*_in` to one of them is allowed; one of theirs is
            an error.
        unheard: SLS files that `exclude` names. As in Salt, their `*_in` must name an existing
            state but have no effect.
        linked_before: the requisites were resolved before without an error, with states that
            were removed since.
    """
    index = Index(lows)
    links = [Links() if low.keywords else _NO_LINKS for low in lows]
    plan = Plan(lows, links, index, [])
    puts = _puts(plan, gone, unheard)
    if linked_before:
        plan.errors.clear()
    if plan.errors:
        plan.links = [_NO_LINKS for _ in lows]
        return plan
    for position, low in enumerate(lows):
        if low.keywords or position in puts:
            _need_all(plan, position, puts.get(position, {}))
    return plan


def _puts(plan: Plan, gone: Sequence[Low], unheard: Container[str]) -> Dict[int, _Puts]:
    """Return the requisites that every `*_in` adds to its targets."""
    every = [*plan.lows, *gone]
    if not any(key in _PUT for low in every for key in low.keywords):
        return {}
    targets = ReverseRequisites(every)
    unknown: Set[str] = set()
    seen: Set[_Pair] = set()
    #: By target of a requisite_in: the states that name it, numbered in the order found.
    sources: Dict[_Named, List[Tuple[int, _Pair]]] = {}
    turn = count()
    named: Dict[_Named, Sequence[int]] = {}
    for low in every:
        own = (low.state, low.id)
        if own in seen:
            continue
        seen.add(own)
        for kind in low.keywords:
            for wanted in pairs(low, kind) if kind in _PUT else ():
                members = targets.find(*wanted)
                if members is None and wanted[1] not in unknown:
                    unknown.add(wanted[1])
                    plan.errors.append(_unknown(plan, low, kind, wanted))
                if low.sls in unheard:
                    continue
                key = (REVERSE[kind], *wanted)
                named[key] = members or ()
                sources.setdefault(key, []).append((next(turn), own))
    return _put_together(sources, named, len(plan.lows))


def _put_together(
    sources: Mapping[_Named, Sequence[Tuple[int, _Pair]]],
    named: Mapping[_Named, Sequence[int]],
    total: int,
) -> Dict[int, _Puts]:
    """Return the requisites added to each of the *total* states, in the order found."""
    into: Dict[Tuple[int, str], List[_Named]] = {}
    for key, members in named.items():
        for member in members:
            if member < total:
                into.setdefault((member, key[0]), []).append(key)
    made: Dict[Tuple[_Named, ...], _Put] = {}
    puts: Dict[int, _Puts] = {}
    for (member, kind), keys in into.items():
        put = made.get(tuple(keys))
        if put is None:
            every = sorted(one for key in keys for one in sources[key])
            put = made[tuple(keys)] = _Put([pair for _, pair in every])
        else:
            put.shared = True
        puts.setdefault(member, {})[kind] = put
    return puts


def _unknown(plan: Plan, low: Low, kind: str, wanted: Tuple[str, str]) -> str:
    module, target = wanted
    place = low.line_of(kind, wanted)
    return can_not_extend(target, low.env, low.sls, place, plan.index.names(module))


class ReverseRequisites:
    """Finds the targets of `*_in`, which can name fewer states than other requisites (as in Salt).

    A target is an id, or a `name` (not one of `names`) that only one state has. Globs are not
    allowed. An SLS file does not include its `include`s. A bare id means its first module in
    declaration order, a bare name the first id.
    """

    def __init__(self, lows: Sequence[Low]) -> None:
        self._by_id: Dict[Tuple[str, str], List[int]] = {}
        self._first: Dict[str, Low] = {}
        self._ids: Dict[Tuple[str, str], Set[str]] = {}
        self._by_sls: Dict[str, List[int]] = {}
        #: By name: the first state with it.
        self._named: Dict[str, Low] = {}
        for position, low in enumerate(lows):
            self._by_id.setdefault((low.state, low.id), []).append(position)
            _keep_first(self._first, low.id, low)
            if not _one_of_names(low):
                self._ids.setdefault((low.state, low.name), set()).add(low.id)
                _keep_first(self._named, low.name, low)
            self._by_sls.setdefault(str(low.sls), []).append(position)

    def find(self, module: str, target: str) -> Optional[Sequence[int]]:
        """Return the positions of a target; None if that is an error."""
        if module == "sls":
            return self._by_sls.get(target, ())
        if module in ("", "id"):
            return self._bare(target)
        if (module, target) in self._by_id:
            return self._by_id[module, target]
        ids = self._ids.get((module, target), set())
        return self._by_id[module, next(iter(ids))] if len(ids) == 1 else None

    def _bare(self, target: str) -> Sequence[int]:
        if target in self._first:
            return self._by_id[self._first[target].state, target]
        named = self._named.get(target)
        if named is not None:
            return self._by_id[named.state, named.id]
        log.warning("nothing is called %r, which a requisite_in names without a module", target)
        return ()


def _keep_first(found: Dict[str, Low], key: str, low: Low) -> None:
    if low.declared < found.setdefault(key, low).declared:
        found[key] = low


def _one_of_names(low: Low) -> bool:
    # A member of a `names` list has a fraction in its order.
    return low.written_order is not None and (low.order - low.written_order) % 1 != 0


def _own(plan: Plan, position: int) -> Links:
    if plan.links[position] is _NO_LINKS:
        plan.links[position] = Links()
    return plan.links[position]


def _need(plan: Plan, position: int, kind: str, group: RequisiteGroup) -> None:
    _own(plan, position).needs.setdefault(kind, []).append(group)
    if kind == "prereq":
        for member in group.members:
            _own(plan, member).prereq_owners.append(position)


def _need_all(plan: Plan, position: int, puts: _Puts) -> None:
    low = plan.lows[position]
    for kind in FORWARD:
        wanted = list(pairs(low, kind))
        put = puts.get(kind)
        # The targets of a prereq are tried one by one.
        together = put.group(plan.index, position) if put and kind != "prereq" else None
        if put and not together:
            wanted += put.pairs
        for module, target in wanted:
            group = plan.index.find(module, target)
            if group is None:
                # As in Salt, only the first error of a state is reported.
                _missing(plan, low, kind, (module, target))
                return
            if module != "sls" and len(group.members) > 1 and position in group.members:
                # `'*'` does not include the state itself.
                group = plan.index.without(group, position)
            _need(plan, position, kind, group)
        if together:
            _need(plan, position, kind, together)


def _missing(plan: Plan, low: Low, kind: str, wanted: Tuple[str, str]) -> None:
    module, target = wanted
    hint = _hint(plan.index, module, target) if len(plan.errors) < _HINTS else ""
    shown = f"{module}: {target}" if module else target
    plan.errors.append(
        f"Referenced state does not exist for requisite [{kind}: ({shown})] in state "
        f"[{low.id}] in SLS [{low.sls}]{hint}{at(low.line_of(kind, wanted))}"
    )


def _hint(index: Index, module: str, target: str) -> str:
    """Return a hint: the same id with another module, or a similar name."""
    other = index.find("", target) if module not in ("", "sls") else None
    if other is not None:
        return f"; did you mean '{index.lows[other.members[0]].state}: {target}'?"
    near = meant(target, index.names(module))
    if module == "sls" and not near:
        return "; no state of this run comes from it: is it missing from `include`?"
    return near


def apply_use(lows: Sequence[Low]) -> List[Low]:
    """Return *lows* with the arguments that `use` and `use_in` copy to states without them."""
    if not any("use" in low.keywords or "use_in" in low.keywords for low in lows):
        return list(lows)
    index = Index(lows)
    sources: Dict[int, List[Low]] = {}
    for position, low in enumerate(lows):
        for kind in low.keywords:
            for wanted in pairs(low, kind) if kind in ("use", "use_in") else ():
                group = index.find(*wanted)
                for member in group.members if group else ():
                    if kind == "use_in":
                        sources.setdefault(member, []).append(low)
                    elif member != position:
                        sources.setdefault(position, []).append(lows[member])
    result = list(lows)
    for position, used in sources.items():
        result[position] = _using(lows[position], used)
    return result


def _using(low: Low, sources: Sequence[Low]) -> Low:
    args: Dict[str, Any] = {}
    keywords: Dict[str, Any] = {}
    for source in sources:
        args.update(source.args)
        keywords.update({k: v for k, v in source.keywords.items() if k not in REQUISITES})
    return replace(low, args={**args, **low.args}, keywords={**keywords, **low.keywords})
