"""defaults.*: default values of formulas, and merging for templates."""

from __future__ import annotations

import copy
from typing import Any, Dict, Mapping

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.nested import laid_over, recurse, traverse
from catena.core.plugins import function

_FILES = ("defaults.yaml", "defaults.json")


def _defaults_of(context: Context, formula: str) -> Dict[str, Any]:
    """Return the data of `<formula>/defaults.yaml` (or .json) in the file roots, or {}."""
    # Imported here: the renderers need third-party packages, which hosts over SSH may lack.
    from catena.renderers.pipeline import render
    from catena.renderers.source import Source

    for name in _FILES:
        path = f"{formula}/{name}"
        found = context.files.fetch(path, context.saltenv)
        if found is None:
            continue
        text = found.read_text(encoding="utf-8")
        kind = name.rpartition(".")[2]
        data = render(context, Source(text, f"salt://{path}", context.saltenv), kind).data
        return dict(data) if isinstance(data, Mapping) else {}
    return {}


@function(name="get", reads=True)
def get(context: Context, key: str, default: Any = "") -> Any:
    """Return the value of *key* in the pillar, or else in the formula's defaults.yaml.

    Args:
        context: the call's context.
        key: path that begins with the name of the formula (`core:users:root`).
        default: value if neither has the key.
    """
    formula = key.partition(":")[0]
    own = context.pillar.get(formula)
    joined = recurse(_defaults_of(context, formula), own if isinstance(own, Mapping) else {})
    return traverse({formula: joined}, key, default)


@function(name="merge", reads=True)
def merge(
    context: Context,
    dest: Any,
    src: Any,
    merge_lists: bool = False,
    in_place: bool = True,
    convert_none: bool = True,
) -> Any:
    """Merge *src* into *dest* and return the result.

    Args:
        context: the call's context.
        dest: the base.
        src: the values that win.
        merge_lists: append lists instead of replacing them.
        in_place: change *dest* itself.
        convert_none: treat None as an empty mapping.

    Raises:
        UsageError: one of them is no mapping.
    """
    if convert_none:
        dest, src = dest or {}, src or {}
    if not isinstance(dest, dict) or not isinstance(src, Mapping):
        raise UsageError("defaults.merge needs two mappings")
    if not in_place:
        return laid_over(dest, src, merge_lists)
    dest.update(recurse(dest, src, merge_lists))
    return dest


@function(name="deepcopy", reads=True)
def deepcopy(context: Context, source: Any) -> Any:
    """Return a deep copy of *source*."""
    return copy.deepcopy(source)


@function(name="update", reads=True)
def update(
    context: Context,
    dest: Mapping[str, Any],
    defaults: Mapping[str, Any],
    merge_lists: bool = True,
    in_place: bool = True,
    convert_none: bool = True,
) -> Dict[str, Any]:
    """Merge each mapping of *dest* into a copy of *defaults*.

    Args:
        context: the call's context.
        dest: mappings by name.
        defaults: the values that all of them share.
        merge_lists: append lists instead of replacing them.
        in_place: change *dest* itself if it is a dict.
        convert_none: treat None as an empty mapping.

    Raises:
        UsageError: one of them is no mapping.
    """
    if not isinstance(dest, Mapping) or not isinstance(defaults, Mapping):
        raise UsageError("defaults.update needs mappings")
    found: Dict[str, Any] = {}
    for key, value in dest.items():
        own = {} if value is None and convert_none else value
        found[key] = laid_over(defaults, own, merge_lists)
    if in_place and isinstance(dest, dict):
        dest.update(found)
        return dest
    return found
