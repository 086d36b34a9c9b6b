"""stateconf.*: no-op states whose arguments the stateconf renderer reads."""

from __future__ import annotations

from typing import Any

from catena.core.context import Context
from catena.core.plugins import state
from catena.core.types import StateResult


@state(name="set")
def set_(context: Context, /, name: str, **kwargs: Any) -> StateResult:
    """Do nothing: the arguments are parameters of the file for the stateconf renderer."""
    return StateResult(True)


@state(name="context")
def context_(context: Context, /, name: str, **kwargs: Any) -> StateResult:
    """Do nothing: see stateconf.set."""
    return StateResult(True)
