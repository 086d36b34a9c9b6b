"""Periodic tasks of a master."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from catena.core.errors import CatenaError

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Chore:
    """A task and its interval."""

    seconds: float
    work: Callable[[], Awaitable[object]]


class Household:
    """The periodic tasks of a master.

    They depend on the clock and not on the number of calls: on a busy host an iteration of the
    event loop takes longer, but tasks must not become rarer.

    Args:
        chores: done in this order if several are due.
        now: monotonic seconds; each is first due after one interval.
    """

    def __init__(self, chores: Sequence[Chore], now: float) -> None:
        self._chores = chores
        self._due = [now + chore.seconds for chore in chores]

    async def do(self, now: float) -> None:
        """Do what is due at *now*. A task that fails is logged and repeated after its interval."""
        for place, chore in enumerate(self._chores):
            if now < self._due[place]:
                continue
            # Missed runs are not made up for; one is enough.
            self._due[place] = now + chore.seconds
            try:
                await chore.work()
            except (CatenaError, OSError) as error:
                LOG.warning("housekeeping: %s", error)
