"""Turn keyword arguments into records of options, for functions with dozens of them.

Salt's cmd.run and file.managed have too many parameters for a readable signature. Each such family
has one frozen record. A function has only the arguments that are passed by position as parameters;
`take` puts the others into the record.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Dict, FrozenSet, Mapping, Tuple, Type, TypeVar

from catena.core import frozen
from catena.core.errors import UsageError
from catena.core.suggest import assigned, unknown

T = TypeVar("T")

_TRUE = ("true", "yes", "on", "1")


def split(record: Type[T], values: Mapping[str, Any]) -> Tuple[T, Dict[str, Any]]:
    """Return *record* filled from *values*, and the values without a field."""
    names = _names(record)  # type: ignore[arg-type]  # a class is hashable
    known = {key: value for key, value in values.items() if key in names}
    return record(**known), {key: value for key, value in values.items() if key not in names}


@lru_cache(maxsize=64)  # there are about thirty such records
def _names(record: Type[Any]) -> FrozenSet[str]:
    return frozenset(field.name for field in frozen.fields(record))


def take(record: Type[T], values: Mapping[str, Any], what: str) -> T:
    """Return *record* filled from *values*; unknown names are an error.

    Names that begin with two underscores are dropped, because Salt passes internal arguments
    such as `__pub_jid`.

    Args:
        record: a dataclass whose fields have defaults.
        values: keyword arguments.
        what: name of the function, for the message.

    Raises:
        UsageError: an argument that the record lacks; the message names the nearest.
    """
    made, rest = split(record, values)
    for name in rest:
        if not name.startswith("__"):
            names = [field.name for field in frozen.fields(record)]  # type: ignore[arg-type]
            raise UsageError(f"{what}: {unknown('argument', name, names)}{assigned(name)}")
    return made


def truth(value: Any) -> bool:
    """Return whether *value* means yes: YAML booleans, and the words for them in strings."""
    if isinstance(value, str):
        return value.strip().lower() in _TRUE
    return bool(value)


def listed(value: Any) -> list[Any]:
    """Return *value* as a list: None is empty, strings are split at commas, scalars wrapped."""
    if value is None:
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    return [value]


def mapped(value: Any) -> Dict[str, Any]:
    """Return a mapping, or a list of one-key mappings (how SLS files write them), as one dict.

    Raises:
        UsageError: it is neither.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple)) and all(isinstance(part, Mapping) for part in value):
        return {key: item for part in value for key, item in part.items()}
    raise UsageError(f"expected a mapping or a list of mappings, found {type(value).__name__}")
