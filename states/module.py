"""module.run: call execution functions, in both of Salt's notations."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from catena.core.context import Context
from catena.core.errors import CatenaError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.states.function_calls import (
    PASSED_ON,
    bind,
    failed,
    hint,
    plugin,
    run_named,
)


@state(wants=PASSED_ON)
def run(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Call execution functions.

    A dot in an argument's name selects the notation: `- file.touch: [...]` calls each named
    function in turn. Otherwise *name* is the function and the arguments are its own
    (see `mgrcompat.module_run`).
    """
    calls = {key: value for key, value in arguments.items() if "." in key}
    if not calls:
        return run_named(context, name, arguments)
    return _run_calls(context, calls)


@state(wants=PASSED_ON)
def wait(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Do nothing until something watched changes; then do as `run`."""
    return StateResult(True)


@state(wants=PASSED_ON)
def mod_watch(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Call the functions because something watched has changed."""
    given = {key: value for key, value in arguments.items() if key not in ("sfun", "__reqs__")}
    return run(context, name, **given)


def _run_calls(context: Context, calls: Mapping[str, Any]) -> StateResult:
    unknown = [name for name in calls if plugin(context, name) is None]
    if unknown:
        many = "s" if len(unknown) > 1 else ""
        named = ", ".join(f"{name}{hint(context, name)}" for name in unknown)
        return StateResult(False, comment=f"Unavailable function{many}: {named}.")
    if context.test:
        many = "s" if len(calls) > 1 else ""
        return StateResult(None, comment=f"Function{many} {', '.join(calls)} to be executed.")
    good: List[str] = []
    bad: List[str] = []
    changes: Dict[str, Any] = {}
    for name, written in calls.items():
        passed, value = _call(context, name, written)
        if passed:
            changes[name] = value
            said = value.get("comment", "Success") if isinstance(value, Mapping) else value
            good.append(f"{name}: {said}")
        else:
            bad.append(f"'{name}': {value}")
    return StateResult(not bad, changes, ", ".join([*bad, *good]))


def _call(context: Context, name: str, written: Any) -> Tuple[bool, Any]:
    function = context.functions[name]
    args, kwargs = _arguments(written)
    bound = bind(function, args, kwargs)
    if bound.missing:
        return False, f"missing argument(s): {', '.join(bound.missing)}"
    if bound.ignored:
        return False, f"takes no argument {', '.join(map(repr, bound.ignored))}"
    try:
        value = context.call(name, *bound.args, **bound.kwargs)
    except CatenaError as error:
        return False, f"An exception occurred in this state: {error}"
    return not failed(function, value), value


def _arguments(written: Any) -> Tuple[List[Any], Dict[str, Any]]:
    """Return (positional, named) arguments: one-key mappings of the list are the named ones."""
    args: List[Any] = []
    kwargs: Dict[str, Any] = {}
    if isinstance(written, Mapping):
        return args, dict(written)
    if written is None:
        return args, kwargs
    for item in written if isinstance(written, list) else [written]:
        if isinstance(item, Mapping):
            kwargs.update(item)
        else:
            args.append(item)
    return args, kwargs
