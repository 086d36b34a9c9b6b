"""ps.*: processes, memory and load, from /proc."""

from __future__ import annotations

import os
import re
import shutil
import signal as signals
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.plugins import function
from catena.modules import mount

_PROC = Path("/proc")
_PSEUDO = frozenset(("squashfs", "overlay"))


def _meminfo() -> Dict[str, int]:
    found = {}
    for line in (_PROC / "meminfo").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        found[name] = int(rest.split()[0]) * 1024
    return found


def _percent(part: float, whole: float) -> float:
    return round(100.0 * part / whole, 1) if whole else 0.0


@function(inline=True)
def num_cpus(context: Context) -> int:
    """Return how many processors there are."""
    return os.cpu_count() or 1


@function(inline=True)
def boot_time(context: Context, time_format: Optional[str] = None) -> Any:
    """Return the boot time of this host in seconds since 1970, or in strftime's format."""
    from datetime import datetime, timezone

    lines = (_PROC / "stat").read_text(encoding="ascii").splitlines()
    seconds = next(int(line.split()[1]) for line in lines if line.startswith("btime"))
    if not time_format:
        return seconds
    return datetime.fromtimestamp(seconds, timezone.utc).astimezone().strftime(time_format)


@function(inline=True)
def total_physical_memory(context: Context) -> int:
    """Return the memory of this host, bytes."""
    return _meminfo()["MemTotal"]


@function(inline=True)
def virtual_memory(context: Context) -> Dict[str, Any]:
    """Return total, available, percent, used, free, buffers, cached and shared, bytes."""
    found = _meminfo()
    total, available = found["MemTotal"], found.get("MemAvailable", found["MemFree"])
    return {
        "total": total,
        "available": available,
        "percent": _percent(total - available, total),
        "used": total - available,
        "free": found["MemFree"],
        "active": found.get("Active", 0),
        "inactive": found.get("Inactive", 0),
        "buffers": found.get("Buffers", 0),
        "cached": found.get("Cached", 0) + found.get("SReclaimable", 0),
        "shared": found.get("Shmem", 0),
        "slab": found.get("Slab", 0),
    }


@function(inline=True)
def swap_memory(context: Context) -> Dict[str, Any]:
    """Return total, used, free and percent of swap, and bytes swapped in and out."""
    found = _meminfo()
    total, free = found.get("SwapTotal", 0), found.get("SwapFree", 0)
    moved = dict(
        line.split()[:2] for line in (_PROC / "vmstat").read_text(encoding="ascii").splitlines()
    )
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        "total": total,
        "used": total - free,
        "free": free,
        "percent": _percent(total - free, total),
        "sin": int(moved.get("pswpin", 0)) * page,
        "sout": int(moved.get("pswpout", 0)) * page,
    }


@function(reads=True)
def disk_usage(context: Context, path: str) -> Dict[str, Any]:
    """Return total, used, free and percent of the file system that holds *path*, bytes."""
    found = shutil.disk_usage(path)
    usable = found.used + found.free
    shown: Dict[str, Any] = {"total": found.total, "used": found.used, "free": found.free}
    return {**shown, "percent": _percent(found.used, usable)}


@function(reads=True)
def disk_partitions(context: Context, all: bool = False) -> List[Dict[str, str]]:
    """Return device, mountpoint, fstype and opts of disks; with *all*, of all mounts."""
    return [
        {
            "device": row["device"],
            "mountpoint": point,
            "fstype": row["fstype"],
            "opts": ",".join(row["opts"]),
        }
        for point, row in mount.active(context).items()
        if all or (row["device"].startswith("/dev/") and row["fstype"] not in _PSEUDO)
    ]


@function(reads=True)
def disk_partition_usage(context: Context, all: bool = False) -> List[Dict[str, Any]]:
    """Return the partitions with their usage."""
    found = disk_partitions(context, all)
    return [{**row, **disk_usage(context, row["mountpoint"])} for row in found]


@function(inline=True)
def get_pid_list(context: Context) -> List[int]:
    """Return the number of every process."""
    return sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _processes() -> Iterator[Tuple[int, str, str]]:
    """Yield (pid, name, command line) of every process."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                name = (entry / "comm").read_text(encoding="utf-8", errors="replace").strip()
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it ended
            yield int(entry.name), name, b" ".join(words).decode("utf-8", "replace").strip()


@function(reads=True)
def pgrep(
    context: Context,
    pattern: str,
    user: Optional[str] = None,
    full: bool = False,
    pattern_is_regex: bool = False,
) -> Optional[List[int]]:
    """Return the processes whose name (or command line, with *full*) holds *pattern*; None: none.

    Args:
        context: the call's context.
        pattern: a text, or an expression.
        user: only processes of this user.
        full: match the whole command line.
        pattern_is_regex: *pattern* is a regular expression.
    """
    from catena.modules.file.edits import compiled

    expression = compiled(pattern if pattern_is_regex else re.escape(str(pattern)))
    uid = _uid(user) if user else None
    found = sorted(
        pid
        for pid, name, line in _processes()
        if expression.search(line if full else name) and uid in (None, _owner(pid))
    )
    return found or None


def _uid(user: str) -> int:
    import pwd

    try:
        return pwd.getpwnam(str(user)).pw_uid
    except KeyError:
        raise UsageError(f"no user is called {user!r}") from None


def _owner(pid: int) -> int:
    try:
        return (_PROC / str(pid)).stat().st_uid
    except OSError:
        return -1


@function()
def kill_pid(context: Context, pid: int, signal: int = signals.SIGTERM) -> bool:
    """Send a signal to a process; return whether it existed.

    Raises:
        UsageError: the number is none of a process: 0 and below mean groups, or all there are.
    """
    number = int(pid)
    if number < 1:
        raise UsageError(f"{pid!r} is no number of a process")
    try:
        os.kill(number, int(signal))
    except ProcessLookupError:
        return False
    return True


@function()
def pkill(
    context: Context,
    pattern: str,
    user: Optional[str] = None,
    signal: int = signals.SIGTERM,
    full: bool = False,
) -> Optional[Dict[str, List[int]]]:
    """Send a signal to the processes of ps.pgrep except this one; return {"killed": pids}."""
    own = (os.getpid(), os.getppid())
    found = [pid for pid in pgrep(context, pattern, user, full) or () if pid not in own]
    killed = [pid for pid in found if kill_pid(context, pid, signal)]
    return {"killed": killed} if killed else None
