"""lvm.*: physical volumes, volume groups and logical volumes."""

from __future__ import annotations

import os
import re
from math import ceil
from typing import Any, Dict, List, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules import lvm
from catena.modules.shared.arguments import listed, split, truth
from catena.states.answers import done, failed, would

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([bskmgtpe]?)b?\Z", re.IGNORECASE)
#: Bytes of a unit; without one the number means megabytes, as for LVM itself.
_UNITS = {
    **{"b": 1, "s": 512, "k": 2**10, "": 2**20, "m": 2**20, "g": 2**30, "t": 2**40},
    **{"p": 2**50, "e": 2**60},
}
_SECTOR = 512
#: Names of the group of a physical volume that belongs to none.
_NO_GROUP = ("", "#orphans_lvm2")


def bytes_of(size: Any) -> float:
    """Return the bytes of a size such as 10, 10G or 2048s.

    Raises:
        UsageError: it is none.
    """
    found = _SIZE.match(str(size).strip())
    if not found:
        raise UsageError(f"Size {str(size)[:80]} is invalid.")
    return float(found.group(1)) * _UNITS[found.group(2).lower()]


def _ignored(program: str, options: Mapping[str, Any]) -> Tuple[str, ...]:
    names = lvm.unknown_options(program, options)
    return tuple(f"{program} has no option '{one}'; it is ignored" for one in names)


@state()
def pv_present(context: Context, /, name: str, **options: Any) -> StateResult:
    """Make sure that a device is a physical volume.

    Args:
        context: of the run.
        name: path of the device.
        options: of pvcreate.
    """
    warnings = _ignored("pvcreate", options)
    try:
        if context.call("lvm.pvdisplay", name, quiet=True):
            return StateResult(True, {}, f"Physical Volume {name} already present", warnings)
        if context.test:
            return would(f"Physical Volume {name} is set to be created")
        created = context.call("lvm.pvcreate", name, **options)
    except (UsageError, CommandExecutionError) as problem:
        return failed(f"Failed to create Physical Volume {name}: {problem}")
    changes = {"created": created}
    return StateResult(True, changes, f"Created Physical Volume {name}", warnings)


@state()
def pv_absent(context: Context, name: str) -> StateResult:
    """Make sure that a device is no physical volume.

    Args:
        context: of the run.
        name: path of the device.
    """
    try:
        if not context.call("lvm.pvdisplay", name, quiet=True):
            return done(f"Physical Volume {name} does not exist")
        if context.test:
            return would(f"Physical Volume {name} is set to be removed")
        removed = context.call("lvm.pvremove", name)
    except (UsageError, CommandExecutionError) as problem:
        return failed(f"Failed to remove Physical Volume {name}: {problem}")
    return done(f"Removed Physical Volume {name}", {"removed": removed})


@state()
def vg_present(context: Context, /, name: str, devices: Any = None, **options: Any) -> StateResult:
    """Make sure that a volume group exists and has devices.

    Args:
        context: of the run.
        name: of the group.
        devices: a list of physical volumes, or text with commas. Others of the group stay.
        options: of vgcreate; a group that exists is not compared with them.
    """
    warnings = _ignored("vgcreate", options)
    wanted = [str(one) for one in listed(devices)]
    try:
        if context.call("lvm.vgdisplay", name, quiet=True):
            found = _with_devices(context, name, wanted)
        elif context.test:
            found = would(f"Volume Group {name} is set to be created")
        else:
            created = context.call("lvm.vgcreate", name, wanted, **options)
            found = done(f"Created Volume Group {name}", {"created": created})
    except (UsageError, CommandExecutionError) as problem:
        return failed(f"Failed to create Volume Group {name}: {problem}")
    return StateResult(found.result, found.changes, found.comment, warnings)


def _with_devices(context: Context, name: str, devices: List[str]) -> StateResult:
    """Add the devices that a group lacks."""
    volumes = context.call("lvm.pvdisplay", real=True)
    told, changes, missing, ok = [f"Volume Group {name} already present"], {}, [], True
    for device in devices:
        row = volumes.get(os.path.realpath(device))
        group = row["Volume Group Name"] if row else None
        if group == name:
            told.append(f"{device} is part of Volume Group")
        elif group in _NO_GROUP:
            missing.append(device)
        else:
            ok = False
            told.append(f"{device} is part of {group}" if row else f"pv {device} is not present")
    for device in missing:
        if context.test:
            told.append(f"{device} is set to be added to {name}")
            continue
        try:
            context.call("lvm.vgextend", name, device)
            changes[device] = f"added to {name}"
        except CommandExecutionError as problem:
            ok = False
            told.append(f"{device} could not be added: {problem}")
    if ok and context.test and missing:
        return would("\n".join(told))
    return StateResult(ok, changes, "\n".join(told))


@state()
def vg_absent(context: Context, name: str) -> StateResult:
    """Make sure that a volume group does not exist.

    Args:
        context: of the run.
        name: of the group; its logical volumes are removed too.
    """
    try:
        if not context.call("lvm.vgdisplay", name, quiet=True):
            return done(f"Volume Group {name} already absent")
        if context.test:
            return would(f"Volume Group {name} is set to be removed")
        removed = context.call("lvm.vgremove", name)
    except (UsageError, CommandExecutionError) as problem:
        return failed(f"Failed to remove Volume Group {name}: {problem}")
    return done(f"Removed Volume Group {name}", {"removed": removed})


