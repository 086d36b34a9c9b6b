"""Random SLS trees: one seed, one tree.

A tree is data: SLS files by path, the names to apply, and how. Whatever it holds has a meaning
that Salt documents; most trees run, some are refused. Requisites mostly point the same way along
a hidden ranking, so that few trees have loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.sls_trees.tree import Body, Tree, sls_name

_LAYOUTS = (
    ("t.sls", "web/init.sls", "web/app.sls", "lib/a.sls", "lib/b.sls"),
    ("t/init.sls", "t/one.sls", "t/two.sls", "web.sls"),
    ("t.sls", "a.sls", "b.sls"),
    ("t.sls",),
)
_TEST = (
    "nop",
    "succeed_without_changes",
    "succeed_with_changes",
    "succeed_with_changes",
    "fail_without_changes",
    "fail_with_changes",
)
_FILE = (("exists", "/"), ("exists", "/no/such"), ("missing", "/no/such"))
_NEEDS = (
    *("require", "require", "require", "watch", "watch", "onchanges", "onchanges", "onfail"),
    *("require_any", "watch_any", "onchanges_any", "onfail_any", "onfail_all", "listen"),
)
_COMMON = ("require", "watch", "onchanges", "onfail")
_COMMON_REVERSE = tuple(f"{kind}_in" for kind in _COMMON)
#: Salt's configurable_test_state breaks on being told of a change.
_WATCHING = ("watch", "watch_any", "watch_in", "listen", "listen_in")
_REVERSE = ("require_in", "watch_in", "onchanges_in", "onfail_in", "listen_in")
_CONDITIONS = (
    *("true", "false", ["true"], ["false"], ["true", "false"], ["false", "true"]),
    *(["true", "true"], ["false", "false"]),
)
_CREATES = ("/", "/no/such", ["/", "/no/such"], ["/"])
_ORDERS = (1, 2, 500, 10001, 10003, 20000, -1, -2, -500, "first", "last")


@dataclass
class _State:
    """A state on its way into a file."""

    id: str
    module: str
    fun: str
    #: Needs point down, reverse requisites and prereq up.
    rank: float
    path: str
    args: Body
    names: tuple[str, ...] = ()


def draw(seed: int) -> Tree:
    """Return the tree of *seed*."""
    return _Draw(Random(seed)).tree()


class _Draw:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._paths = random.choice(_LAYOUTS)
        count = random.choice((2, 3, 4, 5, 6, 8, 10))
        self._files: dict[str, Body] = {path: {} for path in self._paths}
        self._includes()
        self._met = self._reached()
        self._layers = int(self._chance(70))
        # `use` copies no requisites, in Salt only some: none of those others stands beside it.
        self._uses = self._chance(20)
        self._states = [self._state(number) for number in range(count)]

    def _chance(self, percent: float) -> bool:
        return self._random.random() * 100 < percent

    def tree(self) -> Tree:
        for one in self._states:
            self._requisites(one)
            self._conditions(one)
        for one in self._states:
            self._write(self._files[one.path].setdefault(one.id, {}), one)
        self._extend()
        self._exclude()
        mods = ["t"]
        if len(self._met) > 1 and self._chance(20):
            mods.insert(self._random.randrange(2), self._random.choice(sorted(self._met)))
        return Tree(self._files, tuple(mods), self._chance(20), self._chance(4))

    def _state(self, number: int) -> _State:
        met = [path for path in self._paths if sls_name(path) in self._met]
        path = self._random.choice(self._paths if self._chance(5) else met)
        # Mostly later files come first, so that whole files can be waited for.
        rank = self._random.random() - self._layers * self._paths.index(path)
        id_ = f"s{number - 1}" if number and self._chance(2) else f"s{number}"
        if self._chance(12):
            fun, name = self._random.choice(_FILE)
            one = _State(id_, "file", fun, rank, path, {"name": name})
        elif self._chance(10):
            args = {"changes": self._chance(50), "result": self._chance(60)}
            one = _State(id_, "test", "configurable_test_state", rank, path, args)
        else:
            one = _State(id_, "test", self._random.choice(_TEST), rank, path, {})
            self._named(one)
        if self._chance(15):
            one.args["order"] = self._random.choice(_ORDERS)
        return one

    def _named(self, one: _State) -> None:
        if self._chance(15):
            one.args["name"] = "shared" if self._chance(15) else f"n-{one.id}"
            one.names = (one.args["name"],)
        elif self._chance(10):
            letters = "abc"[: self._random.choice((1, 2, 3))]
            one.names = tuple(f"{one.id}-{letter}" for letter in letters)
            entries: list[Any] = list(one.names)
            if self._chance(30):
                entries[-1] = {entries[-1]: [{"order": self._random.choice((1, 7, 20000))}]}
            one.args["names"] = entries

    def _requisites(self, one: _State) -> None:
        others = [
            other
            for other in self._states
            if other.id != one.id and (sls_name(other.path) in self._met or self._chance(10))
        ]
        for _ in range(self._random.choice((0, 0, 1, 1, 1, 2, 2, 3)) if others else 0):
            other = self._random.choice(others)
            kind = self._kind(one, (other.rank < one.rank) != self._chance(0.7))
            if "configurable_test_state" in (one.fun, other.fun) and kind in _WATCHING:
                kind = "require" if other.rank < one.rank else "require_in"
            if kind.startswith("use") and one.module != other.module:
                kind = "require" if other.rank < one.rank else "require_in"
            one.args.setdefault(kind, []).append(self._target(kind, one, other))

    def _kind(self, one: _State, other_first: bool) -> str:
        if self._uses and self._chance(25):
            return self._random.choice(("use", "use_in"))
        if self._uses:
            return self._random.choice(_COMMON if other_first else _COMMON_REVERSE)
        if not other_first:
            return "prereq" if self._chance(12) else self._random.choice(_REVERSE)
        if self._chance(3):
            return "prereq_in"
        kind = self._random.choice(_NEEDS)
        return "require" if kind == "listen" and one.module == "file" else kind

    def _target(self, kind: str, one: _State, other: _State) -> Any:
        if self._chance(0.3):
            return {"test": "nobody"}
        choice = self._random.random() * 100
        # Of `*_in`, a name among several is no target.
        known = other.names and not (kind.endswith("_in") and self._chance(90))
        named = {other.module: other.names[0] if known else other.id}
        if kind in ("listen", "listen_in", "use", "use_in") or choice < 65:
            return named if choice < 10 else {other.module: other.id}
        if choice < 72:
            return named
        if choice < 80:
            return other.id
        if kind.endswith("_in"):
            return {other.module: other.id}
        if choice < 88:
            return {"id": other.id}
        if choice < 95 and other.path != one.path and (self._layers or self._chance(5)):
            return {"sls": sls_name(other.path)}
        return {other.module: f"{other.id}*"}

    def _conditions(self, one: _State) -> None:
        args = one.args
        if self._chance(10):
            args["onlyif"] = self._random.choice(_CONDITIONS)
        if self._chance(10):
            args["unless"] = self._random.choice(_CONDITIONS)
        if self._chance(4):
            args["creates"] = self._random.choice(_CREATES)
        if one.module == "test" and self._chance(6):
            args["check_cmd"] = self._random.choice(("true", "false", ["true", "false"]))
        if self._chance(3):
            args["failhard"] = self._chance(80)
        if self._chance(4):
            args["retry"] = {"attempts": 2, "interval": 0, "until": self._chance(70)}

    def _write(self, body: Body, one: _State) -> None:
        args = [{key: value} for key, value in one.args.items()]
        self._random.shuffle(args)
        if any(key.partition(".")[0] == one.module for key in body):
            return
        if self._chance(30):
            body[one.module] = [one.fun, *args]
        else:
            body[f"{one.module}.{one.fun}"] = args

    def _includes(self) -> None:
        self._named_by: dict[str, list[str]] = {path: [] for path in self._paths}
        for path in self._paths:
            root = sls_name(path) == "t"
            if not self._chance(90 if root else 30):
                continue
            names = [
                name
                for name in map(sls_name, self._paths)
                if name != sls_name(path) and self._chance(85 if root else 40)
            ]
            self._named_by[path] = names
            wanted = [self._included(path, name) for name in names]
            if self._chance(1):
                wanted.append("absent")
            if wanted:
                self._random.shuffle(wanted)
                self._files[path]["include"] = wanted

    def _reached(self) -> set[str]:
        """Return the SLS files that a run of `t` reads."""
        reached: set[str] = set()
        todo = ["t"]
        while todo:
            name = todo.pop()
            path = next((path for path in self._paths if sls_name(path) == name), None)
            if path is None or name in reached:
                continue
            reached.add(name)
            todo += self._named_by[path]
        return reached

    def _included(self, path: str, name: str) -> str:
        own = sls_name(path)
        package = own if path.endswith("/init.sls") else own.rpartition(".")[0]
        if package and name.startswith(f"{package}.") and self._chance(50):
            return name[len(package) :]
        if name.startswith("lib.") and self._chance(20):
            return "lib.*"
        return name

    def _extend(self) -> None:
        while self._chance(12):
            one, other = (self._random.choice(self._states) for _ in range(2))
            args: list[Any] = []
            if self._chance(30):
                args.append({"order": self._random.choice((3, -3, 10002))})
            if self._chance(50) and other.id != one.id:
                kind = "require" if other.rank < one.rank else "require_in"
                args.append({kind: [{other.module: other.id}]})
            if one.module == "test" and self._chance(30):
                args.append(self._random.choice(_TEST))
            if args:
                block = self._files[self._random.choice(self._paths)].setdefault("extend", {})
                block[one.id if self._chance(99) else "nobody"] = {one.module: args}

    def _exclude(self) -> None:
        if self._chance(5):
            one = self._random.choice(self._states)
            name = sls_name(one.path)
            entry = self._random.choice(({"id": one.id}, {"sls": name}, name))
            self._files[self._random.choice(self._paths)]["exclude"] = [entry]
