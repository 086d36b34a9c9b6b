"""Looking into nested data by a path of names (`a:b:0`), as grains.get and pillar.get do."""

from __future__ import annotations

import copy
from collections.abc import Mapping as AbstractMapping
from typing import Any, Dict, Mapping

MISSING = object()


def traverse(data: Any, path: str, default: Any = MISSING, delimiter: str = ":") -> Any:
    """Return what lies at *path* in *data*, or *default*.

    A whole key that contains the delimiter wins. In a list a number is an index; any other name is
    looked for in the mappings that the list holds.
    """
    if isinstance(data, AbstractMapping) and path in data:
        return data[path]
    current = data
    for name in str(path).split(delimiter):
        current = _step(current, name)
        if current is MISSING:
            return default
    return current


def _step(data: Any, name: str) -> Any:
    if isinstance(data, AbstractMapping):
        if name in data:
            return data[name]
        # YAML keys may be numbers; a path is text.
        if name.lstrip("-").isdigit() and int(name) in data:
            return data[int(name)]
        return MISSING
    if isinstance(data, (list, tuple)):
        if name.lstrip("-").isdigit():
            index = int(name)
            return data[index] if -len(data) <= index < len(data) else MISSING
        for item in data:
            if isinstance(item, AbstractMapping) and name in item:
                return item[name]
    return MISSING


def set_at(data: Dict[str, Any], path: str, value: Any, delimiter: str = ":") -> None:
    """Set what lies at *path* in *data*, making mappings on the way."""
    *above, last = path.split(delimiter)
    for name in above:
        inner = data.get(name)
        if not isinstance(inner, dict):
            inner = data[name] = {}
        data = inner
    data[last] = value


def merged(base: Any, other: Any, merge_lists: bool = False) -> Any:
    """Return *other* laid over *base*: mappings deep, lists replaced or appended."""
    if isinstance(base, AbstractMapping) and isinstance(other, AbstractMapping):
        found = {key: copy.deepcopy(value) for key, value in base.items()}
        for key, value in other.items():
            found[key] = merged(found[key], value, merge_lists) if key in found else value
        return found
    if merge_lists and isinstance(base, list) and isinstance(other, list):
        return [*base, *(item for item in other if item not in base)]
    return copy.deepcopy(other)


def plain_copy(data: Mapping[str, Any]) -> Dict[str, Any]:
    """Return a deep copy of a mapping as dicts and lists."""
    return {key: _plain(value) for key, value in data.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, AbstractMapping):
        return plain_copy(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
