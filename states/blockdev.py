"""blockdev.*: file systems on block devices, and their read-ahead and write protection."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any, Dict

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules import disk
from catena.modules.shared import programs
from catena.states.answers import done, failed, would


@state()
def formatted(
    context: Context, /, name: str, fs_type: str = "ext4", force: Any = False, **options: Any
) -> StateResult:
    """Make sure that a device has a file system of a type; another one is overwritten.

    Args:
        context: of the run.
        name: path of the device.
        fs_type: as ext4, xfs, vfat.
        force: also on a whole device (ext), or over another file system (xfs).
        options: inode_size, lazy_itable_init, fat, as for disk.format.
    """
    if not Path(str(name)).exists():
        return failed(f"{name} does not exist")
    try:
        before = context.call("disk.fstype", name)
        if before == fs_type:
            return done(f"{name} already formatted with {fs_type}")
        disk.format_words(str(fs_type), options)
        programs.find(*disk.maker_of(fs_type))
    except CommandExecutionError as problem:
        return failed(f"Invalid fs_type: {fs_type}: {problem}")
    except UsageError as problem:
        return failed(str(problem))
    if context.test:
        return would(f"Changes to {name} will be applied ")
    known = ("inode_size", "lazy_itable_init", "fat")
    chosen = {key: value for key, value in options.items() if key in known}
    try:
        context.call("disk.format", name, fs_type, force=force, **chosen)
        after = context.call("disk.fstype", name)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Failed to format {name}: {problem}")
    changes = {"new": after, "old": before}
    if after != fs_type:
        return failed(f"Failed to format {name}: it has {after or 'no file system'}", changes)
    return done(f"{name} has been formatted with {fs_type}", changes)


def _is_block(name: str) -> bool:
    try:
        return stat.S_ISBLK(Path(str(name)).stat().st_mode)
    except OSError:
        return False


def _differing(current: Dict[str, str], options: Dict[str, Any]) -> Dict[str, str]:
    """Return what has to change, by option, as people read it."""
    found = {}
    for key, value in options.items():
        have = current.get(disk.TUNED[key][1], "")
        if key in ("read-only", "read-write"):
            is_set = (have == "1") == (key == "read-only")
            if not is_set:
                found[key] = "Changed from False to True"
        elif have != str(value):
            found[key] = f"Changed from {have} to {value}"
    return found


@state()
def tuned(context: Context, /, name: str, **options: Any) -> StateResult:
    """Make sure that a block device has properties, until the next boot.

    Args:
        context: of the run.
        name: path of the device.
        options: read-ahead and filesystem-read-ahead (512-byte sectors), read-only: True,
            read-write: True.
    """
    if not _is_block(name):
        return failed(f"Changes to {name} cannot be applied. Not a block device.")
    wanted = {key: value for key, value in options.items() if not key.startswith("__")}
    try:
        disk.tune_words(wanted)
        changes = _differing(context.call("disk.dump", name), wanted)
        if not changes:
            return done(f"Block device {name} already in correct state")
        if context.test:
            return would(f"Changes to {name} will be applied ")
        context.call("disk.tune", name, **{key: wanted[key] for key in changes})
        left = _differing(context.call("disk.dump", name), wanted)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Failed to modify block device {name}: {problem}")
    if left:
        return failed(f"Failed to modify block device {name}: {', '.join(sorted(left))}", changes)
    return done(f"Block device {name} successfully modified ", changes)
