"""Both clocks of the master's host, read together."""

from __future__ import annotations

from dataclasses import dataclass

from catena.core.clock import Clock


@dataclass(frozen=True)
class ClockReading:
    """Both clocks of the master's host at one moment."""

    #: Wall clock, seconds since the epoch.
    wall: float
    #: Seconds since boot, counting suspend.
    mono: float
    #: Which boot *mono* counts from.
    boot: str


class HostClocks:
    """Reads the wall clock and the boot clock at one moment.

    Args:
        clock: where time comes from.
        boot_id: which boot of this host it is (`core.clock.read_boot_id`).
    """

    def __init__(self, clock: Clock, boot_id: str) -> None:
        self._clock = clock
        self._boot_id = boot_id

    def read(self) -> ClockReading:
        """Return both clocks now."""
        return ClockReading(self._clock.now().timestamp(), self._clock.monotonic(), self._boot_id)
