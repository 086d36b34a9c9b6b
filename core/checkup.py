"""Findings of a check-up, and the checks that master and minion share. They change nothing."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from enum import Enum
from pathlib import Path
from typing import Iterable, Iterator

from catena.core.files import is_misplaced
from catena.core.frozen import dataclass

#: Free space in bytes below which work fails, and below which it will soon.
DISK_FAULT_BYTES = 8 * 1024 * 1024
DISK_WARNING_BYTES = 256 * 1024 * 1024
FEW_INODES = 1000
_MIB = 1024 * 1024
#: Maximum number of names listed in one finding; the rest is counted.
_LISTED = 5


class Level(str, Enum):
    """Severity of a finding."""

    ok = "ok"
    note = "note"
    warning = "warning"
    fault = "fault"


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    #: What was checked: "keys", "disk", "journal", …
    part: str
    level: Level
    #: Description of the result.
    what: str
    #: What to do about it; "" if nothing needs to be done.
    advice: str = ""


def listed(names: Iterable[str]) -> str:
    """Return the first of *names* in sorted order, and the number of the others."""
    found = sorted(set(names))
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return ", ".join(found[:_LISTED]) + more


def nearest(path: Path) -> Path:
    """Return *path*, or the closest folder above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def disk(path: Path) -> Finding:
    """Return how much free space there is for *path*, which need not exist yet."""
    found = os.statvfs(nearest(path))
    free = found.f_bavail * found.f_frsize
    text = f"{path}: {free // _MIB} MiB free"
    if free < DISK_FAULT_BYTES:
        return Finding("disk", Level.fault, text, "free some space: nothing new can be stored")
    # A file system without a count of inodes reports 0 of 0.
    if found.f_files and found.f_favail < FEW_INODES:
        few = f"{path}: {found.f_favail} inodes free"
        return Finding("disk", Level.fault, few, "remove many small files")
    if free < DISK_WARNING_BYTES:
        return Finding("disk", Level.warning, text, "make room")
    return Finding("disk", Level.ok, text)


def private(path: Path) -> Iterator[Finding]:
    """Yield the reasons why a folder is not private to its owner; none if it does not exist."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode):
        yield Finding("permissions", Level.fault, f"{path} is not a folder", f"remove {path}")
    elif found.st_uid != os.geteuid():
        advice = f"chown -R the owner of the daemon {path}"
        yield Finding("permissions", Level.fault, f"{path} belongs to uid {found.st_uid}", advice)
    elif mode & 0o022:
        text = f"others may write to {path} (mode {mode:o})"
        yield Finding("permissions", Level.fault, text, f"chmod go-w {path}")


def clock(newest_known: float) -> Finding:
    """Compare the wall clock with a time that has certainly passed.

    Args:
        newest_known: seconds since the epoch.
    """
    now = time.time()
    text = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < newest_known:
        then = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(newest_known))
        text += f", but a file here was written at {then}"
        return Finding("clock", Level.warning, text, "set the clock, and keep it by NTP")
    return Finding("clock", Level.ok, text)


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock file *path*."""
    if is_misplaced(path):
        return False
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, IsADirectoryError):
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
