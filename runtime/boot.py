"""The start of the running boot."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path


def boot_time(stat_file: str = "/proc/stat") -> str:
    """Return the start of this boot by the wall clock, ISO 8601 in UTC; "" if it is unknown.

    Only for display, since a step of the clock moves it. The boot id proves a reboot.
    """
    try:
        lines = Path(stat_file).read_text(encoding="ascii").splitlines()
    except OSError:
        return ""
    for line in lines:
        if line.startswith("btime "):
            return datetime.fromtimestamp(int(line.split()[1]), timezone.utc).isoformat()
    return ""
