"""Frozen dataclasses to plain data and back, with every type checked on the way in.

One decoder serves the wire, job files and client requests, so that "untrusted" is handled once:
unknown field, missing field, wrong type and too long are errors that name the path. Supported
annotations: bool, int, float, str, bytes, None, Any, Optional, Union of plain types, Enum, nested
records, tuple[X, ...], list[X], Mapping[str, X], Dict[str, X], NewType of str.

Written for Python 3.9: annotations of records use Optional and Union, not `X | None`.
"""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from collections.abc import Sequence as AbstractSequence
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import (
    Any,
    Dict,
    Mapping,
    Optional,
    Type,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from catena.core import frozen
from catena.core.errors import RecordError
from catena.core.suggest import unknown

R = TypeVar("R")

#: Metadata of a field that came later: it is left out of the data while it has its default, so
#: that who does not know it yet takes the record as long as nobody uses it.
LATER = MappingProxyType({"later": True})

#: Stands for the type of a field that is none.
_UNKNOWN = object()
#: Integers that MessagePack carries: 64 bits, signed or not.
_LEAST, _MOST = -(2**63), 2**64 - 1
#: Types whose values are plain data as they stand.
_AS_IS = frozenset({str, int, float, bool, bytes, type(None)})


def encode(value: Any) -> Any:
    """Return *value* with records as dicts, enums as their values and tuples as lists.

    An integer of more than 64 bits is its decimal text: as an argument it is nearly always a job
    id, which YAML reads as a number.
    """
    kind = type(value)
    if kind in _AS_IS:
        return str(value) if kind is int and not _LEAST <= value <= _MOST else value
    names = _names(kind)  # type: ignore[arg-type]  # a class is hashable
    if names is not None:
        return {name: encode(getattr(value, name)) for name in _shown(value, names)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, AbstractMapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def plain(value: Any) -> Any:
    """Return a record or Enum as plain data, what is in it as it stands.

    For packers that know plain data, and ask for the rest: `encode` walks through all of it, and
    makes the same of it. An integer that a packer asks about has more than 64 bits.

    Raises:
        TypeError: it is none of them.
    """
    names = _names(type(value))  # type: ignore[arg-type]  # a class is hashable
    if names is not None:
        return {name: getattr(value, name) for name in _shown(value, names)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, AbstractMapping):
        return dict(value)
    if isinstance(value, int):
        return str(value)
    raise TypeError(f"can not serialize {type(value).__name__!r} object")


@cache
def _names(kind: Type[Any]) -> Optional[tuple[str, ...]]:
    """Return the names of a record's fields; None for what is no record."""
    if not frozen.is_dataclass(kind):
        return None
    return tuple(field.name for field in frozen.fields(kind))


def _shown(value: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the fields that a record's data have."""
    later = _later(type(value))  # type: ignore[arg-type]  # a class is hashable
    if not later:
        return names
    return tuple(n for n in names if n not in later or getattr(value, n) != later[n])


@cache
def _later(kind: Type[Any]) -> Dict[str, Any]:
    """Return the defaults of the fields that came `LATER`."""
    return {f.name: f.default for f in frozen.fields(kind) if "later" in f.metadata}


def decode(kind: Type[R], data: Any, path: str = "$") -> R:
    """Return *data* as a record of type *kind*.

    Raises:
        RecordError: *data* does not fit; the message names the path of the first fault.
    """
    if type(data) is not dict and not isinstance(data, AbstractMapping):
        raise RecordError(f"{path}: expected a mapping for {kind.__name__}")
    known, hints, required = _fields(kind)  # type: ignore[arg-type]  # a class is hashable
    changed: Optional[Dict[str, Any]] = None
    for name, item in data.items():
        # Most fields are plain, and stay as they are: no path is worth writing down for them.
        found = known.get(name, _UNKNOWN)
        if found is type(item) or found is Any:
            continue
        if name not in hints:
            raise RecordError(f"{path}: {unknown('field', str(name), hints)}")
        if changed is None:
            changed = dict(data)
        changed[name] = _value(hints[name], item, f"{path}.{name}")
    if len(data) < len(hints) and not data.keys() >= required:
        raise RecordError(f"{path}: missing field {min(required - data.keys())!r}")
    return kind(**(data if changed is None else changed))


def read(hint: Any, data: Any, path: str = "$") -> Any:
    """Return *data* as what a supported annotation names: a record, or a list or dict of records.

    Raises:
        RecordError: as `decode`.
    """
    return _value(hint, data, path)


@cache
def _fields(kind: Type[Any]) -> tuple[Dict[str, Any], Dict[str, Any], frozenset[str]]:
    """Return what a record's values are where that is plain, every field's type, who must be."""
    hints = get_type_hints(kind)
    fields = frozen.fields(kind)
    required = frozenset(
        f.name
        for f in fields
        if f.default is frozen.MISSING and f.default_factory is frozen.MISSING
    )
    types = {f.name: getattr(hints[f.name], "__supertype__", hints[f.name]) for f in fields}
    known = {name: hint for name, hint in types.items() if hint is Any or hint in _AS_IS}
    return known, types, required


@cache
def _shape(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return origin and arguments of a type; a NewType is what it is made of."""
    args = tuple(getattr(arg, "__supertype__", arg) for arg in get_args(hint))
    return get_origin(hint), args


def _value(hint: Any, data: Any, path: str) -> Any:
    if hint is Any:
        return data
    origin, inner = _shape(hint)
    if origin is Union:
        return _union(inner, data, path)
    if origin is tuple:
        return tuple(_items(inner[0], data, path))
    if origin is list or origin is AbstractSequence:
        return _items(inner[0], data, path)
    if origin in (dict, AbstractMapping, Mapping):
        return _mapping(inner, data, path)
    return _plain(hint, data, path)


def _plain(hint: Any, data: Any, path: str) -> Any:
    if frozen.is_dataclass(hint):
        return decode(hint, data, path)  # type: ignore[arg-type]  # checked by the line above
    if isinstance(hint, type) and issubclass(hint, Enum):
        try:
            return hint(data)
        except ValueError:
            names = [str(member.value) for member in hint]
            raise RecordError(f"{path}: {unknown('value', str(data)[:80], names)}") from None
    if hint is float and type(data) is int:
        return float(data)
    # bool is an int in Python; on the wire they are different things.
    if type(data) is hint or (hint is not bool and hint is not int and isinstance(data, hint)):
        return data
    raise RecordError(f"{path}: expected {hint.__name__}, got {type(data).__name__}")


def _union(choices: tuple[Any, ...], data: Any, path: str) -> Any:
    if data is None and type(None) in choices:
        return None
    fault = RecordError(f"{path}: null is not allowed")
    for choice in choices:
        if choice is type(None):
            continue
        try:
            return _value(choice, data, path)
        except RecordError as error:
            fault = error
    raise fault


def _items(hint: Any, data: Any, path: str) -> list[Any]:
    if not isinstance(data, (list, tuple)):
        raise RecordError(f"{path}: expected a list, got {type(data).__name__}")
    if hint is Any:
        return list(data)
    return [_value(hint, item, f"{path}[{index}]") for index, item in enumerate(data)]


def _mapping(hints: tuple[Any, ...], data: Any, path: str) -> Dict[str, Any]:
    if not isinstance(data, AbstractMapping):
        raise RecordError(f"{path}: expected a mapping, got {type(data).__name__}")
    inner = hints[1] if hints else Any
    for key in data:
        if not isinstance(key, str):
            raise RecordError(f"{path}: keys must be strings, got {type(key).__name__}")
    if inner is Any:
        return dict(data)
    return {key: _value(inner, item, f"{path}.{key}") for key, item in data.items()}
