"""grains.*: read this host's grains, and change those in its static grains file."""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.files import write_durable
from catena.core.nested import MISSING, plain_copy, set_at, traverse
from catena.core.plugins import function
from catena.core.tables import choose
from catena.modules.shared.grain_rules import refusal
from catena.runtime.grains.collect import static_grains

_DEFAULT = ""


@function(reads=True)
def items(context: Context, sanitize: bool = False) -> Dict[str, Any]:
    """Return all grains.

    Args:
        context: the call's context.
        sanitize: replace values that identify the machine by `XXXX`.
    """
    found = plain_copy(context.grains)
    return _sanitized(found) if sanitize else found


@function(reads=True)
def item(context: Context, /, *args: str, **kwargs: Any) -> Dict[str, Any]:
    """Return several grains: name -> value; "" for an unknown name.

    Args:
        context: the call's context.
        args: names or paths (`ip4_interfaces:eth0:0`).
        kwargs: `default`, `delimiter` and `sanitize`, as in grains.get and grains.items.
    """
    default, delimiter = kwargs.get("default", _DEFAULT), kwargs.get("delimiter", ":")
    found = {name: traverse(context.grains, name, default, delimiter) for name in args}
    return _sanitized(found) if kwargs.get("sanitize") else found


_IDENTITY = frozenset({"serialnumber", "fqdn", "domain", "host", "localhost", "nodename"})


def _sanitized(found: Dict[str, Any]) -> Dict[str, Any]:
    return {key: "XXXX" if key in _IDENTITY and value else value for key, value in found.items()}


@function(reads=True)
def get(
    context: Context, key: str, default: Any = _DEFAULT, delimiter: str = ":", ordered: bool = True
) -> Any:
    """Return one grain by its name or path (`ip4_interfaces:eth0:0`).

    Args:
        context: the call's context.
        key: name or path.
        default: value to return if the grain does not exist.
        delimiter: separator of the names in a path.
        ordered: accepted and ignored; mappings always keep their order.
    """
    return traverse(context.grains, key, default, delimiter)


@function(reads=True)
def ls(context: Context) -> List[str]:
    """Return the names of all grains, sorted."""
    return sorted(context.grains)


@function(reads=True)
def has_value(context: Context, key: str) -> bool:
    """Return whether a grain exists, even if its value is None."""
    return traverse(context.grains, key, MISSING) is not MISSING


@function(reads=True)
def equals(context: Context, key: str, value: Any) -> bool:
    """Return whether a grain equals *value*; both are compared as text."""
    return str(value) == str(traverse(context.grains, key, ""))


@function(reads=True)
def fetch(context: Context, key: str, default: Any = "", delimiter: str = ":") -> Any:
    """Return one grain, like grains.get."""
    return traverse(context.grains, key, default, delimiter)


@function(reads=True)
def filter_by(
    context: Context,
    lookup_dict: Mapping[str, Any],
    grain: str = "os_family",
    merge: Optional[Mapping[str, Any]] = None,
    default: str = "default",
    base: Optional[str] = None,
) -> Any:
    """Return the entry of a table whose key matches a grain's value.

    Args:
        context: the call's context.
        lookup_dict: the table; its keys are values of the grain or shell-style patterns.
        grain: name or path of the grain.
        merge: mapping that is merged over the entry that matches.
        default: key of the entry to use if no key matches.
        base: key of an entry over which the matching one is merged.

    Returns:
        The entry; None if no key matches and there is neither a default entry nor *merge*.
    """
    value = traverse(context.grains, grain, None)
    return choose(lookup_dict, value, merge, default, base)


def _change(context: Context, changes: Mapping[str, Any], removed: tuple[str, ...] = ()) -> None:
    """Write *changes* to the static file, delete the grains *removed*, and collect all again."""
    from catena.renderers import yaml

    path = context.host.conf_dir / "grains"
    kept = static_grains(path)
    kept.update(plain_copy(changes))
    for name in removed:
        kept.pop(name, None)
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {name: kept[name] for name in sorted(kept, key=str)}
    write_durable(path, yaml.dump(kept).encode("utf-8"), mode=0o644)
    fresh = context.host.collect_grains()
    if isinstance(context.grains, dict):
        # The rest of this job sees the new grains too, as in Salt.
        for name in removed:
            context.grains.pop(name, None)
        context.grains.update(fresh)


