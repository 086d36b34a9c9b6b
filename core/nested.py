"""Nested data: looking into it by a path of names (`a:b:0`), copying and merging it.

The one place for what grains.get, pillar.get, config.get, the pillar's files, slsutil.merge and
the filters do with mappings and lists.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, List, Mapping

from catena.core.errors import ConfigError
from catena.core.suggest import unknown

DELIMITER = ":"
MISSING: Any = object()
Data = Dict[str, Any]


def traverse(data: Any, path: str, default: Any = None, delimiter: str = DELIMITER) -> Any:
    """Return what lies at *path* ("a:b:0") in nested mappings and lists, or *default*.

    A whole key that contains the delimiter wins. In a list a number is a position; any other name
    is looked for in the mappings that the list holds, as in Salt. Without a delimiter the path is
    one name.
    """
    text = str(path)
    if isinstance(data, Mapping) and text in data:
        return data[text]
    current = data
    for name in text.split(delimiter) if delimiter else [text]:
        current = _step(current, name)
        if current is MISSING:
            return default
    return current


def _step(data: Any, name: str) -> Any:
    if isinstance(data, Mapping):
        if name in data:
            return data[name]
        # Keys that YAML made numbers of; a path is text.
        number = int(name) if name.lstrip("-").isdecimal() else None
        return data.get(number, MISSING) if number is not None else MISSING
    if isinstance(data, (list, tuple)):
        if name.lstrip("-").isdecimal():
            position = int(name)
            return data[position] if -len(data) <= position < len(data) else MISSING
        for member in data:
            if isinstance(member, Mapping) and name in member:
                return member[name]
    return MISSING


def set_at(data: Data, path: str, value: Any, delimiter: str = DELIMITER) -> None:
    """Set what lies at *path* in *data*, making mappings on the way."""
    *above, last = path.split(delimiter) if delimiter else [path]
    for name in above:
        inner = data.get(name)
        if not isinstance(inner, dict):
            inner = data[name] = {}
        data = inner
    data[last] = value


def plain_copy(data: Mapping[str, Any]) -> Data:
    """Return a deep copy of a mapping as dicts and lists."""
    return {key: _plain(value) for key, value in data.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return plain_copy(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def laid_over(base: Any, other: Any, lists: bool = False) -> Any:
    """Return a copy of *other* laid over *base*: mappings deep, lists replaced or appended.

    Where one of them is no mapping (or, with *lists*, no list), *other* is the answer.
    """
    if isinstance(base, Mapping) and isinstance(other, Mapping):
        return copy.deepcopy(recurse(base, other, lists))
    if lists and isinstance(base, list) and isinstance(other, list):
        return copy.deepcopy(append_new(base, other))
    return copy.deepcopy(other)


def merge(first: Mapping[str, Any], second: Mapping[str, Any], strategy: str, lists: bool) -> Data:
    """Return *second* joined to *first*; neither is changed.

    Args:
        first: what came earlier.
        second: what comes later; it wins where both have a plain value.
        strategy: "smart" and "recurse" join mappings at every depth; "overwrite" replaces whole
            top-level keys, and so does "aggregate" (what yamlex marks for joining does not come
            here); "list" keeps the values of both in a list; "none" is, as in Salt, what the
            default is, but never appends lists.
        lists: append lists instead of replacing them (`pillar_merge_lists`).

    Raises:
        ConfigError: no such strategy.
    """
    if strategy not in STRATEGIES:
        raise ConfigError(unknown("merging strategy", strategy, STRATEGIES))
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


def _never_lists(first: Mapping[str, Any], second: Mapping[str, Any], lists: bool) -> Data:
    return recurse(first, second)


def _list(first: Mapping[str, Any], second: Mapping[str, Any], lists: bool) -> Data:
    joined = dict(first)
    for key, value in second.items():
        joined[key] = [joined[key], value] if key in joined else value
    return joined


STRATEGIES: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any], bool], Data]] = {
    "smart": _recurse,
    "recurse": _recurse,
    "overwrite": _overwrite,
    "aggregate": _overwrite,
    "list": _list,
    "none": _never_lists,
}
