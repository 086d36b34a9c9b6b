"""Find the argument names that the code of a custom module mentions."""

from __future__ import annotations

from types import CodeType, FunctionType, ModuleType
from typing import FrozenSet, Iterator, Set


def mentioned_names(module: ModuleType) -> FrozenSet[str]:
    """Return the identifiers among the text constants of a module's functions.

    A function with `**kwargs` reads its arguments as `kwargs["user"]` or `kwargs.get("user")`.
    Helpers that receive `kwargs` read them too, so the whole module counts.
    """
    found: Set[str] = set()
    for member in vars(module).values():
        if isinstance(member, FunctionType):
            found.update(_texts(member.__code__))
    return frozenset(found)


def _texts(code: CodeType) -> Iterator[str]:
    yield from code.co_varnames
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _texts(constant)
        else:
            # CPython stores the constants of `key in ("a", "b")` and `key in {"a"}` together.
            parts = constant if isinstance(constant, (tuple, frozenset)) else (constant,)
            yield from (part for part in parts if isinstance(part, str) and part.isidentifier())
