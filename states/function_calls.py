"""Call execution functions from states: bind arguments by name, decide about success.

`module.run` and `mgrcompat.module_run` use it. Salt's classic rules say what is a failure.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.custom_faults import error_line
from catena.core.errors import NotFoundError
from catena.core.frozen import dataclass
from catena.core.logs import logger
from catena.core.plugins import Plugin
from catena.core.suggest import nearest
from catena.core.types import StateResult

log = logger(__name__)

#: Keywords of the compiler that `module.run` passes to the called function.
PASSED_ON = ("creates", "runas", "runas_password", "saltenv", "test", "umask")
#: Maximum number of failed states of a nested run in a comment.
_FAULTS_SHOWN = 5
#: Number of the last output lines of a failed command in a comment.
_LINES_SHOWN = 3


@dataclass(frozen=True)
class Bound:
    """The arguments of one call."""

    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]
    #: Arguments that were given but that the function does not accept.
    ignored: Tuple[str, ...] = ()
    #: Required arguments that were not given.
    missing: Tuple[str, ...] = ()


def plugin(context: Context, name: str) -> Optional[Plugin]:
    """Return an execution function, or None."""
    return context.functions[name] if name in context.functions else None


def hint(context: Context, name: str) -> str:
    """Return "; did you mean …?" for a function that is not there."""
    module = name.partition(".")[0]
    refused = context.functions.refusal(module)
    if refused:
        return f": {refused}"
    names = list(context.functions.module(module))
    prefixes = (prefix for prefix in context.functions.prefixes() if prefix != module)
    near = nearest(name, names) if names else nearest(module, prefixes)
    return f"; did you mean {near!r}?" if near else ""


def bind(function: Plugin, args: List[Any], given: Mapping[str, Any]) -> Bound:
    """Return *given* as arguments of *function*; unknown arguments are dropped and listed."""
    accepted, required, open_, many = [], set(), False, False
    for one in function.parameters():
        if one.many:
            open_, many = open_ or one.by_name, many or one.by_place
        else:
            accepted.append(one.name)
            if one.is_required:
                required.add(one.name)
    kwargs = {key: value for key, value in given.items() if open_ or key in accepted}
    placed = accepted[: len(args)]
    missing = [key for key in accepted if key in required and key not in (*placed, *kwargs)]
    kwargs = {key: value for key, value in kwargs.items() if key not in placed}
    kept = tuple(args if many else args[: len(accepted)])
    ignored = sorted(set(given) - set(kwargs) - set(placed))
    return Bound(kept, kwargs, tuple(ignored), tuple(missing))


def failed(function: Plugin, value: Any) -> bool:
    """Return whether *value* means that the call failed.

    A failure is False, or a mapping that contains a retcode other than 0 or `result: False`.
    For functions that run states, a list (of errors) is a failure too.
    """
    if isinstance(value, bool):
        return not value
    if isinstance(value, list):
        return getattr(function.mark, "fails", "") == "states"
    if isinstance(value, Mapping):
        return bool(value.get("retcode", 0)) or _has_false_result(value)
    return False


def _has_false_result(value: Mapping[str, Any]) -> bool:
    if value.get("result") is False:
        return True
    return any(_has_false_result(part) for part in value.values() if isinstance(part, Mapping))


def faults(value: Any) -> Iterator[str]:
    """Yield one text per error or failed state in the value of a function that runs states."""
    if isinstance(value, list):
        yield from (str(text) for text in value)
    elif isinstance(value, Mapping):
        for key, row in value.items():
            if isinstance(row, Mapping) and row.get("result") is False:
                yield f"{key}: {row.get('comment', '')}{_evidence(row.get('changes'))}"


def _evidence(changes: Any) -> str:
    """Return the exit code and the last output lines of a failed command."""
    if not isinstance(changes, Mapping) or not changes.get("retcode"):
        return ""
    written = str(changes.get("stderr") or changes.get("stdout") or "").strip().splitlines()
    lines = "".join(f"\n  {line}" for line in written[-_LINES_SHOWN:])
    return f", exit code {changes['retcode']}{lines}"


#: Functions whose value is the output of a command, which is shown while they run.
SHOWN = frozenset({"cmd.run", "cmd.run_all", "cmd.shell", "cmd.shell_all", "cmd.script"})


def run_named(context: Context, name: str, arguments: Mapping[str, Any]) -> StateResult:
    """Call function *name* as Salt's classic module.run; the change `ret` is its value.

    Args:
        context: of the run; in test mode nothing is called.
        name: the function, "module.function".
        arguments: by name; `args` is a list and `kwargs` a mapping of more. A leading `m_`
            distinguishes an argument from a keyword of the state (`m_name`).
    """
    function = plugin(context, name)
    if function is None:
        return StateResult(
            False, comment=f"Module function {name} is not available{hint(context, name)}"
        )
    given = {key[2:] if key.startswith("m_") else key: arguments[key] for key in arguments}
    args, kwargs = given.pop("args", None), given.pop("kwargs", None)
    given.pop("returner", None)  # without effect: the master stores every result
    if isinstance(kwargs, Mapping):
        given.update(kwargs)
    if not isinstance(args or [], list):
        return StateResult(False, comment="'args' must be a list.")
    bound = bind(function, args or [], given)
    if bound.missing:
        return StateResult(
            False, comment=f"The following arguments are missing: {' '.join(bound.missing)}"
        )
    warnings = tuple(f"{name} takes no argument {key!r}; it was ignored" for key in bound.ignored)
    if context.test:
        return StateResult(
            None, comment=f"Module function {name} is set to execute", warnings=warnings
        )
    if name in SHOWN:
        context.host.show_output()
    try:
        value = context.call(name, *bound.args, **bound.kwargs)
    except NotFoundError as error:
        return StateResult(False, comment=f"Module function {name}: {error}", warnings=warnings)
    except Exception as error:  # a function may raise anything; its state fails
        log.debug("%s failed", name, exc_info=True)
        comment = f"Module function {name} threw an exception. Exception: {error_line(error)}"
        return StateResult(False, comment=comment, warnings=warnings)
    return _answer(function, value, warnings)


def _answer(function: Plugin, value: Any, warnings: Tuple[str, ...]) -> StateResult:
    comment = f"Module function {function.name} executed"
    if not failed(function, value):
        return StateResult(True, {"ret": value}, comment, warnings)
    texts = list(faults(value)) if function.mark and function.mark.fails == "states" else []
    if texts:
        rest = len(texts) - _FAULTS_SHOWN
        shown = [*texts[:_FAULTS_SHOWN], *([f"and {rest} more"] if rest > 0 else [])]
        comment = "\n".join([f"{comment}; what failed in it:", *shown])
    return StateResult(False, {"ret": value}, comment, warnings)
