"""Constructors of state results: `done`, `would` and `failed`."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from catena.core import frozen
from catena.core.suggest import nearest
from catena.core.types import StateResult

#: Minimum similarity (0 to 1) of a mistyped and a known argument: `user` is no typo of `use_vt`.
_SLIP = 0.75


def done(comment: str, changes: Optional[Mapping[str, Any]] = None) -> StateResult:
    """Return success; *changes* says what was changed to reach the wanted state."""
    return StateResult(True, dict(changes or {}), comment)


def would(comment: str, changes: Optional[Mapping[str, Any]] = None) -> StateResult:
    """Return the result of test mode for a state that would change something."""
    return StateResult(None, dict(changes or {}), comment)


def failed(comment: str, changes: Optional[Mapping[str, Any]] = None) -> StateResult:
    """Return a failure: the wanted state was not reached."""
    return StateResult(False, dict(changes or {}), comment)


def likely_typos(record: type, rest: Mapping[str, Any], what: str) -> Tuple[str, ...]:
    """Return a warning for each unknown argument whose name resembles a field.

    Salt's states with `**kwargs` ignore unknown arguments, and public formulas rely on that.
    A name that is close to a known one is still a mistake.
    """
    names = [field.name for field in frozen.fields(record)]
    found = []
    for key in sorted(rest):
        near = nearest(key, names, _SLIP)
        if near and not key.startswith("__"):
            found.append(f"{what} ignores the argument '{key}'; did you mean '{near}'?")
    return tuple(found)
