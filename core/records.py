"""Frozen dataclasses to plain data and back, with every type checked when decoding.

One decoder serves the wire, job files and client requests, so untrusted data is checked in one
place. An unknown field, a missing field, a wrong type or an excess length is an error that names
its path. Supported annotations: bool, int, float, str, bytes, None, Any, Optional, Union of plain
types, Enum, nested records, tuple[X, ...], list[X], Mapping[str, X], Dict[str, X], NewType of str.

Written for Python 3.9: annotations of records use Optional and Union, not `X | None`.
"""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from collections.abc import Sequence as AbstractSequence
from enum import Enum
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import (
    Any,
    Callable,
    Dict,
    Mapping,
    Optional,
    Tuple,
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

#: Metadata of a field that was added later. While it has its default, it is left out of the data,
#: so that receivers which do not know it accept the record.
LATER = MappingProxyType({"later": True})


def formerly(name: str, read: Callable[[Any], Any]) -> Mapping[str, Any]:
    """Return metadata of a LATER field that older versions have under another name.

    Args:
        name: the former field. Data that have it are decoded; `encode` never writes it.
        read: returns plain data of the present field for those of the former one, which are not
            null.
    """
    return MappingProxyType({**LATER, "formerly": name, "read": read})


#: Stands for the type of an unknown field.
_UNKNOWN = object()
#: Range of integers that MessagePack supports: 64 bits, signed or unsigned.
_LEAST, _MOST = -(2**63), 2**64 - 1
#: Types that encode to themselves.
_AS_IS = frozenset({str, int, float, bool, bytes, type(None)})


def encode(value: Any) -> Any:
    """Return *value* with records as dicts, enums as their values and tuples as lists.

    An integer of more than 64 bits becomes decimal text: nearly always it is a job id that YAML
    read as a number.
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
    """Return a record or Enum as plain data, without encoding what it contains.

    For packers, which call it for each value that is not plain. `encode` gives the same result but
    walks through all the data itself. A packer passes only integers of more than 64 bits.

    Raises:
        TypeError: *value* has none of these types.
    """
    fields_of = _fields_of(type(value))  # type: ignore[arg-type]  # a class is hashable
    if fields_of is not None:
        return fields_of(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, AbstractMapping):
        return dict(value)
    if isinstance(value, int):
        return str(value)
    raise TypeError(f"can not serialize {type(value).__name__!r} object")


@cache
def _names(kind: Type[Any]) -> Optional[tuple[str, ...]]:
    """Return the names of a record's fields; None if *kind* is not a record."""
    if not frozen.is_dataclass(kind):
        return None
    return tuple(field.name for field in frozen.fields(kind))


@cache
def _fields_of(kind: Type[Any]) -> Optional[Callable[[Any], Dict[str, Any]]]:
    """Return a function that makes a dict of a record of *kind*; None for what is no record."""
    names = _names(kind)  # type: ignore[arg-type]  # a class is hashable
    if names is None:
        return None
    usual = _later(kind)[1]  # type: ignore[arg-type]  # a class is hashable
    if len(usual) < 2:
        return lambda value: {name: getattr(value, name) for name in _shown(value, names)}
    # Every message is made by this: a single call for all values takes half the time.
    values = attrgetter(*usual)

    def made(value: Any) -> Dict[str, Any]:
        shown = _shown(value, names)
        if shown is usual:
            return dict(zip(usual, values(value)))
        return {name: getattr(value, name) for name in shown}

    return made


def _shown(value: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the fields that appear in a record's data."""
    later, usual = _later(type(value))  # type: ignore[arg-type]  # a class is hashable
    for name, default in later.items():
        if getattr(value, name) != default:
            return tuple(n for n in names if n not in later or getattr(value, n) != later[n])
    return usual


@cache
def _later(kind: Type[Any]) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
    """Return the defaults of the fields marked `LATER`, and the names of all other fields."""
    fields = frozen.fields(kind)
    later = {f.name: f.default for f in fields if "later" in f.metadata}
    return later, tuple(f.name for f in fields if f.name not in later)


def decode(kind: Type[R], data: Any, path: str = "$") -> R:
    """Return *data* as a record of type *kind*.

    Raises:
        RecordError: *data* does not fit; the message names the path of the first error.
    """
    if type(data) is not dict and not isinstance(data, AbstractMapping):
        raise RecordError(f"{path}: expected a mapping for {kind.__name__}")
    known, hints, required = _fields(kind)  # type: ignore[arg-type]  # a class is hashable
    changed: Optional[Dict[str, Any]] = None
    for name, item in data.items():
        # Most fields are plain and need no conversion, so no path is built for them.
        found = known.get(name, _UNKNOWN)
        if found is type(item) or found is Any:
            continue
        if name not in hints:
            return decode(kind, _renamed(kind, data, str(name), path), path)
        if changed is None:
            changed = dict(data)
        changed[name] = _value(hints[name], item, f"{path}.{name}")
    if len(data) < len(hints) and not data.keys() >= required:
        raise RecordError(f"{path}: missing field {min(required - data.keys())!r}")
    return kind(**(data if changed is None else changed))


def _renamed(kind: Type[Any], data: Mapping[str, Any], name: str, path: str) -> Dict[str, Any]:
    """Return *data* with a former field under its present name.

    Raises:
        RecordError: *name* is no former field, or the present one is there as well.
    """
    hints = _fields(kind)[1]  # type: ignore[arg-type]  # a class is hashable
    found = next((f for f in frozen.fields(kind) if f.metadata.get("formerly") == name), None)
    if found is None:
        raise RecordError(f"{path}: {unknown('field', name, hints)}")
    left = {key: item for key, item in data.items() if key != name}
    if data[name] is None:
        return left
    if found.name in left:
        raise RecordError(f"{path}: {found.name!r} is there also as {name!r}")
    return {**left, found.name: found.metadata["read"](data[name])}


def read(hint: Any, data: Any, path: str = "$") -> Any:
    """Return *data* as the type of a supported annotation: a record, or a list or dict of records.

    Raises:
        RecordError: as `decode`.
    """
    return _value(hint, data, path)


@cache
def _fields(kind: Type[Any]) -> tuple[Dict[str, Any], Dict[str, Any], frozenset[str]]:
    """Return a record's plain field types, all its field types, and its required fields."""
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
    """Return origin and arguments of a type; a NewType is replaced by its base type."""
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
    # In Python bool is a subclass of int; on the wire they are different types.
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
