"""Nested data: lookup by a path of names (`a:b:0`), copies and merges.

grains.get, pillar.get, config.get, pillar files, slsutil.merge and the filters all use it.
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
    """Return the value at *path* ("a:b:0") in nested mappings and lists, or *default*.

    A key that itself contains the delimiter takes precedence. In a list a number is an index; any
    other name is looked up in the mappings that the list contains, as in Salt. With an empty
    delimiter the path is one name.
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
        # YAML turns some keys into numbers, but a path is text.
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
    """Set the value at *path* in *data*; create missing mappings."""
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
    """Return a copy of *base* with *other* merged over it.

    Mappings are merged recursively; lists are replaced, or appended with *lists*. If one of the
    two is not a mapping (or a list, with *lists*), the result is *other*.
    """
    if isinstance(base, Mapping) and isinstance(other, Mapping):
        return copy.deepcopy(recurse(base, other, lists))
    if lists and isinstance(base, list) and isinstance(other, list):
        return copy.deepcopy(append_new(base, other))
    return copy.deepcopy(other)


def merge(first: Mapping[str, Any], second: Mapping[str, Any], strategy: str, lists: bool) -> Data:
    """Return *first* and *second* merged; neither is changed.

    Args:
        first: the earlier data.
        second: the later data, whose plain values take precedence.
        strategy: "smart" and "recurse" merge mappings at every depth. "overwrite" replaces whole
            top-level keys, and so does "aggregate" (yamlex's marks are not supported here). "list"
            keeps the values of both in a list. "none" is like "smart" but, as in Salt, never
            appends lists.
        lists: append lists instead of replacing them (`pillar_merge_lists`).

    Raises:
        ConfigError: *strategy* does not exist.
    """
    if strategy not in STRATEGIES:
        raise ConfigError(unknown("merging strategy", strategy, STRATEGIES))
    return STRATEGIES[strategy](first, second, lists)


def recurse(first: Mapping[str, Any], second: Mapping[str, Any], lists: bool = False) -> Data:
    """Return both merged: mappings at every depth, lists appended or replaced, else *second*."""
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
    """Return *first* plus those items of *second* that it lacks."""
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
