"""Lookup tables of a tree (map files): the entry whose key matches a value."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping as AbstractMapping
from typing import Any, List, Mapping, Optional

from catena.core.errors import UsageError
from catena.core.nested import laid_over, plain_copy


def choose(
    table: Mapping[Any, Any],
    value: Any,
    merge: Optional[Mapping[str, Any]] = None,
    default: str = "default",
    base: Optional[str] = None,
) -> Any:
    """Return the entry of *table* whose key matches *value*.

    Args:
        table: entries by value; keys may be shell-style patterns.
        value: the value to look up; of a list, the first member that any key matches.
        merge: merged over the entry, in the table itself.
        default: key of the entry to use if no key matches.
        base: key of an entry over which the found one is merged.

    Returns:
        The entry; None if nothing matches and there is neither a default nor *merge*.

    Raises:
        UsageError: *merge* is not a mapping.
    """
    values = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
    chosen = (table[key] for each in values for key in _matching_keys(table, each))
    found: Any = next((one for one in chosen if one is not None), table.get(default))
    if base and base in table:
        found = laid_over(table[base], found) if found is not None else table[base]
    if merge:
        if not isinstance(merge, AbstractMapping):
            raise UsageError("filter_by: merge must be a dictionary")
        if not isinstance(found, dict):
            return plain_copy(merge)
        # Salt changes the table itself, and map files rely on it (recorded case
        # jinja/filter_by): a later call finds what an earlier one merged.
        found.update(laid_over(found, merge))
    return found


def _matching_keys(table: Mapping[Any, Any], value: Any) -> List[Any]:
    """Return the keys that match *value*, in the order of the table; a number matches as text."""
    text = str(value)
    return [key for key in table if fnmatch.fnmatchcase(text, str(key))]
