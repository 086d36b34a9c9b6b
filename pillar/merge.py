"""How the data of pillar files join: the values of `pillar_source_merging_strategy`."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping

from catena.core.errors import ConfigError
from catena.core.suggest import unknown

Data = Dict[str, Any]


def merge(first: Mapping[str, Any], second: Mapping[str, Any], strategy: str, lists: bool) -> Data:
    """Return *second* joined to *first*; neither is changed.

    Args:
        first: what earlier files gave.
        second: what a later file gives; it wins where both have a plain value.
        strategy: "smart" and "recurse" join mappings at every depth; "overwrite" replaces whole
            top-level keys; "aggregate" joins mappings and appends lists; "list" keeps the values
            of both in a list; "none" is, as in Salt, what the default is.
        lists: append lists instead of replacing them (`pillar_merge_lists`).

    Raises:
        ConfigError: no such strategy.
    """
    if strategy not in STRATEGIES:
        raise ConfigError(unknown("pillar_source_merging_strategy", strategy, STRATEGIES))
    return STRATEGIES[strategy](first, second, lists)


def recurse(first: Mapping[str, Any], second: Mapping[str, Any], lists: bool = False) -> Data:
    """Return both joined: mappings at every depth, lists appended or replaced, else the later."""
    joined = dict(first)
    for key, value in second.items():
        old = joined.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            joined[key] = recurse(old, value, lists)
        elif lists and isinstance(old, list) and isinstance(value, list):
            joined[key] = append_new(old, value)
        else:
            joined[key] = value
    return joined


def append_new(first: List[Any], second: List[Any]) -> List[Any]:
    """Return *first* with those items of *second* that it lacks."""
    return [*first, *(item for item in second if item not in first)]


def _recurse(first: Mapping[str, Any], second: Mapping[str, Any], lists: bool) -> Data:
    return recurse(first, second, lists)


def _overwrite(first: Mapping[str, Any], second: Mapping[str, Any], lists: bool) -> Data:
    return {**first, **second}


def _aggregate(first: Mapping[str, Any], second: Mapping[str, Any], lists: bool) -> Data:
    return recurse(first, second, True)


def _list(first: Mapping[str, Any], second: Mapping[str, Any], lists: bool) -> Data:
    joined = dict(first)
    for key, value in second.items():
        joined[key] = [joined[key], value] if key in joined else value
    return joined


STRATEGIES: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any], bool], Data]] = {
    "smart": _recurse,
    "recurse": _recurse,
    "overwrite": _overwrite,
    "aggregate": _aggregate,
    "list": _list,
    "none": _recurse,
}