@function()
def setvals(
    context: Context, grains: Mapping[str, Any], destructive: bool = False
) -> Dict[str, Any]:
    """Set several grains in the static file.

    Args:
        context: the call's context.
        grains: name -> value.
        destructive: remove a grain whose value is None instead of storing None.
    """
    if not isinstance(grains, AbstractMapping):
        raise UsageError("grains.setvals needs a dictionary")
    gone = tuple(n for n, value in grains.items() if value is None and destructive)
    _change(context, {n: v for n, v in grains.items() if n not in gone}, gone)
    return plain_copy(grains)


@function()
def setval(context: Context, key: str, val: Any, destructive: bool = False) -> Dict[str, Any]:
    """Set one grain in the static file.

    Args:
        context: the call's context.
        key: name of the grain (not a path).
        val: the new value.
        destructive: if *val* is None, remove the grain instead of storing None.
    """
    return dict(setvals(context, {key: val}, destructive))


@function(name="set")
def set_(
    context: Context,
    key: str,
    val: Any = "",
    force: bool = False,
    destructive: bool = False,
    delimiter: str = ":",
) -> Dict[str, Any]:
    """Set a grain by name or path.

    Args:
        context: the call's context.
        key: name or path.
        val: the new value.
        force: allow a mapping or list to replace a plain value, and the reverse.
        destructive: if *val* is None, remove the grain.
        delimiter: separator of the names in a path.

    Returns:
        {"result", "comment", "changes"}.
    """
    refused = "" if force else refusal(context.grains, key, val, delimiter)
    if refused:
        return _said(False, refused)
    present = traverse(context.grains, key, None, delimiter)
    if present == val and present is not None:
        return _said(True, "Grain is already set")
    top = key.split(delimiter)[0]
    if delimiter not in key:
        setvals(context, {key: val}, destructive)
        return {**_said(True, ""), "changes": {key: val}}
    known = context.grains.get(top)
    data = plain_copy({top: known}) if isinstance(known, AbstractMapping) else {top: {}}
    set_at(data, key, val, delimiter)
    _change(context, data)
    return {**_said(True, ""), "changes": data}


def _said(result: bool, comment: str) -> Dict[str, Any]:
    return {"result": result, "comment": comment, "changes": {}}


@function()
def append(
    context: Context, key: str, val: Any, convert: bool = False, delimiter: str = ":"
) -> Any:
    """Add a value to a grain that is a list.

    Args:
        context: the call's context.
        key: name or path.
        val: the value to add, or a list of values.
        convert: turn a grain that is not a list into one.
        delimiter: separator of the names in a path.
    """
    known = traverse(context.grains, key, [], delimiter)
    if not isinstance(known, (list, tuple)):
        if not convert:
            return f"The key {key} is not a valid list"
        known = [known] if known not in (None, "") else []
    if val in known:
        return f"The val {val} was already in the list {key}"
    added = list(val) if isinstance(val, (list, tuple)) else [val]
    _store(context, key, [*known, *added], delimiter)
    return {key: [*known, *added]}


@function()
def remove(context: Context, key: str, val: Any, delimiter: str = ":") -> Any:
    """Remove a value from a grain that is a list.

    Args:
        context: the call's context.
        key: name or path.
        val: the value to remove.
        delimiter: separator of the names in a path.
    """
    known = traverse(context.grains, key, [], delimiter)
    if not isinstance(known, (list, tuple)):
        return f"The key {key} is not a valid list"
    if val not in known:
        return f"The val {val} was not in the list {key}"
    left = [each for each in known if each != val]
    _store(context, key, left, delimiter)
    return {key: left}


def _store(context: Context, key: str, value: Any, delimiter: str) -> None:
    top = key.split(delimiter)[0]
    known = context.grains.get(top)
    data = plain_copy({top: known}) if isinstance(known, AbstractMapping) else {}
    set_at(data, key, value, delimiter)
    _change(context, data)


@function()
def delval(context: Context, key: str, destructive: bool = False) -> Any:
    """Set a grain of the static file to None, or remove it.

    Args:
        context: the call's context.
        key: name of the grain.
        destructive: remove the grain instead of setting it to None.
    """
    return set_(context, key, None, force=True, destructive=destructive)


@function()
def delkey(context: Context, key: str) -> Any:
    """Remove a grain from the static file."""
    return delval(context, key, destructive=True)
