"""Salt's filters on lists and mappings."""

from __future__ import annotations

import itertools
from fnmatch import fnmatchcase
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence

from jinja2.exceptions import TemplateRuntimeError

from catena.core.nested import traverse as traverse_data


def unique(values: Iterable[Any]) -> List[Any]:
    """Return the values without repetitions, in their order."""
    found: List[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def union(first: Iterable[Any], second: Iterable[Any]) -> List[Any]:
    """Return what is in either."""
    return unique([*first, *second])


def intersect(first: Iterable[Any], second: Iterable[Any]) -> List[Any]:
    """Return what is in both."""
    other = list(second)
    return unique(value for value in first if value in other)


def difference(first: Iterable[Any], second: Iterable[Any]) -> List[Any]:
    """Return what only the first has."""
    other = list(second)
    return unique(value for value in first if value not in other)


def symmetric_difference(first: Iterable[Any], second: Iterable[Any]) -> List[Any]:
    """Return what only one of them has."""
    one, two = list(first), list(second)
    return unique([*difference(one, two), *difference(two, one)])


def average(values: Iterable[Any]) -> float:
    """Return the mean."""
    numbers = list(values)
    if not numbers:
        raise TemplateRuntimeError("avg of an empty list")
    return float(sum(numbers)) / len(numbers)


def flatten(
    values: Iterable[Any], levels: Optional[int] = None, preserve_nulls: bool = False
) -> List[Any]:
    """Return nested lists as one, down to *levels*; nulls are dropped unless wanted (case 41)."""
    found: List[Any] = []
    for value in values:
        if value is None or value == "null":
            if preserve_nulls:
                found.append(value)
        elif isinstance(value, (list, tuple)) and (levels is None or levels >= 1):
            deeper = None if levels is None else levels - 1
            found += flatten(value, deeper, preserve_nulls)
        else:
            found.append(value)
    return found


def traverse(data: Any, key: str, default: Any = None, delimiter: str = ":") -> Any:
    """Return what lies at "a:b:0" in nested data, or *default*."""
    return traverse_data(data, str(key), default, delimiter)


def method_call(value: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    """Return what a method of *value* returns; names with underscores are refused."""
    if method.startswith("_"):
        raise TemplateRuntimeError(f"the method {method!r} is private")
    found = getattr(value, method, None)
    return found(*args, **kwargs) if callable(found) else None


def is_list(value: Any) -> bool:
    """Return whether it is a list."""
    return isinstance(value, list)


def is_iterable(value: Any) -> bool:
    """Return whether it can be walked; texts don't count."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))


def is_sorted(values: Sequence[Any], key: Any = None, reverse: bool = False) -> bool:
    """Return whether a list is in order."""
    members = list(values)
    return members == sorted(members, key=key, reverse=reverse)


def sequence(value: Any) -> Any:
    """Return *value* as a list, unless it is one (or a mapping, set or tuple) already."""
    return value if isinstance(value, (list, tuple, set, dict)) else [value]


def compare_lists(old: Optional[List[Any]], new: Optional[List[Any]]) -> Dict[str, Any]:
    """Return {"old": …, "new": …} of what only one list has."""
    before, after = old or [], new or []
    found = {"new": difference(after, before), "old": difference(before, after)}
    return {key: values for key, values in found.items() if values}


def compare_dicts(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> Dict[Any, Any]:
    """Return key -> {"old": …, "new": …} where two mappings differ; "" where one lacks it."""
    keys = unique([*(old or {}), *(new or {})])
    return {
        key: {"old": old.get(key, ""), "new": new.get(key, "")}
        for key in keys
        if key not in old or key not in new or old[key] != new[key]
    }


def _holder(data: Any, keys: str, delimiter: str) -> tuple[Any, str]:
    """Return the mapping that holds the last of *keys*, made where it is missing."""
    *above, last = keys.split(delimiter)
    holder = data
    for key in above:
        if not isinstance(holder.get(key), dict):
            holder[key] = {}
        holder = holder[key]
    return holder, last


def set_key(data: Dict[Any, Any], keys: str, value: Any, delimiter: str = ":") -> Dict[Any, Any]:
    """Set the value at "a:b" and return the mapping."""
    holder, last = _holder(data, keys, delimiter)
    holder[last] = value
    return data


def append_key(
    data: Dict[Any, Any], keys: str, value: Any, delimiter: str = ":"
) -> Dict[Any, Any]:
    """Append to the list at "a:b" and return the mapping."""
    holder, last = _holder(data, keys, delimiter)
    holder.setdefault(last, []).append(value)
    return data


def extend_key(
    data: Dict[Any, Any], keys: str, value: Any, delimiter: str = ":"
) -> Dict[Any, Any]:
    """Extend the list at "a:b" and return the mapping."""
    holder, last = _holder(data, keys, delimiter)
    holder.setdefault(last, []).extend(value)
    return data


def update_key(
    data: Dict[Any, Any], keys: str, value: Any, delimiter: str = ":"
) -> Dict[Any, Any]:
    """Update the mapping at "a:b" and return the whole."""
    holder, last = _holder(data, keys, delimiter)
    holder.setdefault(last, {}).update(value)
    return data


def substring_in_list(text: str, values: Iterable[Any]) -> bool:
    """Return whether *text* is part of any member."""
    return any(text in str(value) for value in values)


def check_lists(
    value: str,
    whitelist: Optional[Iterable[str]] = None,
    blacklist: Optional[Iterable[str]] = None,
) -> bool:
    """Return whether a name passes: on the first list of globs if given, not on the second."""
    if blacklist and any(fnmatchcase(value, glob) for glob in blacklist):
        return False
    return not whitelist or any(fnmatchcase(value, glob) for glob in whitelist)


def product(first: Iterable[Any], *others: Iterable[Any], repeat: int = 1) -> Iterator[Any]:
    """Return the pairs of two lists."""
    return itertools.product(first, *others, repeat=repeat)


FILTERS: Dict[str, Callable[..., Any]] = {
    "unique": unique,
    "union": union,
    "intersect": intersect,
    "difference": difference,
    "symmetric_difference": symmetric_difference,
    "min": min,
    "max": max,
    "avg": average,
    "flatten": flatten,
    "traverse": traverse,
    "method_call": method_call,
    "is_list": is_list,
    "is_iter": is_iterable,
    "is_sorted": is_sorted,
    "sorted_ignorecase": lambda values: sorted(values, key=lambda value: str(value).lower()),
    "sequence": sequence,
    "compare_lists": compare_lists,
    "compare_dicts": compare_dicts,
    "set_dict_key_value": set_key,
    "append_dict_key_value": append_key,
    "extend_dict_key_value": extend_key,
    "update_dict_key_value": update_key,
    "substring_in_list": substring_in_list,
    "check_whitelist_blacklist": check_lists,
    "ifelse": lambda *given: next((b for a, b in zip(given[::2], given[1::2]) if a), given[-1]),
    "combinations": itertools.combinations,
    "combinations_with_replacement": itertools.combinations_with_replacement,
    "compress": itertools.compress,
    "permutations": itertools.permutations,
    "product": product,
    "zip": zip,
    "zip_longest": itertools.zip_longest,
}
