"""grains.*: custom grains of this host, stored in its static file."""

from __future__ import annotations

from typing import Any, Dict, List

from catena.core.context import Context
from catena.core.nested import MISSING, traverse
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.grain_rules import refusal
from catena.states.answers import done, failed, would


def _current(context: Context, name: str, delimiter: str) -> Any:
    return traverse(context.grains, name, MISSING, delimiter)


def _set(context: Context, name: str, value: Any, delimiter: str, **more: Any) -> Dict[str, Any]:
    answer: Dict[str, Any] = context.call(
        "grains.set", name, value, force=True, delimiter=delimiter, **more
    )
    return answer


@state()
def exists(context: Context, name: str, delimiter: str = ":") -> StateResult:
    """Verify that a grain exists."""
    if _current(context, name, delimiter) is MISSING:
        return failed("Grain does not exist")
    return done("Grain exists")


@state()
def present(
    context: Context, name: str, value: Any, delimiter: str = ":", force: bool = False
) -> StateResult:
    """Make sure that a grain has a value.

    Args:
        context: of the run.
        name: name or path of the grain.
        value: its value.
        delimiter: separator of the names in a path.
        force: allow replacing a plain value by a mapping or list, or the reverse.
    """
    before = _current(context, name, delimiter)
    if before is not MISSING and before == value:
        return done("Grain is already set")
    refused = "" if force else refusal(context.grains, name, value, delimiter)
    if refused:
        return failed(refused)
    if context.test:
        verb = "set" if before is MISSING else "changed"
        change = {"new": name} if before is MISSING else {"changed": {name: value}}
        return would(f"Grain {name} is set to be {'added' if verb == 'set' else verb}", change)
    answer = _set(context, name, value, delimiter)
    if not answer["result"]:
        return failed(str(answer["comment"]))
    return done(f"Set grain {name} to {value}", answer["changes"])


@state()
def absent(
    context: Context,
    name: str,
    destructive: bool = False,
    delimiter: str = ":",
    force: bool = False,
) -> StateResult:
    """Make sure that a grain has no value.

    Args:
        context: of the run.
        name: name or path of the grain.
        destructive: remove the grain; otherwise it keeps the value None, as in Salt.
        delimiter: separator of the names in a path.
        force: also remove a mapping or list.
    """
    before = _current(context, name, delimiter)
    if before is MISSING or (before is None and not destructive):
        return done(
            f"Grain {name} does not exist" if before is MISSING else f"Grain {name} is None"
        )
    refused = "" if force else refusal(context.grains, name, None, delimiter)
    if refused:
        return failed(refused)
    changes = {"deleted": name} if destructive else {"grain": name, "value": None}
    what = f"Grain {name}" if destructive else f"Value for grain {name}"
    verb = "deleted" if destructive else "set to None"
    if context.test:
        rest = "" if destructive else " (None)"
        return would(f"{what} is set to be deleted{rest}", changes)
    answer = _set(context, name, None, delimiter, destructive=destructive)
    if not answer["result"]:
        return failed(str(answer["comment"]))
    return done(f"{what} was {verb}", changes)


def _listed(value: Any) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


@state(name="list_present")
def list_present(context: Context, name: str, value: Any, delimiter: str = ":") -> StateResult:
    """Make sure that a grain is a list that contains these members.

    Args:
        context: of the run.
        name: name or path of the grain.
        value: a member, or a list of them.
        delimiter: separator of the names in a path.
    """
    before = _current(context, name, delimiter)
    if before is not MISSING and before is not None and not isinstance(before, (list, tuple)):
        return failed(f"Grain {name} is not a valid list")
    old = _listed(before) if isinstance(before, (list, tuple)) else []
    new = [each for each in _listed(value) if each not in old]
    shown = new if isinstance(value, (list, tuple)) else value
    if not new:
        return done(f"Value {value} is already in grain {name}")
    if context.test:
        if before is MISSING:
            return would(f"Grain {name} is set to be added", {"new": new})
        return would(f"Value {shown} is set to be appended to grain {name}", {"new": new})
    answer = _set(context, name, [*old, *new], delimiter)
    return done(f"Append value {shown} to grain {name}", {"new": answer["changes"]})


@state(name="list_absent")
def list_absent(context: Context, name: str, value: Any, delimiter: str = ":") -> StateResult:
    """Make sure that a list grain does not contain these members.

    Args:
        context: of the run.
        name: name or path of the grain.
        value: a member, or a list of them.
        delimiter: separator of the names in a path.
    """
    before = _current(context, name, delimiter)
    if before is MISSING or before is None:
        return done(f"Grain {name} does not exist")
    if not isinstance(before, (list, tuple)):
        return failed(f"Grain {name} is not a valid list")
    gone = [each for each in _listed(value) if each in before]
    if not gone:
        return done(f"Value {value} is absent from grain {name}")
    if context.test:
        comments = [f"Value {each} in grain {name} is set to be deleted" for each in gone]
        return would("\n".join(comments), {"deleted": gone})
    _set(context, name, [each for each in before if each not in gone], delimiter)
    comments = [
        f"Value {each} was deleted from grain {name}"
        if each in gone
        else f"Value {each} is absent from grain {name}"
        for each in _listed(value)
    ]
    return done("\n".join(comments), {"deleted": gone})


@state()
def append(
    context: Context, name: str, value: Any, convert: bool = False, delimiter: str = ":"
) -> StateResult:
    """Add one member to a list grain; with *convert*, turn a plain value into a list.

    Args:
        context: of the run.
        name: name or path of the grain.
        value: the new member.
        convert: turn a plain value into a list first.
        delimiter: separator of the names in a path.
    """
    before = _current(context, name, delimiter)
    if before is MISSING or before is None:
        return failed(f"Grain {name} does not exist")
    if not isinstance(before, (list, tuple)) and not convert:
        return failed(f"Grain {name} is not a valid list")
    old = _listed(before)
    if value in old:
        return done(f"Value {value} is already in the list for grain {name}")
    if context.test:
        return would(f"Value {value} in grain {name} is set to be added", {"added": value})
    _set(context, name, [*old, value], delimiter)
    return done(f"Value {value} was added to grain {name}", {"added": value})
