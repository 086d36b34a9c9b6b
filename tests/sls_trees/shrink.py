"""A smaller tree with the same fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

from tests.sls_trees.tree import Body, Tree


def shrunk(tree: Tree, fails: Callable[[Tree], bool]) -> Tree:
    """Return what is left of *tree* when nothing more can go without losing the fault."""
    while True:
        smaller = next((each for each in _smaller(tree) if fails(each)), None)
        if smaller is None:
            return tree
        tree = smaller


def _smaller(tree: Tree) -> Iterator[Tree]:
    for path in tree.files:
        for place in _places(tree.files[path]):
            body = deepcopy(tree.files[path])
            holder: Any = body
            for key in place[:-1]:
                holder = holder[key]
            del holder[place[-1]]
            yield replace(tree, files={**tree.files, path: body})


def _places(body: Body) -> Iterator[tuple[Any, ...]]:
    """Yield the way to everything that can be taken away: ids, entries, arguments, targets."""
    for name, value in body.items():
        yield (name,)
        if isinstance(value, list):
            yield from ((name, index) for index in range(len(value)))
            continue
        extends = name == "extend"
        bodies = (
            {(name, id_): each for id_, each in value.items()} if extends else {(name,): value}
        )
        for state, modules in bodies.items():
            for module, items in modules.items():
                yield (*state, module)
                for index, item in enumerate(items):
                    if isinstance(item, str):
                        continue
                    yield (*state, module, index)
                    ((argument, inner),) = item.items()
                    if isinstance(inner, list):
                        targets = range(len(inner))
                        yield from ((*state, module, index, argument, one) for one in targets)
