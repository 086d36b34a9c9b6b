"""Salt's filters on lists and mappings."""

from __future__ import annotations

import itertools
import re
from fnmatch import fnmatchcase
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence

from jinja2.exceptions import TemplateRuntimeError

from catena.core.nested import traverse as traverse_data
from catena.renderers.filters_text import to_number


def unique(values: Iterable[Any]) -> List[Any]:
    """Return the values without repetitions, in their order."""
    found: List[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def union(first: Iterable[Any], second: Iterable[Any]) -> List[Any]:
    """Return the union of two lists."""
    return unique([*first, *second])


def intersect(first: Iterable[Any], second: Iterable[Any]) -> List[Any]:
    """Return the intersection of two lists."""
    other = list(second)
    return unique(value for value in first if value in other)


def difference(first: Iterable[Any], second: Iterable[Any]) -> List[Any]:
    """Return the members of the first list that the second lacks."""
    other = list(second)
    return unique(value for value in first if value not in other)


def symmetric_difference(first: Iterable[Any], second: Iterable[Any]) -> List[Any]:
    """Return the members that only one of two lists has."""
    one, two = list(first), list(second)
    return unique([*difference(one, two), *difference(two, one)])


def average(values: Any) -> float:
    """Return the mean of numbers; a single number is returned as it is."""
    if isinstance(values, (int, float)):
        return float(values)
    numbers = list(values)
    if not numbers:
        raise TemplateRuntimeError("avg of an empty list")
    return float(sum(numbers)) / len(numbers)


def flatten(
    values: Iterable[Any], levels: Optional[int] = None, preserve_nulls: bool = False
) -> List[Any]:
    """Return nested lists as one, down to *levels*; nulls are dropped unless wanted (case 41).

    A mapping gives its keys.
    """
    found: List[Any] = []
    for value in values:
        if value is None or value in ("null", "None"):
            if preserve_nulls:
                found.append(value)
        elif is_iterable(value) and (levels is None or levels >= 1):
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
    """Return whether *value* is a list."""
    return isinstance(value, list)


def is_iterable(value: Any, ignore: Any = (str,)) -> bool:
    """Return whether *value* is iterable and of no type in *ignore*."""
    return isinstance(value, Iterable) and not isinstance(value, ignore)


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


def set_key(
    data: Dict[Any, Any], keys: str, value: Any, delimiter: str = ":", ordered_dict: bool = False
) -> Dict[Any, Any]:
    """Set the value at "a:b" and return the mapping; every mapping is ordered."""
    holder, last = _holder(data, keys, delimiter)
    holder[last] = value
    return data


def append_key(
    data: Dict[Any, Any], keys: str, value: Any, delimiter: str = ":", ordered_dict: bool = False
) -> Dict[Any, Any]:
    """Append to the list at "a:b" and return the mapping."""
    holder, last = _holder(data, keys, delimiter)
    holder.setdefault(last, []).append(value)
    return data


def extend_key(
    data: Dict[Any, Any], keys: str, value: Any, delimiter: str = ":", ordered_dict: bool = False
) -> Dict[Any, Any]:
    """Extend the list at "a:b" and return the mapping."""
    holder, last = _holder(data, keys, delimiter)
    holder.setdefault(last, []).extend(value)
    return data


def update_key(
    data: Dict[Any, Any], keys: str, value: Any, delimiter: str = ":", ordered_dict: bool = False
) -> Dict[Any, Any]:
    """Update the mapping at "a:b" and return the whole."""
    holder, last = _holder(data, keys, delimiter)
    holder.setdefault(last, {}).update(value)
    return data


def substring_in_list(text: str, values: Iterable[Any]) -> bool:
    """Return whether *text* is part of any member."""
    return any(text in str(value) for value in values)


def check_lists(value: str, whitelist: Any = None, blacklist: Any = None) -> bool:
    """Return whether a name passes: on the first list if given, not on the second.

    Members are names, globs or regular expressions of the whole name.
    """
    if blacklist and _on_list(value, blacklist):
        return False
    return not whitelist or _on_list(value, whitelist)


def _on_list(value: Any, members: Any) -> bool:
    texts = [members] if isinstance(members, str) else members
    return isinstance(value, str) and any(_is_member(value, str(text)) for text in texts)


def _is_member(value: str, text: str) -> bool:
    try:
        return fnmatchcase(value, text) or re.fullmatch(text, value) is not None
    except re.error:
        return False


def product(first: Iterable[Any], *others: Iterable[Any], repeat: int = 1) -> Iterator[Any]:
    """Return the pairs of two lists."""
    return itertools.product(first, *others, repeat=repeat)


def exactly(values: Iterable[Any], amount: int = 1) -> bool:
    """Return whether *amount* of the values are true."""
    return sum(1 for value in values if value) == amount


def to_entries(data: Any) -> List[Dict[str, Any]]:
    """Return a mapping or list as a list of {"key": …, "value": …}."""
    if not isinstance(data, (Mapping, list)):
        raise TemplateRuntimeError("to_entries takes a mapping or a list")
    pairs = data.items() if isinstance(data, Mapping) else enumerate(data)
    return [{"key": key, "value": value} for key, value in pairs]


def from_entries(entries: Iterable[Mapping[str, Any]]) -> Dict[Any, Any]:
    """Return the mapping of a list of {"key" (or "name"): …, "value": …}, in any case."""
    found = {}
    for entry in entries:
        lower = {str(name).lower(): value for name, value in entry.items()}
        key = lower.get("key") or lower.get("name")
        if key:
            found[key] = lower.get("value")
    return found


def mysql_table(lines: Iterable[str], key: str) -> Dict[Any, Dict[str, Any]]:
    """Return the rows of a table as mysql draws it, by their value in column *key*."""
    rows = [line.split("|") for line in lines if line and not line.startswith("+")]
    names = [name.strip() for name in rows[0][1:-1]] if rows else []
    found = {}
    for cells in rows[1:]:
        row = {name: to_number(cell.strip()) for name, cell in zip(names, cells[1:])}
        found[row[key]] = row
    return found


def encoded(value: Any, encoding: str = "utf-8") -> Any:
    """Return nested data with every text, keys too, as bytes."""
    if isinstance(value, str):
        return value.encode(encoding)
    if isinstance(value, Mapping):
        return {encoded(key, encoding): encoded(item, encoding) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encoded(item, encoding) for item in value]
    return value


def query(data: Any, expression: str) -> Any:
    """Return what a JMESPath expression finds in *data*.

    Raises:
        TemplateRuntimeError: the package jmespath is not installed, or the expression is wrong.
    """
    try:
        import jmespath  # type: ignore[import-untyped]  # no stubs, and may be missing
    except ImportError:
        raise TemplateRuntimeError(
            "the filter json_query needs the Python package jmespath on this host"
        ) from None
    try:
        return jmespath.search(expression, data)
    except jmespath.exceptions.JMESPathError as error:
        raise TemplateRuntimeError(f"json_query {expression!r}: {error}") from None


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
    "exactly_n_true": exactly,
    "exactly_one_true": exactly,
    "to_entries": to_entries,
    "from_entries": from_entries,
    "mysql_to_dict": mysql_table,
    "json_encode_dict": encoded,
    "json_decode_dict": encoded,
    "json_encode_list": lambda values: [encoded(value) for value in values],
    "json_decode_list": lambda values: [encoded(value) for value in values],
    "json_query": query,
    "combinations": itertools.combinations,
    "combinations_with_replacement": itertools.combinations_with_replacement,
    "compress": itertools.compress,
    "permutations": itertools.permutations,
    "product": product,
    "zip": zip,
    "zip_longest": itertools.zip_longest,
}
