"""The clock for the expiry of orders, which ignores changes of the wall clock.

Steady time is in seconds since the epoch. It starts as the wall clock of the master's first start,
continues across restarts and boots, and never goes back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from catena.core.records import decode, encode
from catena.master.process import rows
from catena.master.process.clocks import ClockReading, same_boot, same_host
from catena.master.store.database import Store

#: Minimum change of the wall clock against steady time that counts as setting it, seconds.
STEP_SECONDS = 1.0
#: Interval in seconds at which a reading is saved, and maximum time that a boot can lose.
SAVE_SECONDS = 3600.0
#: Name of the fact in the store.
_FACT = "steady_time"


@dataclass(frozen=True)
class SteadyReading:
    """Steady time and both clocks of the host at one moment."""

    #: Steady time, seconds since the epoch.
    steady: float
    at: ClockReading

    @property
    def ahead(self) -> float:
        """Seconds by which the wall clock is ahead of steady time."""
        return self.at.wall - self.steady


def advance(last: SteadyReading, now: ClockReading) -> SteadyReading:
    """Return the reading of *now*, given an earlier one.

    - Within a boot, the boot clock measures the time that has passed.
    - After a boot of the host, only the wall clock shows for how long the host was off. At least
      the time since the boot has passed, whatever the wall clock shows.
    - On another host, only the wall clock counts, because the uptime of that host is unrelated.

    A wall clock that was set back before the boot may have been corrected since; no clock shows
    whether it was. Of the two possible times the earlier one counts, so that no order expires
    early.
    """
    if same_boot(last.at, now):
        return SteadyReading(last.steady + now.mono - last.at.mono, now)
    since_boot = now.mono if same_host(last.at, now) else 0.0
    least = last.steady + since_boot
    possible = (now.wall - last.ahead, now.wall - max(last.ahead, 0.0))
    return SteadyReading(min((time for time in possible if time >= least), default=least), now)


class SteadyClock:
    """The steady clock of this master.

    An order that may wait for a day waits for a day, even if the wall clock is set meanwhile.

    Args:
        store: keeps the last saved reading.
        clocks: reads both clocks of the host.
    """

    def __init__(self, store: Store, clocks: Callable[[], ClockReading]) -> None:
        self._store = store
        self._clocks = clocks
        now = clocks()
        #: The last saved reading.
        self.saved = SteadyReading(now.wall, now)

    async def open(self) -> None:
        """Continue from the saved reading, and save the present one.

        Raises:
            StoreUnavailableError: the reading could not be saved.
        """
        found = await self._store.read(lambda conn: rows.fact(conn, _FACT))
        if found is not None:
            self.saved = decode(SteadyReading, json.loads(found))
        await self._save(self._read())

    def now(self) -> float:
        """Return steady time, seconds since the epoch."""
        return self._read().steady

    def by_wall_clock(self, steady: float) -> float:
        """Return a steady time by the wall clock as it is set now, for people."""
        return steady + self._read().ahead

    async def save_if_due(self) -> None:
        """Save a reading if the wall clock was set, or if the saved one is old."""
        found = self._read()
        was_set = abs(found.ahead - self.saved.ahead) > STEP_SECONDS
        if was_set or found.at.mono - self.saved.at.mono > SAVE_SECONDS:
            await self._save(found)

    def _read(self) -> SteadyReading:
        return advance(self.saved, self._clocks())

    async def _save(self, reading: SteadyReading) -> None:
        await self._store.write(lambda conn: _put(conn, reading))
        self.saved = reading


def _put(conn: sa.Connection, reading: SteadyReading) -> None:
    value = json.dumps(encode(reading))
    if not rows.update_fact(conn, _FACT, value):
        rows.insert_fact(conn, _FACT, value)
