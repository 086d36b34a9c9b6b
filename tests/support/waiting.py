"""Waiting for what happens elsewhere: in another task, thread or process.

Wait for a signal where there is one: an event, a pipe, a future, a message. `wait_until` and
`until` are for what gives no signal, as a file or a row. No other code of the tests polls.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import select
import time
from collections.abc import Callable
from typing import Any

#: Maximum wait, in seconds; a busy machine is slow.
PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.01
#: Time limits of a command or job, tried one after the other until it has started before the limit
#: ended it. The first is enough on a quiet machine.
GROWING_SECONDS = (1, 5, 25)


def wait_until(happened: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Return the first true value of *happened*; fail with *what* if there is none in time."""
    ends = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < ends, f"waited {seconds:.0f} s for {what}"
        time.sleep(_POLL_SECONDS)
    return found


async def until(
    happened: Callable[[], Any],
    what: str = "a condition of the test",
    seconds: float = PATIENCE_SECONDS,
) -> Any:
    """Return the first true value of *happened*, which may be a coroutine function.

    Fails with *what* if there is none in time.
    """
    ends = time.monotonic() + seconds
    while True:
        found = happened()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < ends, f"waited {seconds:.0f} s for {what}"
        await asyncio.sleep(_POLL_SECONDS)


async def run_ready_tasks(iterations: int = 50) -> None:
    """Run the event loop *iterations* times, so that every task that can continue does so."""
    for _ in range(iterations):
        await asyncio.sleep(0)


def process_ends(pid: int, seconds: float = PATIENCE_SECONDS) -> bool:
    """Wait for the end of a process, of whatever parent; return whether it ended in time."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        ended, _, _ = select.select([handle], [], [], seconds)
        return bool(ended)
    finally:
        os.close(handle)
