"""mount.*: mounted file systems and /etc/fstab."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import function

_OCTAL = re.compile(r"\\([0-7]{3})")
_FIELDS = ("device", "name", "fstype", "opts", "dump", "pass")


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), text)


def _lines(path: str) -> List[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise CommandExecutionError(f"{path}: {problem.strerror}") from problem


@function(reads=True)
def fstab(context: Context, config: str = "/etc/fstab") -> Dict[str, Dict[str, Any]]:
    """Return device, fstype, opts, dump and pass by mount point."""
    found: Dict[str, Dict[str, Any]] = {}
    for line in _lines(config):
        words = line.split()
        if not words or words[0].startswith("#") or len(words) < 4:
            continue
        row = dict(zip(_FIELDS, [_unescaped(word) for word in [*words, "0", "0"][:6]]))
        name = row.pop("name")
        found[name] = {**row, "opts": row["opts"].split(",")}
    return found


@function(reads=True)
def active(context: Context, extended: bool = False) -> Dict[str, Dict[str, Any]]:
    """Return device, alt_device, fstype and opts by mount point; more with *extended*."""
    found: Dict[str, Dict[str, Any]] = {}
    for line in _lines("/proc/self/mountinfo"):
        words = line.split()
        dash = words.index("-", 6)
        kind, device, options = (*words[dash + 1 :], "", "", "")[:3]
        row: Dict[str, Any] = {
            "device": _unescaped(device),
            "alt_device": _unescaped(device),
            "fstype": kind,
            "opts": words[5].split(","),
        }
        if extended:
            major, _, minor = words[2].partition(":")
            row.update(mountid=words[0], parentid=words[1], major=major, minor=minor)
            row.update(root=_unescaped(words[3]), superopts=options.split(","))
        found[_unescaped(words[4])] = row
    return found


@function(reads=True)
def is_mounted(context: Context, name: str) -> bool:
    """Return whether something is mounted at *name*."""
    return str(name) in active(context)


@function(reads=True)
def swaps(context: Context) -> Dict[str, Dict[str, str]]:
    """Return type, size, used and priority by the device of each swap area."""
    found = {}
    for line in _lines("/proc/swaps")[1:]:
        words = line.split()
        if len(words) == 5:
            keys = ("type", "size", "used", "priority")
            found[_unescaped(words[0])] = dict(zip(keys, words[1:]))
    return found


@function(reads=True)
def get_mount_from_path(context: Context, path: str) -> Optional[str]:
    """Return the mount point that holds *path*; None where it is not there."""
    found = Path(path).resolve()
    if not found.exists():
        return None
    while not os.path.ismount(found):  # the same on every Python
        found = found.parent
    return str(found)


@function(reads=True)
def get_device_from_path(context: Context, path: str) -> Optional[str]:
    """Return the device of the file system that holds *path*; None where it is not there."""
    point = get_mount_from_path(context, path)
    found = active(context).get(point or "")
    return str(found["device"]) if found else None
