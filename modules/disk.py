"""disk.*: file systems and their usage."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.shared import programs
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import run


def parse_df(text: str, kind: str = "1K-blocks") -> Dict[str, Dict[str, Any]]:
    """Return what `df -P` prints, by mount point."""
    found: Dict[str, Dict[str, Any]] = {}
    for line in text.splitlines()[1:]:
        words = line.split(None, 5)
        if len(words) == 6:
            found[words[5]] = {
                "filesystem": words[0],
                kind: words[1],
                "used": words[2],
                "available" if kind == "1K-blocks" else "free": words[3],
                "capacity" if kind == "1K-blocks" else "use": words[4],
            }
    return found


def _df(context: Context, flags: List[str], kind: str) -> Dict[str, Dict[str, Any]]:
    # df exits with an error for an unreadable mount but prints the others.
    ran = run(context, ["df", *flags], RunOptions(python_shell=False, cwd="/", timeout=60))
    if not ran.stdout:
        raise CommandExecutionError(f"df: {ran.stderr}")
    return parse_df(ran.stdout, kind)


@function(reads=True)
def usage(context: Context, args: Optional[str] = None) -> Dict[str, Dict[str, Any]]:
    """Return filesystem, 1K-blocks, used, available and capacity by mount point."""
    return _df(context, ["-P", "-k"], "1K-blocks")


@function(reads=True)
def inodeusage(context: Context, args: Optional[str] = None) -> Dict[str, Dict[str, Any]]:
    """Return filesystem, inodes, used, free and use by mount point."""
    return _df(context, ["-P", "-i"], "inodes")


@function(reads=True)
def percent(context: Context, args: Optional[str] = None) -> Any:
    """Return the usage in percent of each mount point, or of the given one."""
    full = {mount: entry["capacity"] for mount, entry in usage(context).items()}
    return full if args is None else full.get(args, {})


@function(reads=True)
def free(context: Context, path: str = "/") -> int:
    """Return the bytes free for ordinary users on the file system of *path*."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


@function(reads=True)
def blkid(
    context: Context, device: Optional[str] = None, token: Optional[str] = None
) -> Dict[str, Dict[str, str]]:
    """Return blkid's values of block devices, by device.

    Args:
        context: the host.
        device: only this one.
        token: only those with this value, as UUID=….
    """
    words = ["blkid"]
    if token:
        if "=" not in token or token.startswith("-"):
            raise UsageError(f"token: {token[:80]!r} is not of the form TAG=VALUE")
        words += ["-t", token]
    elif device:
        words += ["--", device]
    # blkid exits with 2 if it finds nothing.
    return parse_blkid(programs.look(context, words, "util-linux").stdout)


def parse_blkid(text: str) -> Dict[str, Dict[str, str]]:
    """Return what blkid prints, by device."""
    import shlex

    found: Dict[str, Dict[str, str]] = {}
    for line in text.splitlines():
        name, mark, rest = line.partition(": ")
        if mark:
            pairs = (word.partition("=") for word in shlex.split(rest))
            found[name] = {key: value for key, sign, value in pairs if sign}
    return found
