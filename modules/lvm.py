"""lvm.*: physical volumes, volume groups and logical volumes of LVM 2."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.shared import programs
from catena.modules.shared.arguments import listed, truth

_PACKAGE = "lvm2"
#: Seconds: to wipe and to resize takes longer than to look.
_DEADLINE = 600
#: LVM warns about every open file that it inherits.
_QUIET = {"LVM_SUPPRESS_FD_WARNINGS": "1"}

#: Names of the columns that `pvdisplay --colon` prints, as in Salt.
_PV_KEYS = (
    "Physical Volume Device",
    "Volume Group Name",
    "Physical Volume Size (kB)",
    "Internal Physical Volume Number",
    "Physical Volume Status",
    "Physical Volume (not) Allocatable",
    "Current Logical Volumes Here",
    "Physical Extent Size (kB)",
    "Total Physical Extents",
    "Free Physical Extents",
    "Allocated Physical Extents",
)
_VG_KEYS = (
    "Volume Group Name",
    "Volume Group Access",
    "Volume Group Status",
    "Internal Volume Group Number",
    "Maximum Logical Volumes",
    "Current Logical Volumes",
    "Open Logical Volumes",
    "Maximum Logical Volume Size",
    "Maximum Physical Volumes",
    "Current Physical Volumes",
    "Actual Physical Volumes",
    "Volume Group Size (kB)",
    "Physical Extent Size (kB)",
    "Total Physical Extents",
    "Allocated Physical Extents",
    "Free Physical Extents",
    "UUID",
)
_LV_KEYS = (
    "Logical Volume Name",
    "Volume Group Name",
    "Logical Volume Access",
    "Logical Volume Status",
    "Internal Logical Volume Number",
    "Open Logical Volumes",
    "Logical Volume Size",
    "Current Logical Extents Associated",
    "Allocated Logical Extents",
    "Allocation Policy",
    "Read Ahead Sectors",
    "Major Device Number",
    "Minor Device Number",
)
#: Options with a value, by program.
OPTIONS: Mapping[str, Tuple[str, ...]] = {
    "pvcreate": (
        *("metadatasize", "dataalignment", "dataalignmentoffset", "pvmetadatacopies"),
        *("metadatacopies", "metadataignore", "restorefile", "labelsector"),
        *("setphysicalvolumesize", "uuid"),
    ),
    "vgcreate": (
        *("addtag", "alloc", "autobackup", "clustered", "maxlogicalvolumes", "shared"),
        *("maxphysicalvolumes", "metadatatype", "vgmetadatacopies", "metadatacopies"),
        *("physicalextentsize", "zero", "dataalignment", "dataalignmentoffset"),
    ),
    "lvcreate": (
        *("activate", "addtag", "alloc", "chunksize", "contiguous", "discards", "stripes"),
        *("stripesize", "minor", "persistent", "mirrors", "monitor", "permission"),
        *("poolmetadatasize", "poolmetadata", "readahead", "regionsize", "type"),
        *("virtualsize", "wipesignatures", "zero"),
    ),
}
#: Options without a value, by program.
FLAGS: Mapping[str, Tuple[str, ...]] = {
    "pvcreate": ("norestorefile",),
    "vgcreate": (),
    "lvcreate": ("nosync", "noudevsync", "ignoremonitoring", "thin"),
}

Rows = Dict[str, Dict[str, str]]


def _text(value: Any, what: str) -> str:
    """Return a name, path or size as text.

    Raises:
        UsageError: it is empty, or would be read as an option.
    """
    text = str(value)
    if not text or text.startswith("-") or any(mark in text for mark in "\r\n\0"):
        raise UsageError(f"{what}: {text[:80]!r} makes no sense")
    return text


def _devices(value: Any) -> List[str]:
    found = [_text(one, "devices") for one in listed(value)]
    if not found:
        raise UsageError("at least one device is required")
    return found


def _more(program: str, options: Mapping[str, Any]) -> List[str]:
    """Return the words of further options; unknown ones are ignored, as in Salt."""
    words = []
    for name, value in options.items():
        if name in FLAGS[program] and truth(value):
            words.append(f"--{name}")
        elif name in OPTIONS[program] and value not in (None, "", False):
            text = {True: "y"}.get(value, value) if isinstance(value, bool) else value
            words.append(f"--{name}={_text(text, name)}")
    return words


def unknown_options(program: str, options: Mapping[str, Any]) -> List[str]:
    """Return the names of options that a program does not have."""
    known = {*OPTIONS[program], *FLAGS[program]}
    return sorted(one for one in options if one not in known and not one.startswith("__"))


def _run(context: Context, words: Sequence[str]) -> str:
    return programs.need(context, list(words), _PACKAGE, timeout=_DEADLINE, env=_QUIET)


def _asked(*, force: Any) -> str:
    """Return the option that answers questions: with yes if *force*, otherwise with no."""
    return "--yes" if truth(force) else "-qq"


def parse(text: str, keys: Sequence[str]) -> List[Dict[str, str]]:
    """Return the rows that a program prints with --colon; other lines are left out."""
    found = []
    for line in text.splitlines():
        # A device may have a colon in its path, but no other column.
        words = line.strip().rsplit(":", len(keys) - 1 + (1 if keys is _PV_KEYS else 0))
        if len(words) >= len(keys):
            found.append(dict(zip(keys, words)))
    return found


def _rows(context: Context, program: str, keys: Sequence[str]) -> List[Dict[str, str]]:
    """Return all rows of a program.

    Raises:
        CommandExecutionError: it is not installed, or failed.
    """
    ran = programs.look(context, [program, "--colon"], _PACKAGE, env=_QUIET)
    if ran.retcode and not ran.stdout.strip():
        told = ran.stderr.strip() or "it printed nothing"
        raise CommandExecutionError(f"{program} failed with return code {ran.retcode}: {told}")
    return parse(ran.stdout, keys)


@function(reads=True)
def version(context: Context) -> str:
    """Return the version of LVM.

    Raises:
        CommandExecutionError: it is not installed.
    """
    return fullversion(context).get("LVM version", "")


@function(reads=True)
def fullversion(context: Context) -> Dict[str, str]:
    """Return the versions of LVM, its library and its driver.

    Raises:
        CommandExecutionError: it is not installed.
    """
    lines = programs.look(context, ["lvm", "version"], _PACKAGE, env=_QUIET).stdout.splitlines()
    pairs = (line.partition(":") for line in lines)
    return {key.strip(): value.strip() for key, mark, value in pairs if mark}


@function(reads=True)
def pvdisplay(context: Context, pvname: str = "", real: Any = False, quiet: Any = False) -> Rows:
    """Return the physical volumes by device.

    Args:
        context: the host.
        pvname: only this device; links count as their targets.
        real: name each by its real path.
        quiet: as in Salt; a device that is none is no error here.

    Raises:
        CommandExecutionError: LVM is not installed, or can't be asked.
    """
    wanted = os.path.realpath(pvname) if pvname else ""
    found = {}
    for row in _rows(context, "pvdisplay", _PV_KEYS):
        device = row["Physical Volume Device"]
        path = os.path.realpath(device)
        if wanted and path != wanted:
            continue
        if truth(real):
            row["Real Physical Volume Device"] = path
        found[path if truth(real) else device] = row
    return found


@function(reads=True)
def vgdisplay(context: Context, vgname: str = "", quiet: Any = False) -> Rows:
    """Return the volume groups by name, or only *vgname*.

    Raises:
        CommandExecutionError: LVM is not installed, or can't be asked.
    """
    rows = _rows(context, "vgdisplay", _VG_KEYS)
    return {
        row["Volume Group Name"]: row for row in rows if vgname in ("", row["Volume Group Name"])
    }


@function(reads=True)
def lvdisplay(context: Context, lvname: str = "", quiet: Any = False) -> Rows:
    """Return the logical volumes by path (/dev/GROUP/NAME), or only *lvname*.

    Raises:
        CommandExecutionError: LVM is not installed, or can't be asked.
    """
    found = {}
    for row in _rows(context, "lvdisplay", _LV_KEYS):
        path = row["Logical Volume Name"]
        if not path.startswith("/"):
            path = f"/dev/{row['Volume Group Name']}/{path}"  # a thin pool has no device
        if lvname in ("", path, path[len("/dev/") :]):
            found[path] = row
    return found


@function()
def pvcreate(
    context: Context, /, devices: Any, override: Any = True, force: Any = True, **options: Any
) -> bool:
    """Make devices physical volumes; return True.

    Args:
        context: the host.
        devices: a list, or text with commas.
        override: skip those that are physical volumes; otherwise they are an error.
        force: answer yes to questions, which wipes other signatures.
        options: of pvcreate: metadatasize, dataalignment, labelsector, ….

    Raises:
        CommandExecutionError: a device does not exist, or pvcreate failed.
        UsageError: an argument makes no sense.
    """
    there = pvdisplay(context, real=True)
    new = []
    for device in _devices(devices):
        if not os.path.exists(device):  # noqa: PTH110
            raise CommandExecutionError(f"{device} does not exist")
        if os.path.realpath(device) not in there:
            new.append(device)
        elif not truth(override):
            raise CommandExecutionError(f'Device "{device}" is already an LVM physical volume.')
    if new:
        _run(context, ["pvcreate", _asked(force=force), *_more("pvcreate", options), *new])
    return True


@function()
def pvremove(context: Context, devices: Any, override: Any = True, force: Any = True) -> bool:
    """Remove the label of physical volumes; return True. See pvcreate for the arguments.

    Raises:
        CommandExecutionError: one is in use, or pvremove failed.
        UsageError: an argument makes no sense.
    """
    words = _volumes(context, devices, override)
    if words:
        _run(context, ["pvremove", _asked(force=force), *words])
    return True


@function()
def pvresize(context: Context, devices: Any, override: Any = True, force: Any = True) -> bool:
    """Adapt physical volumes to the size of their devices; return True.

    Raises:
        CommandExecutionError: pvresize failed.
        UsageError: an argument makes no sense.
    """
    words = _volumes(context, devices, override)
    if words:
        _run(context, ["pvresize", _asked(force=force), *words])
    return True


def _volumes(context: Context, devices: Any, override: Any) -> List[str]:
    """Return those of the devices that are physical volumes."""
    there = pvdisplay(context, real=True)
    found = []
    for device in _devices(devices):
        if os.path.realpath(device) in there:
            found.append(device)
        elif not truth(override):
            raise CommandExecutionError(f"{device} is not a physical volume")
    return found


@function()
def vgcreate(
    context: Context, /, vgname: str, devices: Any, force: Any = False, **options: Any
) -> Dict[str, Any]:
    """Make a volume group; return it as vgdisplay does, with a line about the outcome.

    Args:
        context: the host.
        vgname: its name.
        devices: a list, or text with commas.
        force: answer yes to questions.
        options: of vgcreate: physicalextentsize, maxlogicalvolumes, addtag, ….

    Raises:
        CommandExecutionError: vgcreate failed.
        UsageError: an argument makes no sense.
    """
    words = ["vgcreate", _asked(force=force), *_more("vgcreate", options)]
    _run(context, [*words, _text(vgname, "vgname"), *_devices(devices)])
    told = f'Volume group "{vgname}" successfully created'
    return {**vgdisplay(context, vgname), "Output from vgcreate": told}


@function()
def vgextend(context: Context, vgname: str, devices: Any, force: Any = False) -> Dict[str, str]:
    """Add devices to a volume group.

    Raises:
        CommandExecutionError: vgextend failed.
        UsageError: an argument makes no sense.
    """
    group = _text(vgname, "vgname")
    _run(context, ["vgextend", _asked(force=force), group, *_devices(devices)])
    return {"Output from vgextend": f'Volume group "{vgname}" successfully extended'}


@function()
def vgremove(context: Context, vgname: str, force: Any = True) -> str:
    """Remove a volume group; with *force* its logical volumes too.

    Raises:
        CommandExecutionError: vgremove failed.
        UsageError: an argument makes no sense.
    """
    _run(context, ["vgremove", _asked(force=force), _text(vgname, "vgname")])
    return f'Volume group "{vgname}" successfully removed'


@function()
def lvcreate(
    context: Context,
    /,
    lvname: str,
    vgname: str,
    size: Any = None,
    extents: Any = None,
    snapshot: Optional[str] = None,
    pv: Any = None,
    thinvolume: Any = False,
    thinpool: Any = False,
    force: Any = False,
    **options: Any,
) -> Dict[str, Any]:
    """Make a logical volume; return it as lvdisplay does, with a line about the outcome.

    Args:
        context: the host.
        lvname: its name.
        vgname: of the group; for a thin volume GROUP/POOL.
        size: in megabytes, or with a unit.
        extents: a number, or a percentage such as 50%VG.
        snapshot: name of the volume of which it is a snapshot.
        pv: devices to use.
        thinvolume: make a thin volume.
        thinpool: make a pool of thin volumes.
        force: answer yes to questions, which wipes other signatures.
        options: of lvcreate: stripes, type, mirrors, ….

    Raises:
        CommandExecutionError: lvcreate failed.
        UsageError: an argument makes no sense.
    """
    words = create_words(
        _text(lvname, "lvname"), _text(vgname, "vgname"), size=size, extents=extents,
        snapshot=snapshot, thinvolume=truth(thinvolume), thinpool=truth(thinpool),
    )  # fmt: skip
    more = [*_more("lvcreate", options), _asked(force=force)]
    _run(context, ["lvcreate", *more, *words, *[_text(one, "pv") for one in listed(pv)]])
    path = f"/dev/{str(vgname).split('/')[0]}/{lvname}"
    told = f'Logical volume "{lvname}" created.'
    return {**lvdisplay(context, path), "Output from lvcreate": told}


def create_words(
    lvname: str,
    vgname: str,
    *,
    size: Any = None,
    extents: Any = None,
    snapshot: Optional[str] = None,
    thinvolume: bool = False,
    thinpool: bool = False,
) -> List[str]:
    """Return the words of lvcreate for a volume's name, kind, group and size.

    Raises:
        UsageError: the arguments contradict each other, or the size is missing.
    """
    if size and extents:
        raise UsageError("specify only one of size and extents")
    if thinvolume and thinpool:
        raise UsageError("set only one of thinvolume and thinpool to True")
    if thinvolume and extents:
        raise UsageError("the size of a thin volume cannot be specified as extents")
    # A snapshot of a thin volume has the size of its origin.
    if not size and not extents and not snapshot:
        raise UsageError("either size or extents must be specified")
    words = {
        "n": ["-n", lvname],
        "thin": ["--thin", "-n", lvname],
        "pool": ["--thinpool", lvname],
    }["thin" if thinvolume else "pool" if thinpool else "n"]
    if size:
        words += ["-V" if thinvolume else "-L", _text(size, "size")]
    elif extents:
        words += ["-l", _text(extents, "extents")]
    if snapshot:
        return [*words, "-s", f"{vgname}/{_text(snapshot, 'snapshot')}"]
    return [*words, vgname]


@function()
def lvremove(context: Context, lvname: str, vgname: str, force: Any = True) -> str:
    """Remove a logical volume.

    Raises:
        CommandExecutionError: lvremove failed.
        UsageError: an argument makes no sense.
    """
    path = f"{_text(vgname, 'vgname')}/{_text(lvname, 'lvname')}"
    _run(context, ["lvremove", _asked(force=force), path])
    return f'Logical volume "{lvname}" successfully removed'


def _sized(
    context: Context, program: str, values: Tuple[Any, Any, Any], *, force: Any, resizefs: Any
) -> Dict[str, str]:
    """Run lvresize or lvextend; *values* are size, path and extents."""
    size, lvpath, extents = values
    if bool(size) == bool(extents):
        raise UsageError(f"{program}: specify one of size and extents")
    yes = "--force" if program == "lvresize" else "--yes"
    words = [program, yes if truth(force) else "-qq", *(["--resizefs"] if truth(resizefs) else [])]
    words += ["-L", str(size)] if size else ["-l", str(extents)]
    _run(context, [*words, _text(lvpath, "lvpath")])
    verb = "resized" if program == "lvresize" else "extended"
    return {f"Output from {program}": f'Logical volume "{lvpath}" successfully {verb}.'}


@function()
def lvresize(
    context: Context,
    size: Any = None,
    lvpath: Optional[str] = None,
    extents: Any = None,
    force: Any = False,
    resizefs: Any = False,
) -> Dict[str, str]:
    """Change the size of a logical volume.

    Args:
        context: the host.
        size: in megabytes, or with a unit; with + or - relative to the present one.
        lvpath: path of the volume.
        extents: instead of the size.
        force: also make it smaller.
        resizefs: resize its file system too.

    Raises:
        CommandExecutionError: lvresize failed.
        UsageError: an argument makes no sense.
    """
    values = (size, lvpath, extents)
    return _sized(context, "lvresize", values, force=force, resizefs=resizefs)


@function()
def lvextend(
    context: Context,
    size: Any = None,
    lvpath: Optional[str] = None,
    extents: Any = None,
    force: Any = False,
    resizefs: Any = False,
) -> Dict[str, str]:
    """Make a logical volume larger; the arguments are those of lvresize.

    Raises:
        CommandExecutionError: lvextend failed.
        UsageError: an argument makes no sense.
    """
    values = (size, lvpath, extents)
    return _sized(context, "lvextend", values, force=force, resizefs=resizefs)
