"""Changes of a grain that need `force`, for the states and functions of grains."""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from typing import Any, Mapping

from catena.core.nested import MISSING, traverse

_FORCE = "Use 'force=True' to overwrite."


def is_tree(value: Any) -> bool:
    """Return whether a grain's value is a mapping or a list."""
    return isinstance(value, (AbstractMapping, list, tuple))


def refusal(grains: Mapping[str, Any], key: str, value: Any, delimiter: str) -> str:
    """Return why the grain *key* may not become *value* without force, or "".

    Without force, a mapping or list is not replaced by a plain value or the reverse, and no key is
    set below a plain value, which would be lost.
    """
    present = traverse(grains, key, None, delimiter)
    if is_tree(present):
        return f"The key '{key}' exists but is a dict or a list. {_FORCE}"
    if present is not None and is_tree(value):
        return f"The key '{key}' exists and the given value is a dict or a list. {_FORCE}"
    parts = key.split(delimiter)
    for count in range(1, len(parts)):
        above = delimiter.join(parts[:count])
        found = traverse(grains, above, MISSING, delimiter)
        if found is not MISSING and not isinstance(found, AbstractMapping):
            return (
                f"The key '{above}' value is '{found}', which is different from the provided key "
                f"'{parts[count]}'. {_FORCE}"
            )
    return ""
