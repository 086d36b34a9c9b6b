"""Uyuni's `mgrcompat.module_run`: the state that every action of a chain is written as.

Its form is that of the chunk files (`name` is the function, its arguments stand beside it), and
always classic, whatever the minion's settings say of `module.run`.
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
        arguments: its arguments by name; `kwargs`, a mapping, holds more of them.

    Returns:
        Changes {"ret": value of the function}; failed when the value says so: False, a retcode
        other than 0, errors or a failed state of a nested state run.
    """
    return run_named(context, name, arguments)
