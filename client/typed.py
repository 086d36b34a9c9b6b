"""Decodes replies and stream items to typed records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Tuple, Type, TypeVar, Union, get_args, get_origin, get_type_hints

from catena.client.requests.contract import Ask
from catena.core.errors import RecordError
from catena.core.frozen import fields, is_dataclass
from catena.core.records import read

A = TypeVar("A")
I = TypeVar("I")  # noqa: E741 - an item


def reply_of(ask: Ask[Any, A, Any], data: Any) -> A:
    """Return the reply of a verb as its record.

    Args:
        ask: the verb's contract.
        data: the undecoded reply. Unknown fields are ignored, because a newer
            master may send more.

    Raises:
        RecordError: a field is missing or has another type.
    """
    value: A = tolerant(ask.reply(), data, ask.name)
    return value


def item_of(ask: Ask[Any, Any, I], data: Any) -> I:
    """Return an item of a stream as its record; otherwise like `reply_of`."""
    kinds = ask.streams() if ask.streams else ()
    kind = _item_type(kinds, data)
    if kind is None:
        known = ", ".join(_type_of(one) for one in kinds)
        raise RecordError(f"{ask.name}: an item has none of the types {known}")
    value: I = tolerant(kind, data, ask.name)
    return value


def _item_type(kinds: Tuple[Type[I], ...], data: Any) -> Any:
    if len(kinds) == 1:
        return kinds[0]
    name = data.get("type") if isinstance(data, Mapping) else None
    return next((kind for kind in kinds if _type_of(kind) == name), None)


def _type_of(kind: Any) -> str:
    return str(getattr(kind, "type", ""))


def tolerant(hint: Any, data: Any, path: str) -> Any:
    """Return *data* as what *hint* names, without the fields that this version does not know.

    Raises:
        RecordError: a field is missing or has another type.
    """
    try:
        return read(hint, data, path)
    except RecordError:
        # The data usually fits, so unknown fields are removed only if it does not.
        return read(hint, _known(hint, data), path)


def _known(hint: Any, data: Any) -> Any:
    """Return *data* without the fields that the records of *hint* do not have."""
    origin, inner = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(data, Mapping):
        hints = get_type_hints(hint)
        names = [field.name for field in fields(hint) if field.name in data]
        return {name: _known(hints[name], data[name]) for name in names}
    if origin is Union and data is not None:
        choices = [choice for choice in inner if choice is not type(None)]
        return _known(choices[0], data) if len(choices) == 1 else data
    if origin in (list, tuple) and isinstance(data, (list, tuple)):
        return [_known(inner[0], item) for item in data]
    if origin in (dict, Mapping) and isinstance(data, Mapping):
        return {key: _known(inner[1], item) for key, item in data.items()}
    return data
