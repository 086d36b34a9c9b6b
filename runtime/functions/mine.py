"""mine.*: values of functions that templates of other minions look up.

This module computes the values of this minion and stores them on this host. Without a master the
mine holds only this minion's values, as in Salt. The master does not store a mine yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping as AbstractMapping
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from catena.core.context import Context
from catena.core.errors import CatenaError, UsageError
from catena.core.files import durable_folder, write_durable
from catena.core.logs import logger
from catena.core.plugins import function
from catena.core.target import Subject, parse
from catena.runtime.host import LocalHost

log = logger(__name__)

_FILE = "mine.json"


def _kept(context: Context) -> Dict[str, Any]:
    try:
        data = json.loads((context.host.cache_dir / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return dict(data) if isinstance(data, AbstractMapping) else {}


def _keep(context: Context, data: Mapping[str, Any]) -> None:
    text = json.dumps(data, default=str)
    write_durable(durable_folder(context.host.cache_dir) / _FILE, text.encode("utf-8"))


def _wanted(context: Context) -> Dict[str, Any]:
    """Return the configured functions: alias -> arguments; the settings have precedence.

    Raises:
        UsageError: mine_functions is neither a mapping nor a list of names and mappings.
    """
    found: Dict[str, Any] = {}
    for tree in (context.pillar, context.opts):
        found.update(_functions_of(tree.get("mine_functions")))
    return found


def _functions_of(given: Any) -> Dict[str, Any]:
    """Return mine_functions, of any form that Salt takes, as alias -> arguments."""
    if isinstance(given, AbstractMapping):
        return dict(given)
    if not given:
        return {}
    found: Dict[str, Any] = {}
    for item in given if isinstance(given, (list, tuple)) else [None]:
        if isinstance(item, AbstractMapping):
            found.update(item)
        elif isinstance(item, str):
            found[item] = []
        else:
            raise UsageError(
                "mine_functions must be a mapping, or a list of names and mappings, "
                f"not {type(given).__name__}: {given!r}"
            )
    return found


def _call_of(alias: str, given: Any) -> Tuple[str, List[Any], Dict[str, Any]]:
    """Return (function, arguments, keyword arguments) of one entry of mine_functions."""
    name, args, kwargs = alias, [], {}
    if isinstance(given, AbstractMapping):
        kwargs = dict(given)
    for item in given if isinstance(given, (list, tuple)) else []:
        if isinstance(item, AbstractMapping):
            kwargs.update(item)
        else:
            args.append(item)
    name = str(kwargs.pop("mine_function", alias))
    for key in ("allow_tgt", "allow_tgt_type"):
        kwargs.pop(key, None)
    return name, args, kwargs


@function()
def update(context: Context, clear: bool = False, mine_functions: Any = None) -> Optional[bool]:
    """Compute this minion's values of the mine and store them.

    A function that fails is logged. Its previous value stays, unless *clear* removes it. Without
    functions nothing changes, and the result is None, as in Salt.

    Args:
        context: the call's context.
        clear: remove all previous values, as Salt does; also those of functions that fail now or
            are not called now.
        mine_functions: functions to use instead of the configured ones: {alias: arguments}, or a
            list of names and of such mappings. Empty: the configured ones.

    Raises:
        UsageError: mine_functions has another form.
    """
    wanted = _functions_of(mine_functions) or _wanted(context)
    if not wanted:
        return None
    data = {} if clear else _kept(context)
    for alias, given in wanted.items():
        name, args, kwargs = _call_of(str(alias), given)
        try:
            data[str(alias)] = context.call(name, *args, **kwargs)
        except CatenaError as error:
            log.warning("mine function %s failed: %s", alias, error)
    _keep(context, data)
    return True


@function()
def send(context: Context, /, name: str, *args: Any, **kwargs: Any) -> bool:
    """Compute one function's value and store it in the mine under *name*."""
    given = {key: value for key, value in kwargs.items() if not key.startswith("__")}
    fun, more, named = _call_of(name, [given] if given else [])
    data = _kept(context)
    data[name] = context.call(fun, *args, *more, **named)
    _keep(context, data)
    return True


@function(name="get", reads=True)
def get(
    context: Context,
    tgt: str,
    fun: Union[str, List[str]],
    tgt_type: str = "glob",
    exclude_minion: bool = False,
) -> Dict[str, Any]:
    """Return {minion: value} of a function in the mine; for several, {function: {minion: value}}.

    Args:
        context: the call's context.
        tgt: target that selects the minions.
        fun: function or alias, or several (a list, or separated by commas).
        tgt_type: type of the target, such as glob or grain.
        exclude_minion: skip this minion.
    """
    names = [each.strip() for each in fun.split(",")] if isinstance(fun, str) else list(fun)
    minion = str(context.opts.get("id") or context.grains.get("id", ""))
    if not isinstance(context.host, LocalHost):
        log.warning("mine.get knows the values of this minion only: the master keeps no mine")
    target = parse(tgt, tgt_type, context.opts.get("nodegroups") or {})
    found: Dict[str, Dict[str, Any]] = {name: {} for name in names}
    if target.matches(Subject(minion, context.grains, context.pillar)) and not exclude_minion:
        data = _kept(context)
        for name in names:
            if name in data:
                found[name] = {minion: data[name]}
    if len(names) == 1:
        return found[names[0]]
    return {name: values for name, values in found.items() if values}


@function()
def delete(context: Context, fun: str) -> bool:
    """Remove this minion's value of one function from the mine."""
    data = _kept(context)
    data.pop(fun, None)
    _keep(context, data)
    return True


@function()
def flush(context: Context) -> bool:
    """Remove all values of this minion from the mine."""
    _keep(context, {})
    return True


@function(reads=True)
def valid(context: Context) -> Dict[str, Any]:
    """Return the configured functions with their arguments."""
    found: Dict[str, Any] = {}
    for alias, given in _wanted(context).items():
        name, args, kwargs = _call_of(str(alias), given)
        shown: Any = [*args, *({key: value} for key, value in kwargs.items())]
        found[str(alias)] = {name: shown} if name != alias else shown
    return found
