"""Time of a PostgreSQL server, on which every master that uses it agrees."""

from __future__ import annotations

import json
from dataclasses import dataclass

import sqlalchemy as sa

from catena.core.clock import Clock, ClockReading
from catena.core.records import decode, encode
from catena.master.process.clocks import HostClocks
from catena.master.store.database import Store
from catena.master.store.tables import FACTS

#: How often the server is asked, seconds. Between two answers the host's boot clock goes on.
LOOK_SECONDS = 10.0
#: A server's wall clock that is off by more, seconds, was set; less is the way to it and back.
STEP_SECONDS = 1.0
#: Row of the table `fact` with the Zero of the server's present incarnation.
_FACT = "server_clock"
_NOW = sa.text(
    "SELECT extract(epoch FROM clock_timestamp()), extract(epoch FROM pg_postmaster_start_time()),"
    " system_identifier FROM pg_control_system()"
)


@dataclass(frozen=True)
class Zero:
    """Where the steady clock of a server's incarnation begins."""

    #: Identifier of the database cluster and start time of the server. A standby that is promoted
    #: has the identifier of its primary and a start of its own.
    boot: str
    #: Reading of the server's wall clock at which its steady clock is 0. It moves with the wall
    #: clock when that is set, so that the steady clock does not.
    wall: float


@dataclass(frozen=True)
class ServerTime:
    """What a server answered."""

    wall: float
    #: When the server started, by its wall clock.
    started: float
    boot: str
    #: Boot clock of this host in the middle between question and answer, and seconds between them.
    local: float
    took: float


def zero_of(kept: Zero | None, expected: ClockReading | None, now: ServerTime) -> Zero:
    """Return where the server's steady clock begins.

    Args:
        kept: as stored by whichever master looked first, or noticed the last step.
        expected: reading that this master expected at the moment of *now*; None before its first
            look. A step that happens while no master runs is not noticed.
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

    The server has no clock for SQL that nobody can set. Its steady clock is its wall clock without
    the steps that masters notice; where it begins is stored, so that all masters use the same one.
    Before the first look the host's clocks are read.

    Args:
        store: on the server.
        clock: of this host, which carries an answer on until the next one.
        boot_id: as for `HostClocks`.
        host_id: as for `HostClocks`.
    """

    def __init__(self, store: Store, clock: Clock, boot_id: str, host_id: str = "") -> None:
        super().__init__(clock, boot_id, host_id)
        self._store = store
        #: The server's reading at the last look, and the host's boot clock at that moment.
        self._last: tuple[ClockReading, float] | None = None
        #: The latest steady time that was given out.
        self._given = 0.0

    def read(self) -> ClockReading:
        """Return both clocks of the server now."""
        if self._last is None:
            return super().read()
        found = self._carried(super().read().mono)
        # An answer that took its time may set the clock back by a little.
        self._given = max(self._given, found.mono)
        return ClockReading(found.wall, self._given, found.boot)

    async def look(self) -> None:
        """Ask the server for its time.

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
        wall, started, identifier = conn.execute(_NOW).one()
        after = super().read().mono
        boot = f"{identifier}/{float(started):.6f}"
        local, took = (before + after) / 2, after - before
        return ServerTime(float(wall), float(started), boot, local, took), kept


def _kept(conn: sa.Connection) -> Zero | None:
    found = conn.execute(sa.select(FACTS.c.value).where(FACTS.c.name == _FACT)).scalar()
    return None if found is None else decode(Zero, json.loads(found))


def _put(conn: sa.Connection, seen: Zero | None, zero: Zero) -> Zero:
    """Store *zero* where *seen* is stored; return what is stored then."""
    kept = _kept(conn)
    if kept != seen and kept is not None:
        # Another master was first.
        return kept
    value = json.dumps(encode(zero))
    if kept is None:
        conn.execute(sa.insert(FACTS).values(name=_FACT, value=value))
    else:
        conn.execute(sa.update(FACTS).where(FACTS.c.name == _FACT).values(value=value))
    return zero
