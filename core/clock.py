"""Clocks, which are passed in as arguments."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Protocol, Sequence

from catena.core.frozen import dataclass

#: File in which Linux publishes the id of the running boot.
BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
#: Bytes to read, more than a boot id has.
_BOOT_ID_BYTES = 4096
#: Files that hold the identity of a host, in order of preference (machine-id(5)).
HOST_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")
#: What systemd writes into a machine id file before the first boot has completed.
_NO_HOST_ID = "uninitialized"
_HOST_ID_LIMIT = 64


class Clock(Protocol):
    """A wall clock and a monotonic clock."""

    def now(self) -> datetime:
        """Return the wall clock, aware, in UTC. Only for display, never for durations."""

    def monotonic(self) -> float:
        """Return seconds since boot, counting suspend. For every duration."""


@dataclass(frozen=True)
class ClockReading:
    """Wall clock and monotonic clock of one time source at one moment."""

    #: Wall clock, seconds since the epoch.
    wall: float
    #: Seconds of a clock that cannot be set and counts suspend.
    mono: float
    #: Incarnation of the source, at whose beginning *mono* is 0: boot id of a host, or start of a
    #: database server.
    boot: str
    #: Machine id of the host; "" if unknown, as in readings stored by older versions, and for a
    #: source that is not a host.
    host: str = ""


class TimeSource(Protocol):
    """Time for everything that is stored: due times, leases, deadlines.

    Programs that share a store share a source, so that they agree on what is due.
    """

    def read(self) -> ClockReading:
        """Return both clocks without I/O."""


class SystemClock:
    """The clocks of this host."""

    def now(self) -> datetime:
        """Return the wall clock in UTC."""
        return datetime.now(timezone.utc)

    def monotonic(self) -> float:
        """Return CLOCK_BOOTTIME in seconds."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class ManualClock:
    """A clock that only advances by calls; for tests and simulation."""

    def __init__(self, start: datetime, uptime: float = 0.0) -> None:
        self._wall = start
        self._seconds = uptime

    def now(self) -> datetime:
        """Return the wall clock as set."""
        return self._wall

    def monotonic(self) -> float:
        """Return the uptime at the start plus the seconds that have passed since."""
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass."""
        self._seconds += seconds
        self._wall += timedelta(seconds=seconds)

    def step(self, seconds: float) -> None:
        """Set the wall clock *seconds* forward (or back) without letting time pass."""
        self._wall += timedelta(seconds=seconds)


def read_boot_id(path: str = BOOT_ID_FILE) -> str:
    """Return the boot id of the kernel, or of a test's file.

    Raises:
        OSError: the file cannot be read.
    """
    # Three system calls; a stream would make nine, and every job reads the boot id.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, _BOOT_ID_BYTES).decode("ascii").strip()
    finally:
        os.close(handle)


def read_host_id(paths: Sequence[str] = HOST_ID_FILES) -> str:
    """Return the machine id of this host; "" if no file contains one."""
    for path in paths:
        try:
            text = Path(path).read_bytes()[:_BOOT_ID_BYTES].decode("ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text and text != _NO_HOST_ID and len(text) <= _HOST_ID_LIMIT:
            return text
    return ""
