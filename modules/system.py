"""system.*: reboot, halt, and facts about the system."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import List, Optional

from catena.core.context import Context, RebootRequest
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function

#: Maximum delay in minutes, because the parser of `shutdown` has a limit: one week.
_LONGEST_DELAY_MINUTES = 7 * 24 * 60


def _minutes(at_time: object) -> int:
    text = str(0 if at_time is None or at_time == "now" else at_time)
    if not text.isdigit() or int(text) > _LONGEST_DELAY_MINUTES:
        raise UsageError(
            f"at_time: {at_time!r} is not a number of minutes from 0 to {_LONGEST_DELAY_MINUTES}"
        )
    return int(text)


def _program(name: str) -> str:
    found = shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin:/usr/local/sbin:/usr/local/bin")
    if not found:
        raise CommandExecutionError(f"{name} is not available on this host")
    return found


def _act(argv: List[str]) -> str:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=60, check=False, start_new_session=True
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise CommandExecutionError(f"{argv[0]}: {problem}") from problem
    if done.returncode:
        raise CommandExecutionError(
            f"{argv[0]} failed with return code {done.returncode}: {done.stderr.strip()}"
        )
    return (done.stdout + done.stderr).strip()


@function()
def reboot(context: Context, at_time: Optional[int] = None) -> str:
    """Reboot this host.

    In a chunk of an action chain this only arms the reboot. The host reboots when the chunk's
    last state has succeeded and everything is durable. Elsewhere it reboots at once.

    Args:
        context: the call's context.
        at_time: minutes to wait: from the end of the chunk, or from now.

    Raises:
        UsageError: *at_time* is not a number of minutes.
        CommandExecutionError: the reboot command failed.
    """
    minutes = _minutes(at_time)
    when = f" {minutes} minutes later" if minutes else ""
    if context.host.arm_reboot(RebootRequest(minutes)):
        return f"Reboot armed: this host reboots at the end of the chunk{when}"
    if minutes:
        return _act([_program("shutdown"), "-r", f"+{minutes}"]) or f"Rebooting in {minutes} min"
    return _act(context.host.reboot_command()) or "Rebooting"


@function()
def halt(context: Context) -> str:
    """Halt this host."""
    return _act([_program("halt")]) or "Halting"


@function()
def poweroff(context: Context) -> str:
    """Power this host off."""
    return _act([_program("poweroff")]) or "Powering off"


@function()
def shutdown(context: Context, at_time: Optional[int] = None) -> str:
    """Shut this host down, now or after *at_time* minutes."""
    minutes = _minutes(at_time)
    when = f"+{minutes}" if minutes else "now"
    return _act([_program("shutdown"), "-h", when]) or f"Shutting down {when}"


@function(inline=True)
def get_computer_name(context: Context) -> str:
    """Return the host name."""
    return socket.gethostname()


@function(reads=True)
def get_computer_desc(context: Context) -> str:
    """Return PRETTY_HOSTNAME of /etc/machine-info, or ""."""
    path = Path("/etc/machine-info")
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        key, _, value = line.partition("=")
        if key.strip() == "PRETTY_HOSTNAME":
            return value.strip().strip("\"'")
    return ""


@function(inline=True)
def get_system_time(context: Context) -> str:
    """Return the local time, HH:MM:SS AM or PM."""
    return datetime.now().astimezone().strftime("%I:%M:%S %p")


@function(inline=True)
def get_system_date(context: Context) -> str:
    """Return the local date, weekday MM/DD/YYYY."""
    return datetime.now().astimezone().strftime("%a %m/%d/%Y")


@function(inline=True)
def get_system_date_time(context: Context) -> str:
    """Return the local date and time, YYYY-MM-DD HH:MM:SS."""
    return time.strftime("%Y-%m-%d %H:%M:%S")


@function(reads=True)
def get_reboot_required_witnessed(context: Context) -> bool:
    """Return whether the packages of this host ask for a reboot (/run/reboot-required)."""
    return Path("/run/reboot-required").exists() or Path("/var/run/reboot-required").exists()
