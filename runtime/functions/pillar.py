"""pillar.*: read this minion's pillar.

Output on a command line is masked (`pillar_mask_output`, recorded case 44): if the job itself is a
pillar function, its values become `**********`. A template or another function that calls a pillar
function gets the real values.
"""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from typing import Any, Dict, List, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import NotFoundError, PillarError, UsageError
from catena.core.nested import MISSING, append_new, laid_over, plain_copy, traverse
from catena.core.plugins import function
from catena.core.suggest import unknown
from catena.core.tables import choose

MASK = "**********"


def _is_printed(context: Context) -> bool:
    return context.job is not None and context.job.fun.startswith("pillar.")


def masked(value: Any) -> Any:
    """Return *value* with every leaf masked; names, structure and nulls stay."""
    if isinstance(value, AbstractMapping):
        return {key: masked(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(item) for item in value]
    return None if value is None else MASK


def _shown(context: Context, value: Any, unmask: Optional[bool]) -> Any:
    """Return *value*, masked if *unmask* is False, or None and the value would be printed."""
    if unmask is None:
        unmask = not _is_printed(context)
    return value if unmask else masked(value)


class _Partial(Dict[str, Any]):
    """The part of a broken pillar that could be compiled, with the errors under `_errors`."""

    def __init__(self, error: PillarError) -> None:
        super().__init__({**error.pillar, "_errors": list(error.errors)})
        self.error = error


def _looked_up(pillar: Mapping[str, Any], path: str, default: Any, delimiter: str) -> Any:
    """Return the value at *path*, or *default*.

    Raises:
        PillarError: there is no value, and the pillar is broken; the part that failed to compile
            may define the value.
    """
    found = traverse(pillar, path, MISSING, delimiter)
    if found is MISSING and isinstance(pillar, _Partial):
        raise pillar.error
    return default if found is MISSING else found


def _held(context: Context, pillarenv: Optional[str] = None) -> Mapping[str, Any]:
    """Return the job's pillar, or that of another environment.

    If the pillar is broken, a command line gets the part that could be compiled.

    Raises:
        PillarError: the pillar is broken, and the caller is not a command line.
    """
    try:
        if pillarenv and pillarenv != context.opts.get("pillarenv"):
            return context.host.compile_pillar({}, pillarenv)
        len(context.pillar)
    except PillarError as error:
        if not _is_printed(context):
            raise
        return _Partial(error)
    return context.pillar


@function(name="get", reads=True)
def get(
    context: Context,
    key: str,
    default: Any = MISSING,
    merge: bool = False,
    merge_nested_lists: Optional[bool] = None,
    delimiter: str = ":",
    pillarenv: Optional[str] = None,
    saltenv: Optional[str] = None,
    unmask: Optional[bool] = None,
) -> Any:
    """Return one pillar value by its name or path (`nginx:sites:0`).

    Args:
        context: the call's context.
        key: name or path.
        default: value to return if there is none; "" by default.
        merge: merge the pillar's value over *default* instead of replacing *default*.
        merge_nested_lists: with *merge*, append to lists within mappings; None: use the setting
            `pillar_merge_lists`.
        delimiter: separator of the names in a path.
        pillarenv: compile the pillar of this environment for the answer.
        saltenv: accepted and ignored; *pillarenv* selects the environment.
        unmask: True shows values on a command line; False masks them in templates too.

    Raises:
        NotFoundError: there is no value and no default, and `pillar_raise_on_missing` is set.
    """
    pillar = _held(context, pillarenv)
    found = _looked_up(pillar, key, MISSING, delimiter)
    if found is MISSING and default is MISSING:
        if context.opts.get("pillar_raise_on_missing"):
            raise NotFoundError(unknown("pillar key", key, list(pillar)))
        return ""
    if found is MISSING:
        return _shown(context, default, unmask)
    if merge and default is not MISSING:
        lists = merge_nested_lists
        if lists is None:
            lists = bool(context.opts.get("pillar_merge_lists"))
        found = _laid(default, found, lists)
    return _shown(context, found, unmask)


def _laid(default: Any, found: Any, lists: bool) -> Any:
    """Return *found* merged over *default*.

    If both are lists, *found* is appended. Lists within mappings are appended only with *lists*.
    Salt does the same (recorded from the ntp and nginx formulas).
    """
    if isinstance(default, AbstractMapping) and isinstance(found, AbstractMapping):
        return laid_over(default, found, lists)
    if isinstance(default, list) and isinstance(found, list):
        return append_new(default, found)
    return found


@function(name="fetch", reads=True)
def fetch(
    context: Context,
    key: str,
    default: Any = MISSING,
    delimiter: str = ":",
    pillarenv: Optional[str] = None,
    unmask: Optional[bool] = None,
) -> Any:
    """Return one pillar value, like pillar.get."""
    return get(context, key, default, delimiter=delimiter, pillarenv=pillarenv, unmask=unmask)


@function(name="filter_by", reads=True)
def filter_by(
    context: Context,
    lookup_dict: Mapping[str, Any],
    pillar: str,
    merge: Optional[Mapping[str, Any]] = None,
    default: str = "default",
    base: Optional[str] = None,
) -> Any:
    """Return the entry of a table whose key matches a pillar value; see grains.filter_by.

    Args:
        context: the call's context.
        lookup_dict: the table; its keys are pillar values or shell-style patterns.
        pillar: name or path of the pillar value.
        merge: mapping that is merged over the entry that matches.
        default: key of the entry to use if no key matches.
        base: key of an entry over which the matching one is merged.
    """
    found = choose(
        lookup_dict, _looked_up(_held(context), pillar, None, ":"), merge, default, base
    )
    return _shown(context, found, None)


@function(name="items", reads=True)
def items(
    context: Context,
    *args: str,
    pillar: Optional[Mapping[str, Any]] = None,
    pillarenv: Optional[str] = None,
    saltenv: Optional[str] = None,
    unmask: Optional[bool] = None,
) -> Dict[str, Any]:
    """Compile the pillar again and return it; with names, return only those keys.

    Args:
        context: the call's context.
        args: top-level names.
        pillar: mapping that is merged over the pillar for this answer.
        pillarenv: the only environment to compile; the configuration's by default.
        saltenv: accepted and ignored; *pillarenv* selects the environment.
        unmask: True shows values on a command line; False masks them in templates too.
    """
    if pillar is not None and not isinstance(pillar, AbstractMapping):
        raise UsageError("pillar.items: pillar must be a dictionary")
    found, errors = _compiled(context, pillar, pillarenv)
    shows = None if context.opts.get("pillar_mask_output", True) else True
    if args:
        chosen = {name: found.get(name, "") for name in args}
        # As in Salt, names and `unmask: True` together are masked on a command line.
        return dict(_shown(context, chosen, False if unmask is False else shows))
    return {**_shown(context, found, shows if unmask is None else unmask), **errors}


def _compiled(
    context: Context, override: Optional[Mapping[str, Any]], pillarenv: Optional[str] = None
) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Compile the pillar again; return it and {"_errors": texts} ({} if there are no errors)."""
    try:
        if pillarenv:
            return plain_copy(context.host.compile_pillar(override, pillarenv)), {}
        return plain_copy(context.host.compile_pillar(override)), {}
    except PillarError as error:
        return plain_copy(error.pillar), {"_errors": list(error.errors)}


@function(name="data", reads=True)
def data(context: Context, /, *args: str, **options: Any) -> Dict[str, Any]:
    """Compile the pillar again and return it; arguments as in pillar.items."""
    return dict(items(context, *args, **options))


@function(name="raw", reads=True)
def raw(context: Context, key: Optional[str] = None, unmask: Optional[bool] = None) -> Any:
    """Return this job's pillar from memory; with a name, return only that key.

    Args:
        context: the call's context.
        key: a top-level name.
        unmask: False masks the values.
    """
    shows = unmask is None or bool(unmask)
    found = _held(context).get(key, {}) if key else plain_copy(_held(context))
    return _shown(context, found, shows)


@function(name="item", reads=True)
def item(
    context: Context,
    *args: str,
    default: Any = "",
    delimiter: str = ":",
    pillarenv: Optional[str] = None,
    saltenv: Optional[str] = None,
    unmask: Optional[bool] = None,
) -> Dict[str, Any]:
    """Return pillar values by name or path.

    Args:
        context: the call's context.
        args: names or paths.
        default: value to return for a name that does not exist.
        delimiter: separator of the names in a path.
        pillarenv: compile the pillar of this environment for the answer.
        saltenv: accepted and ignored; *pillarenv* selects the environment.
        unmask: True shows values on a command line; False masks them in templates too.
    """
    pillar = _held(context, pillarenv)
    found = {name: _looked_up(pillar, name, default, delimiter) for name in args}
    return dict(_shown(context, found, unmask))


@function(name="keys", reads=True)
def keys(
    context: Context, key: str, delimiter: str = ":", unmask: Optional[bool] = None
) -> List[str]:
    """Return the names in a mapping of the pillar.

    Args:
        context: the call's context.
        key: name or path of the mapping.
        delimiter: separator of the names in a path.
        unmask: accepted and ignored; names are never masked.

    Raises:
        NotFoundError: there is no value at *key*.
        UsageError: the value at *key* is not a mapping.
    """
    found = _looked_up(_held(context), key, MISSING, delimiter)
    if found is MISSING:
        raise NotFoundError(f"pillar key not found: {key}")
    if not isinstance(found, AbstractMapping):
        raise UsageError(f"pillar value at {key} is not a mapping")
    return list(found)


@function(name="ls", reads=True)
def ls(context: Context, *args: str, pillarenv: Optional[str] = None) -> List[str]:
    """Compile the pillar again and return its top-level names; with names, only those."""
    return list(_chosen(context, args, pillarenv))


def _chosen(
    context: Context, names: Tuple[str, ...], pillarenv: Optional[str] = None
) -> Dict[str, Any]:
    """Compile the pillar again; return it, or the values at *names* ("" for a missing one)."""
    found, errors = _compiled(context, None, pillarenv)
    found.update(errors)
    return {name: traverse(found, name, "") for name in names} if names else found


@function(name="obfuscate", reads=True)
def obfuscate(context: Context, *args: str, pillarenv: Optional[str] = None) -> Dict[str, Any]:
    """Return the pillar, or its values at some names, with each value replaced by its type.

    On a command line a masked value has the type of its mask, as in Salt.
    """
    shows = None if context.opts.get("pillar_mask_output", True) else True
    return dict(_types(_shown(context, _chosen(context, args, pillarenv), shows)))


def _types(value: Any) -> Any:
    if isinstance(value, AbstractMapping):
        return {key: _types(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_types(inner) for inner in value]
    return f"<{type(value).__name__}>"


@function(name="file_exists", reads=True)
def file_exists(context: Context, path: str, saltenv: Optional[str] = None) -> bool:
    """Return whether a file is in the local pillar roots; False if the master has the roots."""
    from pathlib import Path

    roots = context.opts.get("pillar_roots") or {}
    folders = [f for env, some in roots.items() if saltenv in (None, env) for f in some]
    if ".." in Path(path).parts:
        return False
    return any((Path(folder) / path.lstrip("/")).is_file() for folder in folders)
