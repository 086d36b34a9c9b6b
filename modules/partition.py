"""partition.*: partition tables of disks, by parted."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.disk import checked_device, maker_of
from catena.modules.shared import programs

_PACKAGE = "parted"
_DEADLINE = 600
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.()+-]{0,31}\Z")
_PLACE = re.compile(r"-?\d+(\.\d+)?([kKMGT]i?B|B|s|%|cyl|chs|compact)?\Z")
_UNITS = ("s", "B", "kB", "MB", "MiB", "GB", "GiB", "TB", "TiB", "%", "cyl", "chs", "compact")
_DISK = (
    *("disk", "size", "interface", "logical sector", "physical sector"),
    *("partition table", "model", "disk flags"),
)
_PARTITION = ("number", "start", "end", "size", "file system", "name", "flags")


def _device(device: Any) -> str:
    """Return the path of a block device.

    Raises:
        CommandExecutionError: it is none.
        UsageError: it is no absolute path.
    """
    path = checked_device(device)
    try:
        if stat.S_ISBLK(Path(path).stat().st_mode):
            return path
    except OSError:
        pass  # the message below says so
    raise CommandExecutionError(f"{path} is not a block device")


def _word(value: Any, what: str) -> str:
    if not _WORD.match(str(value)):
        raise UsageError(f"{what}: {str(value)[:80]!r} makes no sense")
    return str(value)


def _minor(value: Any) -> str:
    if not str(value).isdigit():
        raise UsageError(f"{str(value)[:80]!r} is not the number of a partition")
    return str(value)


def _place(value: Any, what: str) -> str:
    if not _PLACE.match(str(value)):
        raise UsageError(f"{what}: {str(value)[:80]!r} is no place on a disk, as 1MiB or 100%")
    return str(value)


def _parted(context: Context, device: Any, *words: str) -> List[str]:
    argv = ["parted", "--machine", "--script", "--", _device(device), *words]
    return programs.need(context, argv, _PACKAGE, timeout=_DEADLINE).splitlines()


def parse(lines: List[str]) -> Dict[str, Any]:
    """Return what `parted --machine print` prints: info, and partitions by number.

    Raises:
        CommandExecutionError: it is something else.
    """
    rows = [line.rstrip(";").split(":") for line in lines if line.endswith(";")]
    rows = [row for row in rows if len(row) > 1]
    if not rows or len(rows[0]) not in (7, 8):
        raise CommandExecutionError("Problem encountered while parsing output from parted")
    info = dict(zip(_DISK, rows[0]))
    return {"info": info, "partitions": {row[0]: dict(zip(_PARTITION, row)) for row in rows[1:]}}


@function(name="list", reads=True)
def list_(context: Context, device: str, unit: Optional[str] = None) -> Dict[str, Any]:
    """Return the partition table of a device: info, and partitions by number.

    Args:
        context: the host.
        device: its path.
        unit: of start, end and size: s, B, kB, MB, MiB, GB, GiB, TB, TiB, %, cyl or compact.

    Raises:
        CommandExecutionError: it is no block device, or has no partition table.
        UsageError: no such unit.
    """
    if unit is not None and unit not in _UNITS:
        raise UsageError(f"unit: {str(unit)[:80]!r} is none of {', '.join(_UNITS)}")
    return parse(_parted(context, device, *(["unit", unit] if unit else []), "print"))


@function(reads=True)
def exists(context: Context, device: str = "") -> bool:
    """Return whether a path is a block device."""
    try:
        return bool(_device(device))
    except (CommandExecutionError, UsageError):
        return False


@function(reads=True)
def get_block_device(context: Context) -> List[str]:
    """Return the names of all disks and partitions.

    Raises:
        CommandExecutionError: lsblk is not installed, or failed.
    """
    words = ["lsblk", "-n", "-l", "-o", "NAME"]
    return [line.strip() for line in programs.need(context, words, "util-linux").splitlines()]


@function()
def probe(context: Context, *devices: str) -> List[str]:
    """Let the kernel read partition tables again, of all devices or of some.

    Raises:
        CommandExecutionError: partprobe is not installed, or failed.
    """
    words = ["partprobe", *(_device(one) for one in devices)]
    return programs.need(context, words, _PACKAGE, timeout=_DEADLINE).splitlines()


@function()
def mklabel(context: Context, device: str, label_type: str) -> List[str]:
    """Make an empty partition table, which loses the old one; return what parted prints.

    Args:
        context: the host.
        device: its path.
        label_type: gpt, msdos, ….

    Raises:
        CommandExecutionError: parted failed.
        UsageError: an argument makes no sense.
    """
    return _parted(context, device, "mklabel", _word(label_type, "label_type"))


@function()
def mkpart(
    context: Context,
    device: str,
    part_type: str,
    fs_type: Optional[str] = None,
    start: Any = None,
    end: Any = None,
) -> List[str]:
    """Make a partition without a file system; return what parted prints.

    Args:
        context: the host.
        device: its path.
        part_type: primary, logical or extended; for gpt its name.
        fs_type: type of file system for which it is meant.
        start: as 1MiB, 0% or 2048s.
        end: as 100%.

    Raises:
        CommandExecutionError: parted failed.
        UsageError: an argument makes no sense.
    """
    kind = [_word(fs_type, "fs_type")] if fs_type else []
    places = [_place(start, "start"), _place(end, "end")]
    return _parted(context, device, "mkpart", _word(part_type, "part_type"), *kind, *places)


@function()
def mkfs(context: Context, device: str, fs_type: str) -> List[str]:
    """Make a file system on a partition, which loses what is on it; return what mkfs prints.

    Raises:
        CommandExecutionError: mkfs is not installed, or failed.
        UsageError: an argument makes no sense.
    """
    program, package = maker_of(fs_type)
    words = [program, _device(device)]
    return programs.need(context, words, package, timeout=_DEADLINE).splitlines()


@function()
def rm(context: Context, device: str, minor: Any) -> List[str]:
    """Remove a partition; return what parted prints.

    Raises:
        CommandExecutionError: parted failed.
        UsageError: *minor* is no number.
    """
    return _parted(context, device, "rm", _minor(minor))


@function()
def name(context: Context, device: str, partition: Any, name: str) -> List[str]:
    """Name a partition (gpt); return what parted prints.

    Raises:
        CommandExecutionError: parted failed.
        UsageError: an argument makes no sense.
    """
    return _parted(context, device, "name", _minor(partition), _word(name, "name"))


@function()
def resize(context: Context, device: str, minor: Any, end: Any) -> List[str]:
    """Change the end of a partition; return what parted prints.

    Raises:
        CommandExecutionError: parted failed.
        UsageError: an argument makes no sense.
    """
    return _parted(context, device, "resizepart", _minor(minor), _place(end, "end"))


@function(name="set")
def set_(context: Context, device: str, minor: Any, flag: str, state: Any) -> List[str]:
    """Set a flag of a partition (boot, lvm, raid, esp, …) on or off; return what parted prints.

    Raises:
        CommandExecutionError: parted failed.
        UsageError: an argument makes no sense.
    """
    word = {True: "on", False: "off"}.get(state, state) if isinstance(state, bool) else state
    if word not in ("on", "off"):
        raise UsageError("Invalid state passed to partition.set: it must be on or off")
    return _parted(context, device, "set", _minor(minor), _word(flag, "flag"), word)


@function(reads=True)
def align_check(context: Context, device: str, part_type: str, partition: Any) -> bool:
    """Return whether a partition is aligned; *part_type* is minimal or optimal.

    Raises:
        CommandExecutionError: parted failed.
        UsageError: an argument makes no sense.
    """
    if part_type not in ("minimal", "optimal"):
        raise UsageError("Invalid part_type passed to partition.align_check")
    argv = ["parted", "--machine", "--script", "--", _device(device)]
    words = ["align-check", part_type, _minor(partition)]
    return programs.look(context, [*argv, *words], _PACKAGE).retcode == 0