@dataclass(frozen=True)
class VolumeOptions:
    """Arguments of lvm.lv_present, with Salt's names and defaults."""

    size: Any = None
    extents: Any = None
    snapshot: Optional[str] = None
    pv: Any = ""
    thinvolume: Any = False
    thinpool: Any = False
    force: Any = False
    resizefs: Any = False


@state()
def lv_present(
    context: Context, /, name: str, vgname: Optional[str] = None, **options: Any
) -> StateResult:
    """Make sure that a logical volume exists and has a size.

    Args:
        context: of the run.
        name: of the volume.
        vgname: of its group; for a thin volume GROUP/POOL.
        options: size (in megabytes, or with a unit S, K, M, G, T or P), extents (a number, or a
            percentage, which only a new volume gets), snapshot (name of a snapshot of *name*), pv
            (devices to use), thinvolume, thinpool, force (also make it smaller), resizefs (resize
            its file system too), and options of lvcreate.
    """
    chosen, rest = split(VolumeOptions, options)
    warnings = _ignored("lvcreate", rest)
    if not vgname:
        return failed(f"Logical Volume {name} needs a volume group: set vgname")
    if chosen.extents and chosen.size:
        return failed("Only one of extents or size can be specified.")
    volume = chosen.snapshot or name
    path = f"/dev/{str(vgname).split('/')[0]}/{volume}"
    try:
        wanted = bytes_of(chosen.size) if chosen.size else None
        row = context.call("lvm.lvdisplay", path, quiet=True).get(path)
        if row is not None:
            found = _resized(context, volume, path, (chosen, wanted, row))
        elif context.test:
            found = would(f"Logical Volume {volume} is set to be created")
        else:
            found = _created(context, name, str(vgname), (chosen, rest))
    except (UsageError, CommandExecutionError) as problem:
        return failed(f"Failed to create Logical Volume {volume}. Error: {problem}")
    return StateResult(found.result, found.changes, found.comment, warnings)


def _created(
    context: Context, name: str, vgname: str, options: Tuple[VolumeOptions, Mapping[str, Any]]
) -> StateResult:
    chosen, rest = options
    volume = chosen.snapshot or name
    created = context.call(
        "lvm.lvcreate", volume, vgname, size=chosen.size, extents=chosen.extents,
        snapshot=name if chosen.snapshot else None, pv=chosen.pv, thinvolume=chosen.thinvolume,
        thinpool=chosen.thinpool, force=chosen.force, **rest,
    )  # fmt: skip
    return done(f"Created Logical Volume {volume}", {"created": created})


def _extents(
    volume: VolumeOptions, wanted: Optional[float], row: Mapping[str, str]
) -> Tuple[int, int]:
    """Return the number of extents that a volume has and is to have; LVM rounds sizes up.

    Raises:
        UsageError: the wanted number is none.
    """
    have = int(row["Current Logical Extents Associated"])
    if wanted is not None:
        extent = int(row["Logical Volume Size"]) * _SECTOR / max(have, 1)
        return have, ceil(wanted / extent) if extent else have
    text = str(volume.extents)
    if not text.isdigit():
        raise UsageError(f"extents: {text[:80]!r} is neither a number nor a percentage")
    return have, int(text)


def _resized(
    context: Context,
    name: str,
    path: str,
    wanted: Tuple[VolumeOptions, Optional[float], Mapping[str, str]],
) -> StateResult:
    """Bring a volume to its size."""
    chosen, size, row = wanted
    present = f"Logical Volume {name} already present"
    if not chosen.size and not chosen.extents:
        return done(present)
    if "%" in str(chosen.extents):
        return done(f"{present}, {chosen.extents} won't be resized.")
    have, extents = _extents(chosen, size, row)
    if extents == have:
        return done(present)
    if extents < have and not truth(chosen.force):
        return failed("To reduce a Logical Volume option 'force' must be True.")
    if context.test:
        return would(f"Logical Volume {name} is set to be resized")
    target: Dict[str, Any] = {"size": chosen.size} if chosen.size else {"extents": chosen.extents}
    try:
        resized = context.call(
            "lvm.lvresize", lvpath=path, resizefs=chosen.resizefs, force=chosen.force, **target
        )
    except CommandExecutionError as problem:
        return failed(f"Failed to resize Logical Volume {name}.\nError: {problem}")
    return done(f"Resized Logical Volume {name}", {"resized": resized})


@state()
def lv_absent(context: Context, name: str, vgname: Optional[str] = None) -> StateResult:
    """Make sure that a logical volume does not exist.

    Args:
        context: of the run.
        name: of the volume.
        vgname: of its group.
    """
    path = f"/dev/{vgname}/{name}"
    try:
        if not context.call("lvm.lvdisplay", path, quiet=True):
            return done(f"Logical Volume {name} already absent")
        if context.test:
            return would(f"Logical Volume {name} is set to be removed")
        removed = context.call("lvm.lvremove", name, vgname)
    except (UsageError, CommandExecutionError) as problem:
        return failed(f"Failed to remove Logical Volume {name}: {problem}")
    return done(f"Removed Logical Volume {name}", {"removed": removed})
