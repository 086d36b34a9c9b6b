"""Arguments of a call against a function's signature, with errors that name the nearest one."""

from __future__ import annotations

from inspect import BoundArguments, Parameter
from typing import Any, Dict, Mapping, Sequence

from catena.core.errors import UsageError
from catena.core.plugins import Plugin
from catena.core.suggest import unknown


def bind(plugin: Plugin, args: Sequence[Any], kwargs: Mapping[str, Any]) -> BoundArguments:
    """Return the arguments of a call of *plugin*, without the context.

    Args:
        plugin: what is called.
        args: positional arguments.
        kwargs: keyword arguments; names that begin with `__` are dropped (Salt's `__pub_…`).

    Raises:
        UsageError: too many, a missing or an unknown argument; the message names the nearest.
    """
    signature = plugin.signature()
    parameters = signature.parameters
    given: Dict[str, Any] = {k: v for k, v in kwargs.items() if not k.startswith("__")}
    kinds = {parameter.kind for parameter in parameters.values()}
    if Parameter.VAR_KEYWORD not in kinds:
        named = [p.name for p in parameters.values() if p.kind is not Parameter.VAR_POSITIONAL]
        for name in given:
            if name not in named:
                raise UsageError(f"{plugin.name}: {unknown('argument', name, named)}")
    positional = [
        p
        for p in parameters.values()
        if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(args) > len(positional) and Parameter.VAR_POSITIONAL not in kinds:
        raise UsageError(
            f"{plugin.name} takes {len(positional)} positional arguments, {len(args)} were given"
        )
    missing = [
        p.name
        for index, p in enumerate(parameters.values())
        if p.default is Parameter.empty
        and p.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        and p.name not in given
        and (p.kind is Parameter.KEYWORD_ONLY or index >= len(args))
    ]
    if missing:
        raise UsageError(f"{plugin.name}: argument {missing[0]!r} is missing")
    try:
        return signature.bind(*args, **given)
    except TypeError as error:
        raise UsageError(f"{plugin.name}: {error}") from None
