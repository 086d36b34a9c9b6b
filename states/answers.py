"""Short ways to make a state's result, so that the states read as sentences."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from catena.core import frozen
from catena.core.suggest import nearest
from catena.core.types import StateResult

#: How alike a wrong argument and a right one must be: `user` does not mean `use_vt`.
_SLIP = 0.75


def done(comment: str, changes: Optional[Mapping[str, Any]] = None) -> StateResult:
    """Everything is as it should be; *changes* says what had to be changed for that."""
    return StateResult(True, dict(changes or {}), comment)


def would(comment: str, changes: Optional[Mapping[str, Any]] = None) -> StateResult:
    """Test mode: this would change."""
    return StateResult(None, dict(changes or {}), comment)


def failed(comment: str, changes: Optional[Mapping[str, Any]] = None) -> StateResult:
    """It could not be made as it should be."""
    return StateResult(False, dict(changes or {}), comment)


def likely_typos(record: type, rest: Mapping[str, Any], what: str) -> Tuple[str, ...]:
    """Return a warning for each argument that no field has but that looks like one.

    Salt's open-ended states ignore arguments they do not know, and public formulas rely on it; a
    near miss of a known name is a mistake all the same.
    """
    names = [field.name for field in frozen.fields(record)]
    found = []
    for key in sorted(rest):
        near = nearest(key, names, _SLIP)
        if near and not key.startswith("__"):
            found.append(f"{what} ignores the argument '{key}'; did you mean '{near}'?")
    return tuple(found)
