"""test.*: states that change nothing, for tests of requisites and templates."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.plugins import state
from catena.core.types import StateResult

_CHANGES = {"testing": {"old": "Unchanged", "new": "Something pretended to change"}}
_NOT_TESTING = "If we weren't testing, this would be"
_MISSING = object()


@state()
def nop(context: Context, /, name: str, **kwargs: Any) -> StateResult:
    """Succeed and change nothing, whatever the arguments."""
    return StateResult(True, comment="Success!")


@state()
def succeed_without_changes(context: Context, /, name: str, **kwargs: Any) -> StateResult:
    """Succeed and change nothing."""
    return StateResult(True, comment=str(kwargs.get("comment", "Success!")))


@state()
def succeed_with_changes(context: Context, /, name: str, **kwargs: Any) -> StateResult:
    """Succeed and report a change that did not happen."""
    if context.test:
        return StateResult(None, _CHANGES, f"{_NOT_TESTING} successful with changes")
    return StateResult(True, _CHANGES, str(kwargs.get("comment", "Success!")))


@state()
def fail_without_changes(context: Context, /, name: str, **kwargs: Any) -> StateResult:
    """Fail and change nothing."""
    if context.test:
        return StateResult(False, comment=f"{_NOT_TESTING} a failure!")
    return StateResult(False, comment=str(kwargs.get("comment", "Failure!")))


@state()
def fail_with_changes(context: Context, /, name: str, **kwargs: Any) -> StateResult:
    """Fail and report a change that did not happen."""
    if context.test:
        return StateResult(None, _CHANGES, f"{_NOT_TESTING} failed with changes")
    return StateResult(False, _CHANGES, str(kwargs.get("comment", "Failure!")))


@state()
def configurable_test_state(
    context: Context,
    name: str,
    changes: Union[bool, str] = True,
    result: Union[bool, str] = True,
    comment: str = "",
    warnings: Union[str, Sequence[str], None] = None,
) -> StateResult:
    """Return the result that the arguments describe.

    Args:
        context: of the run.
        name: any text.
        changes: report a change; "Random" decides randomly.
        result: True or False; "Random" decides randomly.
        comment: the comment.
        warnings: a warning, or a list of them.

    Raises:
        UsageError: changes or result is neither a boolean nor "Random".
    """
    changed, passed = _chosen("changes", changes), _chosen("result", result)
    warned = (warnings,) if isinstance(warnings, str) else tuple(warnings or ())
    made = _CHANGES if changed else {}
    if context.test:
        answer = None if changed else True
        return StateResult(answer, made, comment or "This is a test", warned)
    return StateResult(passed, made, comment, warned)


def _chosen(what: str, value: Union[bool, str]) -> bool:
    if value == "Random":
        from random import choice

        return choice((True, False))
    if isinstance(value, bool):
        return value
    raise UsageError(f"{what} must be True, False or 'Random', not {value!r}")


@state()
def show_notification(context: Context, name: str, text: str = "") -> StateResult:
    """Show *text* as the comment.

    Raises:
        UsageError: there is no text.
    """
    if not text:
        raise UsageError("show_notification needs a text")
    return StateResult(True, comment=text)


@state()
def check_pillar(
    context: Context,
    /,
    name: str,
    present: Union[str, List[str], None] = None,
    **typed: Union[str, List[str]],
) -> StateResult:
    """Fail unless the pillar has these keys with values of these types.

    Args:
        context: provides the pillar.
        name: any text.
        present: keys (with colons between levels) that must exist.
        typed: keys by type: boolean, integer, string, listing, dictionary.

    Raises:
        UsageError: a type is unknown.
    """
    faults = [
        f'Pillar key "{key}" is missing.'
        for key in _listed(present)
        if _lookup(context.pillar, key) is _MISSING
    ]
    for kind, keys in typed.items():
        check = _TYPES.get(kind)
        if check is None:
            raise UsageError(f"check_pillar knows no type {kind!r}: {', '.join(_TYPES)}")
        faults += [
            f'Pillar key "{key}" is not {check!r}.'
            for key in _listed(keys)
            if not _is(check, _lookup(context.pillar, key))
        ]
    return StateResult(not faults, comment="".join(f"{fault}\n" for fault in faults))


_TYPES: Dict[str, type] = {
    "boolean": bool,
    "integer": int,
    "string": str,
    "listing": list,
    "dictionary": dict,
}


def _listed(keys: Union[str, Sequence[str], None]) -> List[str]:
    return [keys] if isinstance(keys, str) else list(keys or ())


def _is(kind: type, value: Any) -> bool:
    if kind is int and isinstance(value, bool):
        return False
    return isinstance(value, kind)


def _lookup(data: Any, path: str) -> Any:
    for part in path.split(":"):
        if not isinstance(data, Mapping) or part not in data:
            return _MISSING
        data = data[part]
    return data


@state()
def mod_watch(
    context: Context,
    /,
    name: str,
    sfun: str = "",
    __reqs__: Optional[Mapping[str, Sequence[Mapping[str, Any]]]] = None,
    **kwargs: Any,
) -> StateResult:
    """Report that something watched has changed."""
    sources = [
        f"{source['state']}: {source['__id__']}" for source in (__reqs__ or {}).get("watch", ())
    ]
    changes = {"Requisites with changes": sources}
    return StateResult(True, changes, "Watch statement fired.")
