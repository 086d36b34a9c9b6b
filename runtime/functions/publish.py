"""publish.*: functions on other minions and runners, through the master.

The master allows nothing of this by default; its settings `peer` and `peer_run` do, by the id of
this minion's connection.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.patterns import lazy_pattern
from catena.core.peer import LONGEST_SECONDS, PeerCall, PeerKind
from catena.core.plugins import function

_ASSIGNED = lazy_pattern(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)\Z")
#: Mark of a mapping of keyword arguments in Salt's lists of arguments.
_KWARG = "__kwarg__"


def parted(arg: Any) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """Return positional and keyword arguments of Salt's `arg`.

    Args:
        arg: None, one value, a list, or YAML text of one; texts `name=value` are keywords.
    """
    values = _values(arg)
    args: List[Any] = []
    kwargs: Dict[str, Any] = {}
    for item in values:
        found = _ASSIGNED.match(item) if isinstance(item, str) else None
        if found is not None:
            kwargs[found[1]] = _read(found[2])
        elif isinstance(item, Mapping) and item.get(_KWARG):
            kwargs.update({str(k): v for k, v in item.items() if k != _KWARG})
        else:
            args.append(item)
    return tuple(args), kwargs


def _values(arg: Any) -> List[Any]:
    if arg is None:
        return []
    if isinstance(arg, str):
        arg = arg if _ASSIGNED.match(arg) else _read(arg)
    return list(arg) if isinstance(arg, (list, tuple)) else [arg]


def _read(text: str) -> Any:
    from catena.renderers import yaml

    try:
        return yaml.load(text, "arg")
    except Exception:  # noqa: BLE001 - whatever is no YAML is a text
        return text


def _published(
    context: Context, tgt: Any, fun: str, arg: Any, tgt_type: str, timeout: Any
) -> Dict[str, Any]:
    args, kwargs = parted(arg)
    try:
        seconds = float(timeout)
    except (TypeError, ValueError):
        raise UsageError(f"timeout={timeout!r} is no number of seconds") from None
    if not 0 < seconds <= LONGEST_SECONDS:
        raise UsageError(f"timeout: between 0 and {LONGEST_SECONDS:g} seconds")
    target = ",".join(map(str, tgt)) if isinstance(tgt, (list, tuple)) else str(tgt)
    call = PeerCall(PeerKind.publish, str(fun), args, kwargs, target, str(tgt_type), seconds)
    found: Dict[str, Any] = context.host.ask_master(call)
    return found


@function()
def publish(
    context: Context,
    tgt: Any,
    fun: str,
    arg: Any = None,
    tgt_type: str = "glob",
    returner: str = "",
    timeout: float = 5,
) -> Dict[str, Any]:
    """Call a function on other minions; return {minion: value} of those that answer in time.

    Args:
        context: the call's context.
        tgt: target expression, or a list of ids.
        fun: function; the master's setting `peer` must allow it to this minion.
        arg: its arguments: a value, a list, or YAML; `name=value` is a keyword argument.
        tgt_type: kind of the target.
        returner: accepted without effect.
        timeout: seconds to wait, at most 60.

    Raises:
        NotAllowedError: the master does not allow it.
    """
    found = _published(context, tgt, fun, arg, tgt_type, timeout)
    return {minion: row["ret"] for minion, row in sorted(found.items())}


@function()
def full_data(
    context: Context,
    tgt: Any,
    fun: str,
    arg: Any = None,
    tgt_type: str = "glob",
    returner: str = "",
    timeout: float = 5,
) -> Dict[str, Any]:
    """Call a function on other minions; return {minion: {"ret", "retcode", "jid", "out"}}.

    Args:
        context: the call's context.
        tgt: target expression, or a list of ids.
        fun: function; the master's setting `peer` must allow it to this minion.
        arg: its arguments, as in publish.publish.
        tgt_type: kind of the target.
        returner: accepted without effect.
        timeout: seconds to wait, at most 60.
    """
    return _published(context, tgt, fun, arg, tgt_type, timeout)


@function()
def runner(context: Context, fun: str, arg: Any = None, timeout: Optional[float] = None) -> Any:
    """Call a runner of the master; its setting `peer_run` must allow it to this minion.

    Args:
        context: the call's context.
        fun: the runner, as manage.up.
        arg: its arguments, as in publish.publish.
        timeout: accepted without effect.
    """
    args, kwargs = parted(arg)
    return context.host.ask_master(PeerCall(PeerKind.runner, str(fun), args, kwargs))
