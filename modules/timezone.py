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


@function(name="list", reads=True)
def list_(context: Context) -> List[str]:
    """Return the names of all zones."""
    from zoneinfo import available_timezones

    return sorted(available_timezones())
