"""What a master does again and again, each by the clock."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from catena.core.errors import CatenaError

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Chore:
    """Something that is to be done every so often."""

    seconds: float
    work: Callable[[], Awaitable[object]]


class Household:
    """The chores of a master.

    They go by the clock and not by how often they were thought of: on a host that is busy a turn
    of the loop takes longer, and what waits for a sweep must not wait for longer too.

    Args:
        chores: done in this order where several are due.
        now: monotonic seconds; each is due first when its time has passed once.
    """

    def __init__(self, chores: Sequence[Chore], now: float) -> None:
        self._chores = chores
        self._due = [now + chore.seconds for chore in chores]

    async def do(self, now: float) -> None:
        """Do what is due at *now*. One that fails is logged, and due again in its time."""
        for place, chore in enumerate(self._chores):
            if now < self._due[place]:
                continue
            # What was missed is not made up for: once does it.
            self._due[place] = now + chore.seconds
            try:
                await chore.work()
            except (CatenaError, OSError) as error:
                LOG.warning("housekeeping: %s", error)
