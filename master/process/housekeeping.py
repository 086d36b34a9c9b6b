"""Periodic tasks of a master."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from catena.core.errors import CatenaError

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class PeriodicTask:
    """A function and the interval in seconds at which it is called."""

    seconds: float
    work: Callable[[], Awaitable[object]]


class Housekeeping:
    """The periodic tasks of a master.

    The clock decides when a task is due, not the number of calls: on a busy host an iteration of
    the event loop takes longer, but tasks must not become rarer.

    Args:
        tasks: called in this order if several are due.
        now: monotonic clock, seconds; each task is first due after one interval.
    """

    def __init__(self, tasks: Sequence[PeriodicTask], now: float) -> None:
        self._tasks = tasks
        self._due = [now + task.seconds for task in tasks]

    async def run_due(self, now: float) -> None:
        """Run the tasks that are due at *now*. A failed task is logged and due after its interval.

        A task that was due several times in the meantime runs once.
        """
        for place, task in enumerate(self._tasks):
            if now < self._due[place]:
                continue
            self._due[place] = now + task.seconds
            try:
                await task.work()
            except (CatenaError, OSError) as error:
                LOG.warning("a periodic task failed: %s", error)
