"""The time by which orders grow old: it passes with the host, whatever its clock is set to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from catena.core.records import decode, encode
from catena.master.process import rows
from catena.master.process.clocks import ClockReading, same_boot, same_host
from catena.master.store.database import Store

#: A wall clock that parts by less from steady time was not set, it was read a moment later.
STEP_SECONDS = 1.0
#: What is not known after a boot of the host of the time before it, at most.
KEEP_SECONDS = 3600.0
_FACT = "steady_time"


@dataclass(frozen=True)
class Mark:
    """Steady time and both clocks of the host at one moment."""

    #: Seconds since the epoch, as if nobody had ever set the wall clock.
    steady: float
    at: ClockReading

    @property
    def ahead(self) -> float:
        """Seconds by which the wall clock is ahead of steady time."""
        return self.at.wall - self.steady


def carried(mark: Mark, now: ClockReading) -> Mark:
    """Return the mark of *now*, given an earlier one.

    Within a boot steady time is what the boot clock says. Across a boot of the host only the wall
    clock tells how long the host was off. The time since the boot has passed for certain, so a
    clock that lost its battery turns nothing back. On another host the wall clock alone counts:
    the uptime of that host says nothing about the mark. Steady time never goes back.

    A clock that was set back before the boot may have been corrected since; no clock tells. Of two
    possible times the shorter one counts, so that no order expires early.
    """
    if same_boot(mark.at, now):
        return Mark(mark.steady + now.mono - mark.at.mono, now)
    since_boot = now.mono if same_host(mark.at, now) else 0.0
    least = mark.steady + since_boot
    possible = (now.wall - mark.ahead, now.wall - max(mark.ahead, 0.0))
    return Mark(min((time for time in possible if time >= least), default=least), now)


class SteadyTime:
    """Steady time of this master, which goes on over its restarts.

    It begins as the wall clock of its first start. What is kept under it is not changed by a wall
    clock that is set, ahead or back: an order that may wait for a day waits for a day.

    Args:
        store: where the mark is kept.
        clocks: reads both clocks of the host.
    """

    def __init__(self, store: Store, clocks: Callable[[], ClockReading]) -> None:
        self._store = store
        self._clocks = clocks
        now = clocks()
        #: The mark from which it goes on.
        self.kept = Mark(now.wall, now)

    async def open(self) -> None:
        """Go on from what is kept.

        Raises:
            StoreUnavailableError: it could not be kept.
        """
        found = await self._store.read(lambda conn: rows.fact(conn, _FACT))
        if found is not None:
            self.kept = decode(Mark, json.loads(found))
        await self._keep(self._look())

    def now(self) -> float:
        """Return steady time, seconds since the epoch."""
        return self._look().steady

    def by_wall_clock(self, steady: float) -> float:
        """Return when *steady* is by the wall clock as it is set now; for people."""
        return steady + self._look().ahead

    async def keep(self) -> None:
        """Keep how far the wall clock is ahead, where it was set, and once in a while."""
        found = self._look()
        was_set = abs(found.ahead - self.kept.ahead) > STEP_SECONDS
        if was_set or found.at.mono - self.kept.at.mono > KEEP_SECONDS:
            await self._keep(found)

    def _look(self) -> Mark:
        return carried(self.kept, self._clocks())

    async def _keep(self, mark: Mark) -> None:
        await self._store.write(lambda conn: _put(conn, mark))
        self.kept = mark


def _put(conn: sa.Connection, mark: Mark) -> None:
    value = json.dumps(encode(mark))
    if not rows.update_fact(conn, _FACT, value):
        rows.insert_fact(conn, _FACT, value)
