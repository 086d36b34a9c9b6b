"""Checks data against the keywords of JSON Schema that `client.requests.schema` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPES: Mapping[str, Any] = {
    "string": (str, bytes),
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
    "array": (list, tuple),
    "object": Mapping,
}
KEYWORDS = {
    "title", "description", "type", "properties", "required", "additionalProperties", "items",
    "anyOf", "enum", "contentEncoding",
}  # fmt: skip


def faults(schema: Mapping[str, Any], data: Any, path: str = "$") -> list[str]:
    """Return why *data* do not fit; an unknown keyword is an error of the schema."""
    assert schema.keys() <= KEYWORDS, schema.keys() - KEYWORDS
    if "anyOf" in schema:
        found = [faults(choice, data, path) for choice in schema["anyOf"]]
        return [] if any(not one for one in found) else [f"{path}: fits no choice: {found}"]
    if "enum" in schema and data not in schema["enum"]:
        return [f"{path}: {data!r} is none of {schema['enum']}"]
    name = schema.get("type")
    if name and not _is(name, data):
        return [f"{path}: {data!r} is no {name}"]
    if name == "array":
        items = enumerate(data)
        return [one for n, item in items for one in faults(schema["items"], item, f"{path}[{n}]")]
    return _object(schema, data, path) if name == "object" else []


def _is(name: str, data: Any) -> bool:
    return isinstance(data, _TYPES[name]) and (name == "boolean" or not isinstance(data, bool))


def _object(schema: Mapping[str, Any], data: Mapping[str, Any], path: str) -> list[str]:
    known, more = schema.get("properties", {}), schema["additionalProperties"]
    found = [
        f"{path}: {name} is missing" for name in schema.get("required", ()) if name not in data
    ]
    for name, value in data.items():
        if name not in known and more is False:
            found.append(f"{path}: {name} is unknown")
            continue
        inner = known.get(name, more)
        found += faults(inner, value, f"{path}.{name}")
    return found
