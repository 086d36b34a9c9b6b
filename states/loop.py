"""loop.*: call an execution function until it returns what is expected."""

from __future__ import annotations

import ast
import operator
import time
from types import CodeType
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CatenaError, NotFoundError, UsageError
from catena.core.plugins import state
from catena.core.suggest import unknown
from catena.core.target import Subject, TargetError
from catena.core.target import parse as parse_target
from catena.core.types import StateResult
from catena.modules.shared.arguments import mapped
from catena.states.answers import done, failed, would

#: Maximum characters of a condition.
_CONDITION = 2000
#: Functions that a condition may call besides methods of the returned value.
_NAMES: Mapping[str, Any] = {
    "abs": abs, "all": all, "any": any, "bool": bool, "dict": dict, "float": float, "int": int,
    "isinstance": isinstance, "len": len, "list": list, "max": max, "min": min, "set": set,
    "sorted": sorted, "str": str, "sum": sum, "tuple": tuple, "True": True, "False": False,
    "None": None,
}  # fmt: skip
#: Comparisons that are no functions of the standard module operator.
_SUBDICT = "data.subdict_match"
#: What a function that fails, or a comparison of values that do not compare, may raise.
_REFUSED_COMPARISONS = (CatenaError, TypeError, ValueError, LookupError, AttributeError)


def _compiled(condition: Any) -> CodeType:
    """Return a condition as code.

    Raises:
        UsageError: it is no expression, or uses a name that no condition has.
    """
    text = str(condition)
    if len(text) > _CONDITION:
        raise UsageError(f"The condition is longer than {_CONDITION} characters")
    try:
        tree = ast.parse(text.strip(), "condition", "eval")
    except (SyntaxError, ValueError, RecursionError) as problem:
        raise UsageError(f"The condition {text!r} is no expression of Python: {problem}") from (
            problem
        )
    own = {
        node.id for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in own:
            if node.id != "m_ret" and node.id not in _NAMES:
                raise UsageError(unknown("name in the condition", node.id, ("m_ret", *_NAMES)))
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            raise UsageError(f"The condition uses {node.attr}, which is private")
    return compile(tree, "condition", "eval")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _mistake(context: Context, name: str, period: Any, timeout: Any, told: str) -> str:
    """Return what is wrong with the arguments that both states have; or ""."""
    try:
        context.functions[name]
    except NotFoundError as problem:
        return f"{told} {problem}"
    if not _number(period) or period < 0:
        return "Period must be specified as a float in seconds"
    if not _number(timeout):
        return "Timeout must be specified as a float in seconds"
    return ""


def _results(
    context: Context, name: str, arguments: Tuple[Sequence[Any], Mapping[str, Any]],
    period: float, timeout: float,
) -> Iterator[Any]:  # fmt: skip
    """Yield what a function returns, until the time is over."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        yield context.call(name, *arguments[0], **arguments[1])
        time.sleep(max(0.0, min(period, end - time.monotonic())))


def _arguments(args: Any, kwargs: Any, names: str) -> Tuple[Sequence[Any], Mapping[str, Any]]:
    if args is not None and not isinstance(args, (list, tuple)):
        raise UsageError(f"{names.split()[0]} must be a list, not {type(args).__name__}")
    try:
        return (args or (), {str(key): value for key, value in mapped(kwargs).items()})
    except UsageError as problem:
        raise UsageError(f"{names.split()[1]}: {problem}") from problem


@state()
def until(
    context: Context,
    /,
    name: str,
    m_args: Any = None,
    m_kwargs: Any = None,
    condition: Any = None,
    period: float = 1,
    timeout: float = 60,
) -> StateResult:
    """Call an execution function until a condition is true.

    Args:
        context: the call's context.
        name: of the function.
        m_args: its arguments.
        m_kwargs: its keyword arguments.
        condition: expression of Python in which `m_ret` is the returned value.
        period: seconds between two calls.
        timeout: seconds after which to give up.
    """
    mistake = _mistake(context, name, period, timeout, f"Cannot find module {name}:")
    if condition is None and not mistake.startswith("Cannot"):
        mistake = "An exit condition must be specified"
    if mistake:
        return failed(mistake)
    try:
        code = _compiled(condition)
        arguments = _arguments(m_args, m_kwargs, "m_args m_kwargs")
        if context.test:
            return would(f"The execution module {name} will be run")
        for value in _results(context, name, arguments, period, timeout):
            if _holds(code, value):
                return done(f"Condition {condition} was met")
    except CatenaError as problem:
        return failed(str(problem))
    return failed(f"Timed out while waiting for condition {condition}")


def _holds(code: CodeType, value: Any) -> bool:
    try:
        # The names were checked: there are no builtins, no imports and no private attributes.
        return bool(eval(code, {"__builtins__": {}, **_NAMES, "m_ret": value}))
    except Exception as problem:
        raise UsageError(
            f"The condition failed for a {type(value).__name__}: {type(problem).__name__}: "
            f"{problem}"
        ) from problem


def _comparison(context: Context, name: str) -> Optional[Callable[[Any, Any], Any]]:
    """Return a comparison by name: of the module operator, or an execution function."""
    if name == _SUBDICT:
        return _has_part
    if "." in name:
        try:
            plugin = context.functions[name]
        except NotFoundError:
            return None
        return lambda left, right: plugin.call(context, left, right)
    found = None if name.startswith("_") else getattr(operator, name, None)
    return found if callable(found) else None


def _has_part(value: Any, expected: Any) -> bool:
    """Return whether a mapping has a key and value: "a:b:pattern"."""
    if not isinstance(value, Mapping):
        return False
    try:
        return parse_target(str(expected), "grain", {}, ":").matches(Subject("", value, {}))
    except TargetError:
        return False


@state()
def until_no_eval(
    context: Context,
    /,
    name: str,
    expected: Any,
    compare_operator: str = "eq",
    timeout: float = 60,
    period: float = 1,
    init_wait: float = 0,
    args: Any = None,
    kwargs: Any = None,
) -> StateResult:
    """Call an execution function until it returns an expected value.

    Args:
        context: the call's context.
        name: of the function.
        expected: the value that is waited for.
        compare_operator: function of Python's module operator (eq, ne, lt, contains, …),
            data.subdict_match, or an execution function with two arguments.
        timeout: seconds after which to give up.
        period: seconds between two calls.
        init_wait: seconds before the first call.
        args: arguments of the function.
        kwargs: its keyword arguments.
    """
    mistake = _mistake(context, name, period, timeout, f'Module.function "{name}" is unavailable.')
    compare = _comparison(context, str(compare_operator))
    if mistake or compare is None:
        return failed(mistake or f'Invalid operator "{compare_operator}" supplied.')
    if context.test:
        return would(f'Would have waited for "{name}" to produce "{expected}".')
    if _number(init_wait) and init_wait > 0:
        time.sleep(init_wait)
    attempts = 0
    try:
        given = _arguments(args, kwargs, "args kwargs")
        for value in _results(context, name, given, period, timeout):
            attempts += 1
            if compare(value, expected):
                return done(f"Call provided the expected results in {attempts} attempts")
    except _REFUSED_COMPARISONS as problem:
        kind = type(problem).__name__
        return failed(f"Exception occurred while executing {name}: {kind}:{problem}")
    return failed(f"Call did not produce the expected result after {attempts} attempts")
