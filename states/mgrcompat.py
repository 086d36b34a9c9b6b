"""Uyuni's `mgrcompat.module_run`: each action of a chain is written as this state.

As in chunk files, `name` is the function and its arguments are keys beside it. This classic form
applies regardless of the minion's settings for `module.run`.
"""

from __future__ import annotations

from typing import Any

from catena.core.context import Context
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.states.function_calls import PASSED_ON, run_named


@state(wants=PASSED_ON)
def module_run(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Call execution function *name*.

    Args:
        context: of the run.
        name: the function, such as `state.apply` or `system.reboot`.
        arguments: its arguments by name; the mapping `kwargs` holds more of them.

    Returns:
        Changes {"ret": value of the function}. The state fails if the value is False, or has a
        retcode other than 0, errors, or a failed state of a nested run.
    """
    return run_named(context, name, arguments)
