"""The clocks of the master's host as a time source, and the time between two readings."""

from __future__ import annotations

from catena.core.clock import Clock
from catena.core.clock import ClockReading as ClockReading


class HostClocks:
    """Reads the wall clock and the boot clock of the host: the time source of a SQLite store.

    Args:
        clock: the clocks.
        boot_id: of the running boot (`core.clock.read_boot_id`).
        host_id: of this host (`core.clock.read_host_id`); "" if it has none.
    """

    def __init__(self, clock: Clock, boot_id: str, host_id: str = "") -> None:
        self._clock = clock
        self._boot_id = boot_id
        self._host_id = host_id

    async def look(self) -> None:
        """Update the time of a source outside this host; nothing to do for the host's clocks.

        Raises:
            StoreUnavailableError: the source did not answer; `read` extrapolates its last answer.
        """

    def read(self) -> ClockReading:
        """Return both clocks now."""
        now = self._clock.now().timestamp()
        return ClockReading(now, self._clock.monotonic(), self._boot_id, self._host_id)


def same_boot(then: ClockReading, now: ClockReading) -> bool:
    """Return whether the boot clocks of two readings count from the same moment.

    A boot clock that ran backwards is the clock of another kernel: a copy of a running virtual
    machine keeps its boot id.
    """
    return then.boot == now.boot and now.mono >= then.mono


def same_host(then: ClockReading, now: ClockReading) -> bool:
    """Return whether two readings are certainly of one host."""
    return same_boot(then, now) or bool(then.host and then.host == now.host)


def passed(then: ClockReading, now: ClockReading) -> float:
    """Return how many seconds have passed between two readings, as far as clocks can tell.

    Within a boot the boot clock decides. After a boot of the same host, at least the time since
    that boot has passed. The uptime of another host is unrelated to an earlier reading, so only
    the wall clocks of the two hosts can be compared.
    """
    if same_boot(then, now):
        return now.mono - then.mono
    if same_host(then, now):
        return now.mono
    return max(0.0, now.wall - then.wall)


def rebased(then: ClockReading, now: ClockReading, limit: float) -> ClockReading:
    """Return *then* as a reading of the host and boot of *now*.

    Args:
        then: a reading of another host.
        now: the clocks of this host.
        limit: the longest time that may count as passed, seconds; another host's wall clock may be
            wrong.
    """
    mono = now.mono - min(passed(then, now), limit)
    return ClockReading(then.wall, mono, now.boot, now.host)
