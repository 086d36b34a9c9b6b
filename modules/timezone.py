"""timezone.*: the time zone of this host."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import List

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.file.change import place_link
from catena.modules.file.content import write

ZONES = Path("/usr/share/zoneinfo")
LOCALTIME = Path("/etc/localtime")
NAME_FILE = Path("/etc/timezone")
#: Its third line says whether the hardware clock keeps UTC or LOCAL time; default: UTC.
ADJTIME = Path("/etc/adjtime")
#: Exists if systemd runs this host.
_SYSTEMD = Path("/run/systemd/system")
#: First lines of a new ADJTIME: no drift is known.
_NO_DRIFT = ("0.0 0 0.0", "0")
_CLOCKS = ("UTC", "localtime")


def zone_file(timezone: str) -> Path:
    """Return the file of a zone.

    Raises:
        UsageError: no zone has that name.
    """
    parts = Path(str(timezone)).parts
    path = ZONES / str(timezone)
    if not parts or ".." in parts or Path(str(timezone)).is_absolute() or not path.is_file():
        raise UsageError(f"no timezone is called {str(timezone)[:80]!r}")
    return path


@function(inline=True)
def get_zone(context: Context) -> str:
    """Return the name of this host's zone.

    Raises:
        CommandExecutionError: it can't be told.
    """
    if LOCALTIME.is_symlink():
        target = os.path.normpath(LOCALTIME.parent / os.readlink(LOCALTIME))  # noqa: PTH115
        _, mark, zone = str(target).partition("/zoneinfo/")
        if mark:
            return zone
    if NAME_FILE.is_file():
        return NAME_FILE.read_text(encoding="utf-8").strip()
    if not LOCALTIME.exists():
        return "UTC"
    raise CommandExecutionError("the timezone of this host can't be told")


@function(inline=True)
def get_zonecode(context: Context) -> str:
    """Return the short name of the zone, as in CEST."""
    return time.strftime("%Z")


@function(inline=True)
def get_offset(context: Context) -> str:
    """Return the offset from UTC, as in +0200."""
    return time.strftime("%z")


@function(inline=True)
def zone_compare(context: Context, timezone: str) -> bool:
    """Return whether this host's zone has the rules of *timezone*."""
    wanted = zone_file(timezone).read_bytes()
    return LOCALTIME.is_file() and LOCALTIME.read_bytes() == wanted


@function()
def set_zone(context: Context, timezone: str) -> bool:
    """Set this host's time zone; return True.

    Raises:
        UsageError: no zone has that name.
        CommandExecutionError: it can't be set.
    """
    path = zone_file(timezone)
    place_link(LOCALTIME, str(path), force=True)
    if NAME_FILE.exists():
        write(NAME_FILE, f"{timezone}\n".encode())
    return True


@function(inline=True)
def get_hwclock(context: Context) -> str:
    """Return the time that the hardware clock keeps: "UTC" or "localtime"."""
    lines = _adjtime()
    return "localtime" if len(lines) > 2 and lines[2].strip() == "LOCAL" else "UTC"


def _adjtime() -> List[str]:
    try:
        return ADJTIME.read_text(encoding="ascii", errors="replace").splitlines()
    except FileNotFoundError:
        return []


@function()
def set_hwclock(context: Context, clock: str) -> bool:
    """Let the hardware clock keep "UTC" or "localtime"; return True.

    Raises:
        UsageError: *clock* is neither.
        CommandExecutionError: it can't be set.
    """
    from catena.modules.shared import programs

    if clock not in _CLOCKS:
        raise UsageError(f"the hardware clock keeps UTC or localtime, not {str(clock)[:80]!r}")
    local = clock == "localtime"
    if _SYSTEMD.is_dir():
        programs.need(context, ["timedatectl", "set-local-rtc", str(int(local))], "systemd")
    found = _adjtime()
    drift = found[:2] if len(found) >= len(_NO_DRIFT) else list(_NO_DRIFT)
    wanted = [*drift, "LOCAL" if local else "UTC"]
    if found != wanted:
        write(ADJTIME, "".join(f"{line}\n" for line in wanted).encode(), "0644")
    return True


@function(name="list", reads=True)
def list_(context: Context) -> List[str]:
    """Return the names of all zones."""
    from zoneinfo import available_timezones

    return sorted(available_timezones())
