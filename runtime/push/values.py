"""Conversion of values of SLS files and functions to JSON and back, without loss.

In JSON, keys are strings only (a pillar may hold `{80: http}`), and there are no bytes, tuples,
sets or dates. They are encoded as `{"~": kind, "v": …}`, and so is a mapping with the key "~".
Records are encoded as mappings of their fields; the reader knows the record's type. A value of any
other type is encoded as its text, as in every other output of a host.
"""

from __future__ import annotations

import base64
import json
from datetime import date, datetime, time
from enum import Enum
from typing import Any, Callable, Dict, Mapping

from catena.core.errors import LimitError, RecordError
from catena.core.frozen import fields, is_dataclass

#: Maximum nesting depth; far more than useful YAML and JSON files have.
DEPTH_LIMIT = 150
_KIND = "~"


def dumps(value: Any) -> bytes:
    """Return *value* as JSON.

    Raises:
        LimitError: *value* is nested too deeply, or contains itself.
    """
    return json.dumps(pack(value), separators=(",", ":")).encode("ascii")


def loads(data: bytes) -> Any:
    """Decode the output of `dumps`.

    Raises:
        RecordError: *data* is not output of `dumps`.
        LimitError: the value is nested too deeply.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"no JSON: {error}") from None
    return unpack(found)


def pack(value: Any, depth: int = 0) -> Any:
    """Return *value* as JSON-compatible data, encoded as the module's docstring says.

    Raises:
        LimitError: *value* is nested too deeply, or contains itself.
    """
    if value is None or type(value) in (str, bool, int, float):
        return value
    if depth > DEPTH_LIMIT:
        raise LimitError(f"a value is nested more than {DEPTH_LIMIT} deep")
    inner = depth + 1
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: pack(getattr(value, one.name), inner) for one in fields(value)}
    if isinstance(value, Mapping):
        return _pack_mapping(value, inner)
    if isinstance(value, list):
        return [pack(item, inner) for item in value]
    if isinstance(value, Enum):
        return pack(value.value, inner)
    for kind, (types, to_json, _) in _KINDS.items():
        if isinstance(value, types):
            return {_KIND: kind, "v": to_json(value, inner)}
    for base in (str, bool, int, float):
        if isinstance(value, base):
            return base(value)
    return str(value)


def _pack_mapping(value: Mapping[Any, Any], depth: int) -> Any:
    if all(type(key) is str for key in value) and _KIND not in value:
        return {key: pack(item, depth) for key, item in value.items()}
    pairs = [[pack(key, depth), pack(item, depth)] for key, item in value.items()]
    return {_KIND: "map", "v": pairs}


def unpack(data: Any, depth: int = 0) -> Any:
    """Decode the output of `pack`.

    Raises:
        RecordError: *data* is not output of `pack`.
        LimitError: the value is nested too deeply.
    """
    if depth > DEPTH_LIMIT:
        raise LimitError(f"a value is nested more than {DEPTH_LIMIT} deep")
    inner = depth + 1
    if isinstance(data, list):
        return [unpack(item, inner) for item in data]
    if not isinstance(data, dict):
        return data
    if _KIND not in data:
        return {key: unpack(item, inner) for key, item in data.items()}
    try:
        kind, content = data[_KIND], data["v"]
        if kind == "map":
            return {_hashable(unpack(k, inner)): unpack(item, inner) for k, item in content}
        return _KINDS[kind][2](content, inner)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"a value is malformed: {type(error).__name__}: {error}") from None


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def _items(value: Any, depth: int) -> Any:
    return [pack(item, depth) for item in value]


def _sorted_items(value: Any, depth: int) -> Any:
    return [pack(item, depth) for item in sorted(value, key=str)]


def _text(value: Any, depth: int) -> str:
    return str(value.isoformat())


def _base64(value: Any, depth: int) -> str:
    return base64.b64encode(bytes(value)).decode("ascii")


_ToJson = Callable[[Any, int], Any]

#: kind -> (types, to JSON, from JSON). "datetime" precedes "date", of which it is a subclass.
_KINDS: Dict[str, tuple[Any, _ToJson, _ToJson]] = {
    "bytes": ((bytes, bytearray), _base64, lambda data, _: base64.b64decode(data, validate=True)),
    "tuple": (tuple, _items, lambda data, depth: tuple(unpack(i, depth) for i in data)),
    "set": ((set, frozenset), _sorted_items, lambda data, depth: {unpack(i, depth) for i in data}),
    "datetime": (datetime, _text, lambda data, _: datetime.fromisoformat(data)),
    "date": (date, _text, lambda data, _: date.fromisoformat(data)),
    "time": (time, _text, lambda data, _: time.fromisoformat(data)),
}
