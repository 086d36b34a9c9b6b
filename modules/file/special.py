"""file.* functions for devices, pipes, sizes and attributes of the file system."""

from __future__ import annotations

import os
import stat
from typing import Any, Callable, Dict, List, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import function
from catena.modules.file import content
from catena.modules.file.inspect import READ_LIMIT, existing, expand
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import run


def _is(path: str, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(expand(path).stat().st_mode)
    except OSError:
        return False


@function(inline=True)
def is_blkdev(context: Context, name: str) -> bool:
    """Return whether *name* is a block device."""
    return _is(name, stat.S_ISBLK)


@function(inline=True)
def is_chrdev(context: Context, name: str) -> bool:
    """Return whether *name* is a character device."""
    return _is(name, stat.S_ISCHR)


@function(inline=True)
def is_fifo(context: Context, name: str) -> bool:
    """Return whether *name* is a named pipe."""
    return _is(name, stat.S_ISFIFO)


@function(inline=True)
def get_devmm(context: Context, name: str) -> Tuple[int, int]:
    """Return major and minor number of a device; (0, 0) for other files."""
    if not (is_chrdev(context, name) or is_blkdev(context, name)):
        return (0, 0)
    number = expand(name).stat().st_rdev
    return (os.major(number), os.minor(number))


@function(inline=True)
def lstat(context: Context, path: str) -> Dict[str, Any]:
    """Return st_mode, st_size, st_mtime, … of *path* without following links; {} if missing."""
    try:
        found = expand(path).lstat()
    except OSError:
        return {}
    names = ("atime", "ctime", "gid", "mode", "mtime", "nlink", "size", "uid")
    return {f"st_{name}": getattr(found, f"st_{name}") for name in names}


@function(reads=True)
def diskusage(context: Context, path: str) -> int:
    """Return the bytes of the files at and below *path*; hard links count once."""
    start = expand(path)
    if not start.is_dir():
        return start.stat().st_size if start.exists() else 0
    seen, total = set(), 0
    for above, _, names in os.walk(start):
        for name in names:
            try:
                found = os.stat(f"{above}/{name}")  # noqa: PTH116  # a Path each costs more
            except OSError:
                continue
            if found.st_ino not in seen:
                seen.add(found.st_ino)
                total += found.st_size
    return total


@function(reads=True)
def seek_read(context: Context, path: str, size: int, offset: int) -> bytes:
    """Return at most *size* bytes of a file from *offset* on.

    Raises:
        CommandExecutionError: it can't be read.
    """
    try:
        with existing(path).open("rb") as stream:
            stream.seek(int(offset))
            return stream.read(min(int(size), READ_LIMIT))
    except OSError as problem:
        raise CommandExecutionError(f"{path}: {problem.strerror}") from problem


@function(reads=True)
def lsattr(context: Context, path: str) -> Dict[str, List[str]]:
    """Return the attributes (chattr's letters) of a file, or of the members of a folder.

    Raises:
        CommandExecutionError: there is no such file.
    """
    found = existing(path)
    ran = run(context, ["lsattr", str(found)], RunOptions(python_shell=False))
    told = (line.split(maxsplit=1) for line in ran.stdout.splitlines() if line[:1] in "-abcdeij")
    return {words[1]: list(words[0].replace("-", "")) for words in told if len(words) == 2}


@function(reads=True)
def get_selinux_context(context: Context, path: str) -> str:
    """Return the SELinux context of *path*, or a sentence that there is none."""
    try:
        found = os.getxattr(expand(path), "security.selinux", follow_symlinks=False)
    except OSError:
        return f"No selinux context information is available for {path}"
    return content.decode(found.rstrip(b"\0"))
