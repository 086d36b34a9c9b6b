"""What a tree compiles to, by the documented rules and as simply as can be.

Nothing here is catena's, and nothing is fast: every question is answered by looking at all states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tests.sls_trees.tree import Tree, sls_name

KINDS = (
    *("require", "require_any", "watch", "watch_any", "prereq"),
    *("onfail", "onfail_any", "onfail_all", "onchanges", "onchanges_any"),
)
REQUISITES = {
    *KINDS,
    *("require_in", "watch_in", "prereq_in", "onfail_in", "onchanges_in"),
    *("listen", "listen_in", "use", "use_in"),
}
_LAST = 1000000
#: Modules without mod_watch: who watches there only requires.
_DEAF = ("file",)


class RefusedError(Exception):
    """The tree can't run: one word per fault."""

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)
        self.faults = faults


@dataclass(eq=False)
class Declared:
    """A module under an id."""

    id: str
    module: str
    sls: str
    #: The SLS files that were being read when its own was met.
    within: tuple[str, ...]
    functions: list[str]
    args: dict[str, Any]


@dataclass(eq=False)
class State:
    """One call of a function."""

    id: str
    name: str
    module: str
    fun: str
    sls: str
    within: tuple[str, ...]
    args: dict[str, Any]
    #: Order as written, and as it counts in the end.
    written: float
    order: float
    from_names: bool
    needs: dict[str, list[State]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Key of its row."""
        return "_|-".join((self.module, self.id, self.name, self.fun))


def wanted(entry: Any) -> tuple[str, str]:
    """Return a requisite as module ("" for any) and target."""
    if isinstance(entry, str):
        return "", entry
    ((module, target),) = entry.items()
    return ("" if module == "id" else module), target


def compiled(tree: Tree) -> tuple[list[State], list[str]]:
    """Return the states of *tree* as declared, what they need filled in, and the faults met.

    Raises:
        RefusedError: it can't be compiled so far.
    """
    reader = _Reader(tree)
    for name in tree.mods:
        for sls in reader.matching(name) or [name]:
            reader.read(sls, ())
    if reader.faults:
        raise RefusedError(*reader.faults)
    declared = reader.declared()
    _extend(declared, reader.extends, reader.excluded_sls)
    for one in declared:
        if len(one.functions) != 1:
            raise RefusedError("no_function")
    states = _expanded(declared)
    _use(states)
    return _linked(states, reader), reader.faults


class _Reader:
    """Reads SLS files."""

    def __init__(self, tree: Tree) -> None:
        self._bodies = {sls_name(path): (path, body) for path, body in tree.files.items()}
        self._read: dict[str, list[Declared]] = {}
        self._next = 10000
        self.extends: list[tuple[str, str, str, list[Any]]] = []
        self.excluded_sls: set[str] = set()
        self.excluded_ids: set[str] = set()
        self.faults: list[str] = []

    def excludes(self, one: State) -> bool:
        """Return whether a state is left out."""
        names = self.excluded_sls
        return one.id in self.excluded_ids or any(fnmatchcase(one.sls, name) for name in names)

    def matching(self, pattern: str) -> list[str]:
        """Return the SLS files that a name or glob means, sorted."""
        return sorted(name for name in self._bodies if fnmatchcase(name, pattern))

    def declared(self) -> list[Declared]:
        """Return everything: a file's own before what it includes."""
        return [one for states in self._read.values() for one in states]

    def read(self, name: str, within: tuple[str, ...]) -> None:
        """Read an SLS file and what it includes, unless that is done."""
        if name in self._read:
            return
        if name not in self._bodies:
            self.faults.append("missing_sls")
            return
        path, body = self._bodies[name]
        mine = self._read[name] = []
        self._said(name, body)
        for entry in body.get("include", ()):
            full = self._absolute(name, path, entry)
            for other in self.matching(full) or [full]:
                self.read(other, (name, *within))
        for one in _of_body(name, within, body):
            if any(known.id == one.id and known.sls != name for known in self.declared()):
                self.faults.append("conflicting_id")
            if "order" not in one.args:
                one.args["order"] = self._next
                self._next += 1
            mine.append(one)

    def _said(self, name: str, body: Mapping[str, Any]) -> None:
        for id_, modules in body.get("extend", {}).items():
            for module, items in modules.items():
                self.extends.append((name, id_, module, items))
        for entry in body.get("exclude", ()):
            if isinstance(entry, str) or "sls" in entry:
                self.excluded_sls.add(entry if isinstance(entry, str) else entry["sls"])
            else:
                self.excluded_ids.add(entry["id"])

    def _absolute(self, name: str, path: str, entry: str) -> str:
        if not entry.startswith("."):
            return entry
        package = name if path.endswith("/init.sls") else name.rpartition(".")[0]
        return f"{package}{entry}"


def _of_body(sls: str, within: tuple[str, ...], body: Mapping[str, Any]) -> Iterator[Declared]:
    for id_, modules in body.items():
        if id_ in ("include", "extend", "exclude"):
            continue
        # `test.nop:` counts behind `file:` with the function below it.
        for key in sorted(modules, key=lambda key: "." in key):
            module, _, fun = key.partition(".")
            functions = [*(item for item in modules[key] if isinstance(item, str))]
            args = {
                k: v for item in modules[key] if isinstance(item, dict) for k, v in item.items()
            }
            yield Declared(id_, module, sls, within, functions + [fun] * bool(fun), _copied(args))


def _copied(args: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if key in REQUISITES else value for key, value in args.items()}


def _extend(
    declared: list[Declared],
    extends: list[tuple[str, str, str, list[Any]]],
    excluded_sls: set[str],
) -> None:
    faults = []
    for sls, id_, module, items in extends:
        owners = [one for one in declared if one.id == id_]
        if not owners:
            faults.append("cannot_extend")
        if not owners or sls in excluded_sls:
            continue
        target = next((one for one in owners if one.module == module), None)
        if target is None:
            first = owners[0]
            target = Declared(id_, module, first.sls, first.within, [], {"order": 1})
            declared.append(target)
        for item in items:
            if isinstance(item, str):
                target.functions = [item]
                continue
            for key, value in item.items():
                kept = target.args.get(key, []) if key in REQUISITES else None
                target.args[key] = value if kept is None else [*kept, *value]
    if faults:
        raise RefusedError(*faults)


def _expanded(declared: list[Declared]) -> list[State]:
    entries: list[tuple[Declared, str, dict[str, Any], int]] = []
    for one in declared:
        args = dict(one.args)
        name = args.pop("name", one.id)
        names = args.pop("names", None)
        if names is None:
            entries.append((one, name, args, 0))
            continue
        for step, each in enumerate(names, 1):
            own = {} if isinstance(each, str) else next(iter(each.values()))[0]
            entries.append(
                (one, each if isinstance(each, str) else next(iter(each)), args | own, step)
            )
    cap = 1
    for *_, args, _ in entries:
        order = args["order"]
        if isinstance(order, int) and order > max(cap - 1, 0):
            cap = order + 100
    return [_state(one, name, args, step, cap) for one, name, args, step in entries]


def _state(one: Declared, name: str, args: dict[str, Any], step: int, cap: int) -> State:
    args = dict(args)
    order = args.pop("order")
    written = {"first": 0, "last": cap + _LAST}.get(order, order)
    final = written + step / 10000
    if final < 0:
        final += cap + _LAST
    fun = one.functions[0]
    return State(
        one.id, name, one.module, fun, one.sls, one.within, args, written, final, step > 0
    )


def _use(states: list[State]) -> None:
    given: list[tuple[State, dict[str, Any]]] = []
    for one in states:
        for key in list(one.args):
            for entry in one.args[key] if key in ("use", "use_in") else ():
                for other in find(states, *wanted(entry)):
                    if other is not one:
                        pair = (other, one) if key == "use_in" else (one, other)
                        given.append((pair[0], dict(pair[1].args)))
    copies: dict[int, dict[str, Any]] = {}
    for target, args in given:
        plain = {key: value for key, value in args.items() if key not in REQUISITES}
        copies.setdefault(id(target), {}).update(plain)
    for one in states:
        one.args = {**copies.get(id(one), {}), **one.args}


def find(states: list[State], module: str, target: str) -> list[State]:
    """Return what a requisite means."""
    if module == "sls":
        return [one for one in states if target in (one.sls, *one.within)]
    mine = [one for one in states if module in ("", one.module)]
    exact = [one for one in mine if target in (one.id, one.name)]
    if exact or not set(target) & set("*?["):
        return exact
    return [one for one in mine if fnmatchcase(one.id, target) or fnmatchcase(one.name, target)]


def _linked(states: list[State], reader: _Reader) -> list[State]:
    """Return the states that are not excluded, with what they need."""
    put: list[tuple[State, str, State]] = []
    faults: dict[str, str] = {}
    for one in states:
        for key in one.args:
            if key.endswith("_in") and key not in ("listen_in", "use_in"):
                for entry in one.args[key]:
                    targets = _put_into(states, *wanted(entry))
                    if not targets and not isinstance(entry, str):
                        faults[wanted(entry)[1]] = "cannot_extend"
                    put += [(target, key.removesuffix("_in"), one) for target in targets]
    if faults:
        raise RefusedError(*faults.values())
    by_sls = reader.excluded_sls
    kept = [one for one in states if not reader.excludes(one)]
    reader.faults += ["missing_requisite" for one in kept if not _fill(one, kept, put, by_sls)]
    return kept


def _put_into(states: list[State], module: str, target: str) -> list[State]:
    """Return what a `*_in` means: less than what a requisite means."""
    ids = [one for one in states if one.id == target and module in ("", one.module)]
    if ids:
        return [one for one in ids if one.module == ids[0].module] if not module else ids
    named = [
        one
        for one in states
        if one.name == target and not one.from_names and module in ("", one.module)
    ]
    if not named or (module and len({one.id for one in named}) > 1):
        return []
    last = named[-1]
    return [one for one in states if (one.id, one.module) == (last.id, last.module)]


def _felt(one: State, kind: str) -> str:
    return kind.replace("watch", "require") if one.module in _DEAF else kind


def _fill(
    one: State, kept: list[State], put: list[tuple[State, str, State]], by_sls: set[str]
) -> bool:
    """Note what *one* needs; False when something of it is not there."""
    for kind in KINDS:
        needs = one.needs.setdefault(_felt(one, kind), [])
        for entry in one.args.get(kind, ()):
            module, target = wanted(entry)
            found = find(kept, module, target)
            if not found:
                return False
            if module != "sls" and len(found) > 1:
                found = [other for other in found if other is not one]
            needs.extend(found)
        for holder, given, source in put:
            if holder is one and given == kind and source.sls not in by_sls:
                if source not in kept:
                    return False
                needs.extend(find(kept, source.module, source.id))
    return True
