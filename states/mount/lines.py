"""mount.fstab_present and mount.fstab_absent: lines of fstab."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared import fstab, mounted
from catena.modules.shared.arguments import split, truth
from catena.states.answers import done, failed, likely_typos, would
from catena.states.mount.kept import arguments_of, status

_MOUNT_BY = ("device", "label", "uuid", "partlabel", "partuuid")


@dataclass(frozen=True)
class LineOptions:
    """Arguments of mount.fstab_present, with Salt's names and defaults."""

    fs_mntops: Any = "defaults"
    fs_freq: Any = 0
    fs_passno: Any = 0
    mount_by: Optional[str] = None
    config: str = "/etc/fstab"
    mount: Any = True
    match_on: Any = "auto"
    not_change: Any = False
    #: Only AIX has it.
    fs_mount: Any = True


def device_by(context: Context, device: str, kind: Optional[str]) -> str:
    """Return how fstab is to name a device.

    Args:
        context: of the run.
        device: its path, or TAG=VALUE.
        kind: "device", or the tag to use; None: as it is given.

    Raises:
        CommandExecutionError: the device has no such tag, or there is none or more than one.
        UsageError: no such kind.
    """
    if kind is None or (kind == "device" and device.startswith("/")):
        return device
    if kind not in _MOUNT_BY:
        raise UsageError(f"mount_by: {str(kind)[:80]!r} is none of {', '.join(_MOUNT_BY)}")
    tag = kind.upper()
    if device.startswith(f"{tag}="):
        return device
    token = None if device.startswith("/") else device
    found = context.call("disk.blkid", None if token else device, token)
    if len(found) == 1:
        [(path, values)] = found.items()
        if kind == "device":
            return str(path)
        if tag in values:
            return f"{tag}={values[tag]}"
    raise CommandExecutionError(f"Device {device} cannot be converted to {kind}")


@state()
def fstab_present(
    context: Context, /, name: str, fs_file: str, fs_vfstype: str, **options: Any
) -> StateResult:
    """Make sure that a mount point has a line in fstab.

    Args:
        context: of the run.
        name: the device, as in fstab.
        fs_file: mount point.
        fs_vfstype: type of the file system.
        options: fs_mntops (options), fs_freq, fs_passno (fifth and sixth field), mount_by (device,
            label, uuid, partlabel or partuuid: how the line names the device), config (path of
            fstab), mount (mount a new line's file system; default True), match_on (fields by which
            the line is found), not_change (leave a line that differs).
    """
    chosen, rest = split(LineOptions, options)
    warnings = likely_typos(LineOptions, rest, "mount.fstab_present")
    try:
        device = device_by(context, str(name), chosen.mount_by)
        entry = fstab.entry_of(
            _point(fs_file), device, fs_vfstype, chosen.fs_mntops, chosen.fs_freq, chosen.fs_passno
        )
        found = _looked(entry, chosen) if context.test else _written(context, entry, chosen)
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))
    return StateResult(found.result, found.changes, found.comment, warnings)


def _point(name: Any) -> str:
    text = str(name)
    return text.rstrip("/") or "/" if text.startswith("/") else text


def _mounts(entry: fstab.FstabLine, options: LineOptions) -> bool:
    """Return whether a new line's file system is to be mounted."""
    return (
        truth(options.mount)
        and entry.name.startswith("/")
        and "noauto" not in entry.opts
        and os.path.realpath(entry.name) not in mounted.mounts()
    )


def _looked(entry: fstab.FstabLine, options: LineOptions) -> StateResult:
    """Return the result of test mode."""
    config = str(options.config)
    keys = fstab.keys_of(options.match_on, entry)
    kind = status(config, entry, keys, keep=truth(options.not_change))
    if not kind:
        return failed(f"{entry.name} entry cannot be created in {config}: there is no such file.")
    if kind == fstab.PRESENT:
        return done(f"{entry.name} entry is already in {config}.")
    if kind == fstab.CHANGE:
        return would(f"{entry.name} entry will be updated in {config}.")
    told = [f"{entry.name} entry will be written in {config}."]
    if _mounts(entry, options):
        told.append(f"Will mount {entry.device} on {entry.name}")
    return would("\n".join(told))


def _written(context: Context, entry: fstab.FstabLine, options: LineOptions) -> StateResult:
    config = str(options.config)
    if not Path(config).is_file():
        return failed(f"{entry.name} entry cannot be changed in {config}: there is no such file.")
    result = context.call(
        "mount.set_fstab", **arguments_of(entry), config=config, match_on=options.match_on,
        not_change=truth(options.not_change),
    )  # fmt: skip
    if result == fstab.PRESENT:
        return done(f"{entry.name} entry was already in {config}.")
    changes = {"persist": result}
    if result == fstab.CHANGE:
        return done(f"{entry.name} entry updated in {config}.", changes)
    told: List[str] = [f"{entry.name} entry added in {config}."]
    if _mounts(entry, options):
        try:
            context.call(
                "mount.mount", entry.name, entry.device, fstype=entry.fstype, opts=list(entry.opts)
            )
        except CommandExecutionError as problem:
            told.append(f"Error while mounting {entry.name}: {problem}")
            return failed("\n".join(told), changes)
        told.append(f"Mounted {entry.device} on {entry.name}")
    return done("\n".join(told), changes)


@state()
def fstab_absent(
    context: Context,
    name: str,
    fs_file: str,
    mount_by: Optional[str] = None,
    config: str = "/etc/fstab",
) -> StateResult:
    """Make sure that a mount point of a device has no line in fstab.

    Args:
        context: of the run.
        name: the device, as in fstab.
        fs_file: mount point.
        mount_by: device, label, uuid, partlabel or partuuid: how the line names the device.
        config: path of fstab.
    """
    try:
        device, point = device_by(context, str(name), mount_by), _point(fs_file)
        lines = fstab.read(str(config))
        if fstab.without_entry(lines, point, device) == lines:
            return done(f"{point} entry is already missing in {config}.")
        if context.test:
            return would(f"{point} entry will be removed from {config}.")
        context.call("mount.rm_fstab", point, device, str(config))
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))
    return done(f"{point} entry removed from {config}.", {"persist": "removed"})
