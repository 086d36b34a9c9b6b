"""onlyif, unless, creates and check_cmd: conditions before and after a state."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.states.compiler.model import Low

#: Arguments of a state that also apply to the commands of its conditions.
_SHARED = (
    "cwd", "env", "shell", "timeout", "runas", "runas_password", "umask", "success_retcodes",
)  # fmt: skip
#: Conditions that may run commands.
KINDS = ("onlyif", "unless", "check_cmd")
_NOT_ARGUMENTS = ("fun", "args", "get_return")


class ConditionError(UsageError):
    """A condition is malformed."""


def skip_comment(context: Context, low: Low) -> Optional[str]:
    """Return the comment with which the conditions skip *low*, or None if it has to run.

    `onlyif` skips if any entry is false, `unless` if all are true, `creates` if every path exists.
    Booleans have no effect (behaviour 20 to 22).

    Raises:
        ConditionError: an empty list, or an entry of the wrong shape.
        NotFoundError: an entry calls a function that does not exist.
    """
    keywords = low.keywords
    lines: List[str] = []
    skip = False
    if "onlyif" in keywords:
        met = all(_truths(context, low, "onlyif"))
        skip = skip or not met
        lines.append(f"onlyif condition is {'true' if met else 'false'}")
    if "unless" in keywords:
        met = any(not truth for truth in _truths(context, low, "unless"))
        skip = skip or not met
        lines.append(f"unless condition is {'false' if met else 'true'}")
    if "creates" in keywords:
        there, text = _creates(keywords["creates"])
        skip = skip or there
        lines.append(text)
    return "\n".join(lines) if skip else None


def commands(context: Context, low: Low, kind: str) -> int:
    """Return how many commands and changing functions a condition calls."""
    return sum(_acts(context, entry) for entry in _listed(low.keywords.get(kind)))


def _acts(context: Context, entry: Any) -> bool:
    name = entry.get("fun") if isinstance(entry, Mapping) else None
    if not isinstance(name, str):
        return isinstance(entry, str)
    known = name in context.functions
    return known and not getattr(context.functions[name].mark, "reads", False)


def failed_check(context: Context, low: Low) -> bool:
    """Return whether any command of *low*'s check_cmd fails."""
    return any(
        _retcode(context, low, command) != 0 for command in _listed(low.keywords["check_cmd"])
    )


def _listed(value: Any) -> List[Any]:
    return value if isinstance(value, list) else [value]


def _truths(context: Context, low: Low, kind: str) -> Iterator[bool]:
    entries = _listed(low.keywords[kind])
    if not entries:
        raise ConditionError(f"{kind} is an empty list")
    for place, entry in enumerate(entries, 1):
        if isinstance(entry, str):
            yield _retcode(context, low, entry) == 0
        elif isinstance(entry, Mapping):
            yield _called(context, entry, kind)
        elif kind == "onlyif":
            # As in Salt, a boolean or null from a template skips nothing and ends the evaluation
            # of
            # # the later entries; in `unless` it counts only as the last entry.
            return
        elif place == len(entries):
            yield False


def _creates(value: Any) -> Tuple[bool, str]:
    paths = [str(path) for path in _listed(value)]
    there = bool(paths) and all(Path(path).exists() for path in paths)
    if isinstance(value, list):
        return there, f"All files in creates {'exist' if there else 'do not exist'}"
    return there, f"{value} {'exists' if there else 'does not exist'}"


def _called(context: Context, entry: Mapping[str, Any], kind: str) -> bool:
    """Return whether a function's value is true and its exit code, if any, is 0."""
    if not isinstance(entry.get("fun"), str):
        raise ConditionError(f"{kind}: an entry that is a mapping needs `fun`; found {entry!r}")
    arguments = entry.get("args") or []
    named = {key: value for key, value in entry.items() if key not in _NOT_ARGUMENTS}
    before, context.scratch["retcode"] = context.scratch.get("retcode"), 0
    try:
        # Without a job in its context a command does not set the job's exit code.
        value = context.with_(job=None).call(entry["fun"], *_listed(arguments), **named)
        code = context.scratch["retcode"]
    finally:
        context.scratch["retcode"] = before or 0
    for key in str(entry["get_return"]).split(":") if entry.get("get_return") else ():
        value = value.get(key) if isinstance(value, Mapping) else None
    return bool(value) and not code


def _retcode(context: Context, low: Low, command: Any) -> int:
    function = context.functions["cmd.retcode"]
    given: Dict[str, Any] = {"python_shell": True, "ignore_retcode": True}
    for key in _SHARED:
        value = low.args.get(key, low.keywords.get(key))
        if value is not None:
            given[key] = value
    if isinstance(given.get("env"), list):
        given["env"] = {
            key: value
            for part in given["env"]
            if isinstance(part, Mapping)
            for key, value in part.items()
        }
    parameters = function.parameters()
    if not any(one.many and one.by_name for one in parameters):
        accepted = {one.name for one in parameters}
        given = {key: value for key, value in given.items() if key in accepted}
    return int(function.call(context, str(command), **given))
