"""match.*: match this minion against target expressions."""

from __future__ import annotations

from typing import Any, List, Mapping, Union

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.nested import laid_over
from catena.core.plugins import function
from catena.core.target import Subject, TargetError, parse


def _matches(
    context: Context,
    tgt: Union[str, List[str]],
    kind: str,
    delimiter: str = ":",
    minion_id: str = "",
) -> bool:
    """Return whether this minion matches; a malformed expression matches nothing, as in Salt."""
    minion = str(minion_id or context.opts.get("id") or context.grains.get("id", ""))
    nodegroups = context.opts.get("nodegroups") or {}
    try:
        target = parse(tgt, kind, nodegroups, delimiter)
    except TargetError:
        return False
    return target.matches(Subject(minion, context.grains, context.pillar))


@function(inline=True)
def compound(context: Context, tgt: str, minion_id: str = "") -> bool:
    """Return whether this minion matches a compound expression."""
    return _matches(context, tgt, "compound", minion_id=minion_id)


@function(name="glob", inline=True)
def glob_(context: Context, tgt: str, minion_id: str = "") -> bool:
    """Return whether this minion's id matches a shell pattern."""
    return _matches(context, tgt, "glob", minion_id=minion_id)


@function(inline=True)
def pcre(context: Context, tgt: str, minion_id: str = "") -> bool:
    """Return whether this minion's id matches a regular expression."""
    return _matches(context, tgt, "pcre", minion_id=minion_id)


@function(name="list", inline=True)
def list_(context: Context, tgt: Union[str, List[str]], minion_id: str = "") -> bool:
    """Return whether this minion's id is in a list, to the letter: a blank is part of an id."""
    ids = tgt.split(",") if isinstance(tgt, str) else [str(each) for each in tgt]
    return str(minion_id or context.opts.get("id") or context.grains.get("id", "")) in ids


@function(inline=True)
def grain(context: Context, tgt: str, delimiter: str = ":") -> bool:
    """Return whether a grain matches a shell pattern (`os:Deb*`)."""
    return _matches(context, tgt, "grain", delimiter)


@function(inline=True)
def grain_pcre(context: Context, tgt: str, delimiter: str = ":") -> bool:
    """Return whether a grain matches a regular expression."""
    return _matches(context, tgt, "grain_pcre", delimiter)


@function(reads=True)
def pillar(context: Context, tgt: str, delimiter: str = ":") -> bool:
    """Return whether a pillar value matches a shell pattern."""
    return _matches(context, tgt, "pillar", delimiter)


@function(reads=True)
def pillar_pcre(context: Context, tgt: str, delimiter: str = ":") -> bool:
    """Return whether a pillar value matches a regular expression."""
    return _matches(context, tgt, "pillar_pcre", delimiter)


@function(inline=True)
def data(context: Context, tgt: str) -> bool:
    """Return False: there is no data store to match."""
    return False


@function(inline=True)
def ipcidr(context: Context, tgt: str) -> bool:
    """Return whether this minion has an address, or one in a network."""
    return _matches(context, tgt, "ipcidr")


@function(reads=True)
def search_by(context: Context, targets: Mapping[str, Any], minion_id: str = "") -> Any:
    """Return the keys of *targets* any of whose compound expressions match; None: none does."""
    found = [
        key
        for key, expressions in targets.items()
        if any(
            _matches(context, str(one), "compound", minion_id=minion_id)
            for one in (expressions if isinstance(expressions, list) else [expressions])
        )
    ]
    return found or None


@function(reads=True)
def filter_by(
    context: Context,
    lookup: Mapping[str, Any],
    tgt_type: str = "compound",
    minion_id: str = "",
    merge: Any = None,
    merge_lists: bool = False,
    default: str = "default",
) -> Any:
    """Return the value of the first key of *lookup* that matches, with *merge* joined into it."""
    found: Any = lookup.get(default)
    for expression, value in lookup.items():
        if _matches(context, expression, tgt_type, minion_id=minion_id):
            found = value
            break
    return laid_over(found, merge, merge_lists) if merge else found


@function(reads=True)
def ifelse(
    context: Context,
    *args: Any,
    tgt_type: str = "compound",
    minion_id: str = "",
    merge: Any = None,
    merge_lists: bool = False,
) -> Any:
    """Return the value after the first target that matches; the last argument where none does.

    Args:
        context: the call's context.
        args: target, value, target, value, …, default; True and False are targets too.
        tgt_type: kind of the targets.
        minion_id: match this id instead of this minion's.
        merge: mapping that is merged into the value.
        merge_lists: append lists instead of replacing them.

    Raises:
        UsageError: an even number of arguments.
    """
    if len(args) % 2 == 0:
        raise UsageError("The ifelse function must have an odd number of arguments!")
    for target, value in zip(args[::2], args[1::2]):
        met = target
        if not isinstance(target, bool):
            met = _matches(context, target, tgt_type, minion_id=minion_id)
        if met:
            return laid_over(value, merge, merge_lists) if merge else value
    return args[-1]
