"""Binding of a call's arguments to a function's parameters; errors name the nearest one."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Sequence, Tuple

from catena.core.errors import UsageError
from catena.core.plugins import Plugin
from catena.core.signatures import Parameter
from catena.core.suggest import assigned, unknown


def bind(
    plugin: Plugin, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Tuple[Sequence[Any], Dict[str, Any]]:
    """Return the arguments of a call of *plugin*, without the context, by place and by name.

    Args:
        plugin: what is called.
        args: positional arguments.
        kwargs: keyword arguments; names that begin with `__` are dropped (Salt's `__pub_…`).

    Raises:
        UsageError: too many, a missing or an unknown argument; the message names the nearest.
    """
    given: Dict[str, Any] = {k: v for k, v in kwargs.items() if not k.startswith("__")}
    parameters = plugin.parameters()
    for fault in _faults(parameters, args, given):
        raise UsageError(f"{plugin.name}{fault}{_hint(parameters, given)}")
    return args, given


def _hint(parameters: Sequence[Parameter], given: Mapping[str, Any]) -> str:
    """Return advice for a command that begins with an assignment and was read as a keyword."""
    known = {p.name for p in parameters if not p.many}
    return next((hint for name in given if name not in known and (hint := assigned(name))), "")


def _faults(
    parameters: Sequence[Parameter], args: Sequence[Any], given: Mapping[str, Any]
) -> Iterator[str]:
    """Yield why a call is impossible, as text to append to the function's name."""
    any_name = any(p.many and p.by_name for p in parameters)
    if not any_name:
        named = [p.name for p in parameters if not p.many]
        for name in given:
            if name not in named:
                yield f": {unknown('argument', name, named)}"
    placed = [p for p in parameters if p.by_place and not p.many]
    if len(args) > len(placed) and not any(p.many and p.by_place for p in parameters):
        yield f" takes {len(placed)} positional arguments, {len(args)} were given"
    filled = {p.name for p in placed[: len(args)]}
    for one in parameters:
        if one.is_required and one.name not in filled and one.name not in given:
            yield f": argument {one.name!r} is missing"
    for one in parameters:
        if one.by_name and one.name in filled and one.name in given:
            yield f": multiple values for argument {one.name!r}"
        elif not one.by_name and not one.many and one.name in given:
            if (one.is_required and one.name not in filled) or not any_name:
                yield f": {one.name!r} parameter is positional only, but was passed as a keyword"
