"""What a run of a tree comes to, by the documented rules and as simply as can be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.sls_trees.compiled import KINDS, RefusedError, State, compiled, find, wanted
from tests.sls_trees.tree import Tree

#: How strong a requisite is where it pulls what it needs forward.
_WEIGHTS = (
    *("onfail", "onfail_any", "onfail_all", "require", "require_any"),
    *("onchanges", "onchanges_any", "watch", "watch_any", "prereq"),
)
_CREATED = {"/": True, "/no/such": False}


@dataclass
class Row:
    """What became of a state."""

    key: str
    #: True, False or (test mode) None.
    result: bool | None
    changed: bool
    #: Why it did not run, or "ran".
    why: str
    #: A condition of its own said that there is nothing to do.
    skipped: bool = False

    @property
    def ran(self) -> bool:
        """Its requisites left it to itself."""
        return self.why not in ("requisite", "onchanges", "onfail", "prereq")


@dataclass
class Outcome:
    """Rows in their order, or why nothing ran."""

    rows: list[Row]
    faults: list[str]


def expected(tree: Tree) -> Outcome:
    """Return what a run of *tree* comes to."""
    try:
        states, faults = compiled(tree)
        nodes = _ordered(states)
        if nodes is None or faults:
            return Outcome([], sorted([*faults, *["loop"] * (nodes is None)]))
    except RefusedError as error:
        return Outcome([], sorted(error.faults))
    run = _Run(tree, states)
    run.all(nodes)
    return Outcome(run.rows, [])


#: A state, and whether it is only tried.
_Node = tuple[int, bool]


def _ordered(states: list[State]) -> list[_Node] | None:
    """Return what happens in its order; None where there is a loop."""
    edges = _edges(states)
    nodes = {(place, False) for place in range(len(states))}
    nodes |= {node for edge in edges for node in edge[:2]}
    seen = [one.written for one in states]
    ranks: dict[_Node, Any] = {}
    result: list[_Node] = []
    while len(result) < len(nodes):
        for node in sorted(nodes - ranks.keys()):
            if all(source in result for source, waiting, _ in edges if waiting == node):
                one = states[node[0]]
                seen[node[0]] = one.order
                pull = min(one.order, _pull(node, edges, seen))
                ranks[node] = (pull, one.order, one.module + one.name + one.fun, one.key, node[1])
        ready = [node for node in ranks if node not in result]
        if not ready:
            return None
        result.append(min(ready, key=lambda node: ranks[node]))
    return result


def _pull(node: _Node, edges: list[tuple[_Node, _Node, int]], seen: list[float]) -> float:
    """Return the lowest order of those that wait for *node* for no weaker reason than others."""
    waiting: dict[_Node, list[int]] = {}
    for source, one, weight in edges:
        if source == node:
            waiting.setdefault(one, []).append(weight)
    strongest, lowest = -1, float("inf")
    for one, weights in waiting.items():
        for weight in weights:
            if weight >= strongest:
                strongest, lowest = weight, min(lowest, seen[one[0]])
    return lowest


def _edges(states: list[State]) -> list[tuple[_Node, _Node, int]]:
    """Return who waits for whom, in the order in which requisites are looked at."""
    edges: list[tuple[_Node, _Node, int]] = []
    tried: set[int] = set()
    for place, one in enumerate(states):
        for kind in KINDS:
            weight = _WEIGHTS.index(kind)
            for other in one.needs.get(kind, ()):
                source = states.index(other)
                if kind != "prereq":
                    if place in tried:
                        edges.append(((source, False), (place, True), weight))
                    edges.append(((source, False), (place, False), weight))
                    continue
                if source not in tried:
                    tried.add(source)
                    before = [edge for edge in edges if edge[1] == (source, False)]
                    edges += [(first, (source, True), strength) for first, _, strength in before]
                edges.append(((source, True), (place, False), weight))
                edges.append(((place, False), (source, False), _WEIGHTS.index("require")))
                if place in tried:
                    edges.append(((source, True), (place, True), weight))
    return list(dict.fromkeys(edges))


class _Run:
    def __init__(self, tree: Tree, states: list[State]) -> None:
        self._tree = tree
        self._states = states
        self._row_of: dict[int, Row] = {}
        self._trials: dict[int, Row] = {}
        self._stopped = False
        self.rows: list[Row] = []

    def all(self, nodes: list[_Node]) -> None:
        """Run everything, then those that listen."""
        for place, trial in nodes:
            if self._stopped:
                break
            if trial:
                self._try(self._states[place])
            elif id(self._states[place]) not in self._row_of:
                self._one(self._states[place])
        self._listen([self._states[place] for place, trial in nodes if not trial])

    def _keep(self, one: State, row: Row) -> None:
        self.rows.append(row)
        hard = one.args.get("failhard", self._tree.failhard)
        if hard and row.result is False and not self._tree.test:
            self._stopped = True

    def _one(self, one: State) -> None:
        why, changed = self._verdict(one, trial=False)
        if why == "requisite" and id(one) in self._trials:
            row = Row(one.key, self._trials[id(one)].result, False, self._trials[id(one)].why)
        elif why:
            row = Row(one.key, why != "requisite", False, why)
        else:
            row = _called(one, self._tree.test)
            if changed and not row.changed and not row.skipped:
                row = _called(one, self._tree.test, mod_watch=True)
        self._row_of[id(one)] = row
        self._keep(one, row)

    def _try(self, one: State) -> None:
        why, _ = self._verdict(one, trial=True)
        if why:
            self._row_of[id(one)] = row = Row(one.key, why != "requisite", False, why)
            self._keep(one, row)
        else:
            row = _called(one, test=True)
        self._trials[id(one)] = row

    def _rows(self, one: State, *kinds: str) -> list[Row]:
        return [self._row_of[id(other)] for kind in kinds for other in one.needs.get(kind, ())]

    def _verdict(self, one: State, trial: bool) -> tuple[str, bool]:
        """Return why a state does not run ("" when it does), and whether a watched one changed."""
        owners = [each for each in self._states if one in each.needs.get("prereq", ())]
        tried = [self._trials[id(other)] for other in one.needs.get("prereq", ())]
        needed = [*self._rows(one, "require", "watch"), *tried]
        needed += [] if trial else [self._row_of[id(owner)] for owner in owners]
        watched = [row for row in self._rows(one, "watch", "watch_any") if _changed(row)]
        if any(row.result is False for row in needed) or self._no_any(one):
            return "requisite", False
        would = [row for row in tried if row.result is None]
        if tried and len(would) < len(tried):
            return ("" if would else "prereq"), False
        sources = self._rows(one, "onchanges", "onchanges_any")
        moved = any(_changed(row) for row in sources)
        fine = self._nothing_failed(one)
        if (fine and not moved) or (fine and not watched):
            return "onfail", False
        if sources and not moved:
            return "onchanges", False
        return "", bool(watched)

    def _no_any(self, one: State) -> bool:
        """Return whether nothing that ran is as `*_any` needs it, while something failed."""
        for kind in ("require_any", "watch_any"):
            rows = self._rows(one, kind)
            good = [row for row in rows if row.result is not False]
            if len(good) < len(rows) and not any(
                row.ran or (kind == "watch_any" and row.changed) for row in good
            ):
                return True
        return False

    def _nothing_failed(self, one: State) -> bool:
        if any(row.result is True for row in self._rows(one, "onfail_all")):
            return True
        for kind in ("onfail", "onfail_any"):
            rows = self._rows(one, kind)
            if any(row.result is True for row in rows) and not any(
                row.ran and row.result is not True for row in rows
            ):
                return True
        return False

    def _listen(self, states: list[State]) -> None:
        self._stopped = False
        faults: list[str] = []
        for one in _heard(states, self._row_of, faults):
            key = "_|-".join((one.module, f"listener_{one.id}", one.name, "mod_watch"))
            if self._stopped:
                break
            if key not in [row.key for row in self.rows]:
                row = _called(one, self._tree.test, mod_watch=True)
                row.key = key
                self._keep(one, row)
        for fault in dict.fromkeys(faults):
            self.rows.append(Row(fault, False, False, "missing"))


def _changed(row: Row) -> bool:
    return row.changed and row.result is not False


def _heard(states: list[State], rows: dict[int, Row], faults: list[str]) -> Iterator[State]:
    def changed(one: State) -> bool:
        return id(one) in rows and rows[id(one)].changed

    for one in states:
        same = find(states, one.module, one.id)
        for entry in one.args.get("listen", ()):
            sources = find(states, *wanted(entry))
            if not sources:
                faults.append(_missed(*wanted(entry)))
            if any(changed(source) for source in sources):
                yield from same
        for entry in one.args.get("listen_in", ()):
            if any(changed(source) for source in same):
                listening = find(states, *wanted(entry))
                if not listening:
                    faults.append(_missed(*wanted(entry)))
                yield from listening


def _missed(module: str, target: str) -> str:
    return f"Listen_Error_|-listen_{target}_|-listen_{module}_|-Listen_Error"


def _called(one: State, test: bool, mod_watch: bool = False) -> Row:
    if mod_watch and one.module == "file":
        return Row(one.key, False, False, "unavailable")
    why = _needless(one)
    result, changed = (True, False) if why else _answer(one, test, mod_watch)
    row = Row(one.key, result, changed, why or "ran", bool(why))
    if "check_cmd" in one.args:
        checks = one.args["check_cmd"]
        row.result = all(command == "true" for command in _listed(checks))
        row.why = "ran" if row.result else "check_cmd"
    elif why == "creates" and test and "retry" in one.args:
        # Its comment goes on with the retry, and so does not end as others of its class do.
        row.why = why if isinstance(one.args["creates"], list) else "ran"
    return row


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _needless(one: State) -> str:
    """Return which condition says that there is nothing to do."""
    if "false" in _listed(one.args.get("onlyif", [])):
        return "onlyif"
    unless = _listed(one.args.get("unless", []))
    if unless and "false" not in unless:
        return "unless"
    creates = _listed(one.args.get("creates", []))
    return "creates" if creates and all(_CREATED[path] for path in creates) else ""


def _answer(one: State, test: bool, mod_watch: bool) -> tuple[bool | None, bool]:
    if one.module == "file":
        passes = (one.fun == "exists") == (one.name == "/")
        return passes, False
    if mod_watch:
        return True, True
    if one.fun == "configurable_test_state":
        changes = bool(one.args["changes"])
        return ((None if changes else True) if test else bool(one.args["result"])), changes
    changes = one.fun.endswith("_with_changes")
    if test and changes:
        return None, True
    return not one.fun.startswith("fail"), changes
