"""environ.setenv: environment variables of the run; its later commands inherit them."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Optional

from catena.core.context import Context
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would


def _wanted(name: str, value: Any) -> Optional[Dict[str, Any]]:
    """Return the wanted value by variable (False: unset or empty); None if it is invalid."""
    if isinstance(value, str) or value is False:
        return {name: value}
    if isinstance(value, Mapping):
        fits = all(isinstance(each, str) or each is False for each in value.values())
        return dict(value) if fits else None
    return None


def _differences(wanted: Mapping[str, Any], false_unsets: bool) -> Dict[str, Optional[str]]:
    """Return the new values of the variables to change; None means unset."""
    found: Dict[str, Optional[str]] = {}
    for key, value in wanted.items():
        if value is False and false_unsets:
            if key in os.environ:
                found[key] = None
        elif os.environ.get(key) != (value or ""):
            found[key] = value or ""
    return found


@state()
def setenv(
    context: Context,
    name: str,
    value: Any,
    false_unsets: bool = False,
    clear_all: bool = False,
    update_minion: bool = False,
    permanent: bool = False,
) -> StateResult:
    """Set environment variables for the rest of this run.

    Args:
        context: of the run.
        name: the variable, or any text if *value* is a mapping.
        value: text, False, or a mapping {variable: value}.
        false_unsets: False removes a variable instead of emptying it.
        clear_all: empty or remove every other variable.
        update_minion: accepted without effect; a job's environment ends with the job.
        permanent: accepted without effect; it exists for Windows.
    """
    wanted = _wanted(name, value)
    if wanted is None:
        return failed("Environ value must be string, dict or False")
    if truth(clear_all):
        wanted = {**{key: False for key in os.environ if key not in wanted}, **wanted}
    changes = _differences(wanted, truth(false_unsets))
    if not changes:
        return done("Environ values were already set with the correct values")
    if context.test:
        return would("Environ values will be changed", changes)
    for key, text in changes.items():
        if text is None:
            os.environ.pop(key, None)
        else:
            context.call("environ.setval", key, text)
    return done("Environ values were set", changes)
