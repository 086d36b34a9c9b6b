"""config.*: look up values in the minion's options, grains and pillar."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from catena.core.context import Context
from catena.core.nested import recurse, traverse
from catena.core.plugins import function

_MISSING = object()


def _sources(context: Context, **omit: bool) -> Dict[str, Mapping[str, Any]]:
    found: Dict[str, Mapping[str, Any]] = {
        "opts": context.opts,
        "grains": context.grains,
        "pillar": context.pillar,
    }
    return {name: tree for name, tree in found.items() if not omit.get(f"omit_{name}")}


def _merged(low: Any, high: Any, deep: bool) -> Any:
    if not (isinstance(low, Mapping) and isinstance(high, Mapping)):
        return high
    return recurse(low, high) if deep else {**low, **high}


@function(reads=True)
def get(
    context: Context,
    key: str,
    default: Any = "",
    delimiter: str = ":",
    merge: Optional[str] = None,
    omit_opts: bool = False,
    omit_pillar: bool = False,
    omit_master: bool = False,
    omit_grains: bool = False,
) -> Any:
    """Return a value from the options, the grains or the pillar, in this order, or *default*.

    Args:
        context: the call's context.
        key: name or path (`nginx:port`).
        default: value if no source has the key.
        delimiter: separator of the names in a path.
        merge: "recurse" or "overwrite": merge the mappings of all sources; options win.
        omit_opts: ignore the options.
        omit_pillar: ignore the pillar.
        omit_master: accepted without effect; pillar does not contain the master's options.
        omit_grains: ignore the grains.
    """
    sources = _sources(
        context, omit_opts=omit_opts, omit_pillar=omit_pillar, omit_grains=omit_grains
    )
    if not merge:
        for tree in sources.values():
            found = traverse(tree, key, _MISSING, delimiter)
            if found is not _MISSING:
                return found
        return default
    joined: Any = {}
    for name in ("pillar", "grains", "opts"):
        found = traverse(sources.get(name, {}), key, _MISSING, delimiter)
        if found is not _MISSING:
            joined = _merged(joined, found, merge == "recurse")
    return joined or default


@function(reads=True)
def option(
    context: Context,
    value: str,
    default: Any = "",
    omit_opts: bool = False,
    omit_grains: bool = False,
    omit_pillar: bool = False,
) -> Any:
    """Return the option, grain or pillar value named exactly *value*, without paths."""
    sources = _sources(
        context, omit_opts=omit_opts, omit_pillar=omit_pillar, omit_grains=omit_grains
    )
    for tree in sources.values():
        if value in tree:
            return tree[value]
    return default


@function(reads=True)
def merge(context: Context, value: str, default: Any = "") -> Any:
    """Return the merged mappings or lists named *value* of options and pillar."""
    found: Any = None
    for tree in _sources(context, omit_grains=True).values():
        part = tree.get(value)
        if part is None:
            continue
        if isinstance(part, str):
            return part
        if isinstance(part, Mapping):
            found = {**part, **(found or {})}
        elif isinstance(part, list):
            found = [*(found or []), *part]
    return default if found is None else found


@function(reads=True)
def dot_vals(context: Context, value: str) -> Dict[str, Any]:
    """Return the options and pillar values whose names begin with *value* and a dot."""
    found = {}
    for tree in (context.pillar, context.opts):
        found.update({key: tree[key] for key in tree if str(key).startswith(f"{value}.")})
    return found


@function(reads=True)
def items(context: Context) -> Dict[str, Any]:
    """Return the minion's options."""
    return dict(context.opts)


@function(reads=True)
def manage_mode(context: Context, mode: Any) -> Optional[str]:
    """Return permission bits as four octal digits, as text: "0644"."""
    if mode is None:
        return None
    return str(mode).replace("0o", "0").strip("\"'").lstrip("0").zfill(4)


@function(reads=True)
def backup_mode(context: Context, backup: str = "") -> Any:
    """Return *backup*, else the option `backup_mode`."""
    return backup or option(context, "backup_mode")


@function(reads=True)
def valid_fileproto(context: Context, uri: str) -> bool:
    """Return whether a file can be fetched from *uri*."""
    return str(uri).startswith(("salt://", "http://", "https://", "file://"))
