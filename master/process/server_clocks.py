"""The time of a PostgreSQL server, which all masters that use it share."""

from __future__ import annotations

import json
from dataclasses import dataclass

import sqlalchemy as sa

from catena.core.clock import Clock, ClockReading
from catena.core.records import decode, encode
from catena.master.process import rows
from catena.master.process.clocks import HostClocks
from catena.master.store.database import Store

#: Seconds between two queries of the server; the host's boot clock extrapolates in between.
LOOK_SECONDS = 10.0
#: Deviation of the server's wall clock, in seconds, above which it was set; less is latency.
STEP_SECONDS = 1.0
#: Row of the table `fact` with the Zero of the server's current incarnation.
_FACT = "server_clock"


@dataclass(frozen=True)
class Zero:
    """The zero point of the steady clock of one incarnation of the server."""

    #: Identifier of the database cluster and start time of the server. A promoted standby has the
    #: identifier of its primary, but a start time of its own.
    boot: str
    #: Server's wall clock at which the steady clock is 0. It is shifted when the wall clock is
    #: set, so that the steady clock does not change.
    wall: float


@dataclass(frozen=True)
class ServerTime:
    """A server's answer."""

    wall: float
    #: Start of the server by its wall clock.
    started: float
    boot: str
    #: Boot clock of this host halfway between question and answer, and below the seconds between.
    local: float
    took: float


def zero_of(kept: Zero | None, expected: ClockReading | None, now: ServerTime) -> Zero:
    """Return the zero point of the server's steady clock.

    Args:
        kept: as stored by the master that looked first or noticed the last step.
        expected: reading that this master expected for *now*; None before its first look. A step
            while no master runs is not noticed.
        now: the server's answer.
    """
    if kept is None or kept.boot != now.boot:
        return Zero(now.boot, now.started)
    if expected is None or expected.boot != now.boot:
        return kept
    steady = Zero(now.boot, now.wall - expected.mono)
    was_set = abs(steady.wall - kept.wall) > STEP_SECONDS + now.took
    return steady if was_set else kept


class ServerClocks(HostClocks):
    """The time source of a PostgreSQL store: the server's wall clock and its incarnation.

    The server offers SQL no clock that cannot be set. Its steady clock is its wall clock without
    the steps that masters notice. The zero point is stored, so that all masters use the same one.
    Before the first look, the host's clocks are used.

    Args:
        store: on the server.
        clock: of this host, to extrapolate between two answers.
        boot_id: as for `HostClocks`.
        host_id: as for `HostClocks`.
    """

    def __init__(self, store: Store, clock: Clock, boot_id: str, host_id: str = "") -> None:
        super().__init__(clock, boot_id, host_id)
        self._store = store
        #: The server's reading at the last look, and the host's boot clock at that moment.
        self._last: tuple[ClockReading, float] | None = None
        #: The latest steady time that was returned.
        self._given = 0.0

    def read(self) -> ClockReading:
        """Return both clocks of the server now."""
        if self._last is None:
            return super().read()
        found = self._carried(super().read().mono)
        # A slow answer may set the clock back slightly; never return an earlier time.
        self._given = max(self._given, found.mono)
        return ClockReading(found.wall, self._given, found.boot)

    async def look(self) -> None:
        """Query the server's time.

        Raises:
            StoreUnavailableError: it did not answer.
        """
        now, kept = await self._store.read(self._ask)
        zero = zero_of(kept, self._carried(now.local) if self._last else None, now)
        if zero != kept:
            zero = await self._store.write(lambda conn: _put(conn, kept, zero))
        if self._last is None or self._last[0].boot != now.boot:
            self._given = 0.0
        self._last = ClockReading(now.wall, now.wall - zero.wall, now.boot), now.local

    def _carried(self, local: float) -> ClockReading:
        """Return the server's clocks at a moment of the host's boot clock."""
        assert self._last is not None
        last, then = self._last
        return ClockReading(last.wall + local - then, last.mono + local - then, last.boot)

    def _ask(self, conn: sa.Connection) -> tuple[ServerTime, Zero | None]:
        kept = _kept(conn)
        before = super().read().mono
        found = rows.server_now(conn)
        after = super().read().mono
        boot = f"{found.identifier}/{found.started:.6f}"
        local, took = (before + after) / 2, after - before
        return ServerTime(found.wall, found.started, boot, local, took), kept


def _kept(conn: sa.Connection) -> Zero | None:
    found = rows.fact(conn, _FACT)
    return None if found is None else decode(Zero, json.loads(found))


def _put(conn: sa.Connection, seen: Zero | None, zero: Zero) -> Zero:
    """Replace the stored *seen* by *zero*; return the value that is stored then."""
    kept = _kept(conn)
    if kept != seen and kept is not None:
        # Another master was first.
        return kept
    value = json.dumps(encode(zero))
    if kept is None:
        rows.insert_fact(conn, _FACT, value)
    else:
        rows.update_fact(conn, _FACT, value)
    return zero
