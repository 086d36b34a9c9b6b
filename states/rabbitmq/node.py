"""What all states of RabbitMQ share: results of refusals and of a missing node."""

from __future__ import annotations

from typing import Callable

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.types import StateResult
from catena.modules.rabbitmq import NoNodeError
from catena.states.answers import failed, would


def attempt(context: Context, work: Callable[[], StateResult], expected: str) -> StateResult:
    """Return the result of *work*; a refusal of the node fails the state.

    In test mode an earlier state that would start the node has not started it, so a missing node
    is no failure.

    Args:
        context: the call's context.
        work: compares and acts.
        expected: sentence about the change, for test mode without a node.
    """
    try:
        return work()
    except NoNodeError as problem:
        if context.test:
            return would(f"{expected} This could not be compared: {problem}")
        return failed(f"Error: {problem}")
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Error: {problem}")
