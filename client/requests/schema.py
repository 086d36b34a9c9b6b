"""JSON Schema of request and reply records, for documentation and for checks of real replies."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Dict, Union, get_args, get_origin, get_type_hints

from catena.client.requests.contract import AnyAsk
from catena.core.frozen import MISSING, fields, is_dataclass

_PLAIN: Mapping[Any, Dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    #: In JSON: base64.
    bytes: {"type": "string", "contentEncoding": "base64"},
    type(None): {"type": "null"},
}


def of_ask(ask: AnyAsk) -> Dict[str, Any]:
    """Return the schemas of a verb: its request, its reply and, of a stream, its items."""
    found = {"request": schema(ask.request), "reply": schema(ask.reply())}
    if ask.streams:
        found["item"] = {"anyOf": [schema(kind) for kind in ask.streams()]}
    return found


def schema(hint: Any) -> Dict[str, Any]:
    """Return the JSON Schema (2020-12) of a record or of a type that records may have.

    Raises:
        TypeError: records can't have this type.
    """
    hint = getattr(hint, "__supertype__", hint)
    if hint is Any or hint is object:
        return {}
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    if is_dataclass(hint):
        return _record(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Union:
        return {"anyOf": [schema(choice) for choice in inner]}
    if origin in (list, tuple):
        return {"type": "array", "items": schema(inner[0])}
    if hint is dict or origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema(inner[1]) if inner else {}}
    raise TypeError(f"no schema for {hint!r}")


def _record(kind: Any) -> Dict[str, Any]:
    hints = get_type_hints(kind)
    properties: Dict[str, Any] = {}
    required = []
    for field in fields(kind):
        properties[field.name] = schema(hints[field.name])
        if field.default is MISSING and field.default_factory is MISSING:
            required.append(field.name)
    doc = (kind.__doc__ or "").strip().partition("\n")[0]
    return {
        "title": kind.__name__,
        "description": doc,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
