"""One rule for NaN and the infinities, which JSON does not support: they are sent as text."""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from math import isfinite
from typing import Any, Dict, TypeVar

from catena.core.frozen import fields, is_dataclass, replace

R = TypeVar("R")


def finite(value: Any) -> Any:
    """Return plain data with NaN and the infinities as text: "nan", "inf", "-inf".

    Refusing them would lose a function's return, and null would hide them.
    """
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, AbstractMapping):
        return {finite(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def finite_record(record: R) -> R:
    """Return a record whose plain data is `finite`.

    Fields of type float are unchanged; their readers check the value.
    """
    changed: Dict[str, Any] = {}
    for field in fields(record):  # type: ignore[arg-type]  # a record is a dataclass
        value = getattr(record, field.name)
        if is_dataclass(value):
            changed[field.name] = finite_record(value)
        elif field.type != "float":
            plain = finite(value)
            changed[field.name] = tuple(plain) if isinstance(value, tuple) else plain
    return replace(record, **changed)  # type: ignore[type-var]  # as above
