"""Mounted file systems as the kernel lists them, and what is mounted at a place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass
from catena.modules.shared.fstab import unescaped

_MOUNTS = Path("/proc/self/mountinfo")
_PROCESSES = Path("/proc")
_BLOCK = Path("/sys/dev/block")
#: Maximum number of processes named in an error.
_NAMED = 5
#: Folders with links to devices, by the tag of a specification such as UUID=…
_LINKS = {
    "UUID": "by-uuid",
    "LABEL": "by-label",
    "PARTUUID": "by-partuuid",
    "PARTLABEL": "by-partlabel",
    "ID": "by-id",
}


@dataclass(frozen=True)
class Mounted:
    """One line of /proc/self/mountinfo; no text is escaped."""

    mountid: str
    parentid: str
    #: "MAJOR:MINOR" of the file system.
    number: str
    #: Path inside the file system that is mounted.
    root: str
    point: str
    opts: Tuple[str, ...]
    fstype: str
    device: str
    superopts: Tuple[str, ...]


def parse(text: str) -> List[Mounted]:
    """Return the mounts of a mountinfo file, in the kernel's order."""
    found = []
    for line in text.splitlines():
        words = line.split()
        dash = words.index("-", 6)
        kind, device, options = (*words[dash + 1 :], "", "", "")[:3]
        found.append(
            Mounted(
                mountid=words[0],
                parentid=words[1],
                number=words[2],
                root=unescaped(words[3]),
                point=unescaped(words[4]),
                opts=tuple(words[5].split(",")),
                fstype=kind,
                device=unescaped(device),
                superopts=tuple(options.split(",")),
            )
        )
    return found


def mounts() -> Dict[str, Mounted]:
    """Return the mounts by mount point; of several at one place the uppermost.

    Raises:
        CommandExecutionError: the kernel's list can't be read.
    """
    try:
        text = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as problem:
        raise CommandExecutionError(f"{_MOUNTS}: {problem.strerror}") from problem
    return {one.point: one for one in parse(text)}


def holding(path: str, rows: Mapping[str, Mounted]) -> Optional[Mounted]:
    """Return the mount that holds *path*, a real path."""
    while True:
        if path in rows:
            return rows[path]
        if path in ("/", ""):
            return None
        path = os.path.dirname(path)  # noqa: PTH120  # Path would collapse a leading "//"


def is_bind(options: Sequence[str]) -> bool:
    """Return whether mount options ask for a bind mount."""
    return bool({"bind", "rbind"} & set(options))


def is_from(
    row: Mounted, device: str, options: Sequence[str], rows: Mapping[str, Mounted]
) -> bool:
    """Return whether what is mounted comes from *device*.

    Args:
        row: the mount.
        device: as in fstab: a path, UUID=…, LABEL=…, HOST:/PATH, or a word as "tmpfs".
        options: wanted options; with "bind" the device is a folder.
        rows: all mounts, by mount point.
    """
    if is_bind(options):
        return _bound(row, os.path.realpath(device), rows)
    if row.device == device or row.device.rstrip("/") == device.rstrip("/"):
        return True
    name, mark, rest = device.partition("#")
    if mark and row.fstype.startswith("fuse") and name.isidentifier():
        return row.device == rest
    path = path_of(device)
    if path is None:
        return False
    return path == os.path.realpath(row.device) or _has_number(path, row) or _loops(path, row)


def path_of(device: str) -> Optional[str]:
    """Return the path of a local device or image; None for other sources and unknown tags."""
    tag, mark, value = device.partition("=")
    if mark and tag.upper() in _LINKS:
        value = value.strip('"')
        for name in (value, value.lower()):
            link = Path("/dev/disk", _LINKS[tag.upper()], name.replace(" ", r"\x20"))
            if name and link.exists():
                return str(link.resolve())
        return None
    return os.path.realpath(device) if device.startswith("/") and device[:2] != "//" else None


def _bound(row: Mounted, source: str, rows: Mapping[str, Mounted]) -> bool:
    below = holding(source, rows)
    if below is None:
        return False
    inside = os.path.normpath(f"{below.root}/{os.path.relpath(source, below.point)}")
    return (row.number, os.path.normpath(row.root)) == (below.number, inside.replace("//", "/"))


def _has_number(path: str, row: Mounted) -> bool:
    import stat

    try:
        found = Path(path).stat()
    except OSError:
        return False
    number = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
    return stat.S_ISBLK(found.st_mode) and number == row.number


def _loops(path: str, row: Mounted) -> bool:
    """Return whether a loop device of the image *path* is mounted."""
    try:
        text = (_BLOCK / row.number / "loop" / "backing_file").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return os.path.realpath(text.strip()) == path


def users_of(point: str, rows: Mapping[str, Mounted]) -> List[str]:
    """Return what keeps a mount busy, for people: mounts below it and processes.

    Args:
        point: the mount point.
        rows: all mounts, by mount point.
    """
    top = point.rstrip("/")
    below = [f"{one} is mounted below it" for one in sorted(rows) if one.startswith(f"{top}/")]
    processes = sorted({f"{name} (process {pid})" for pid, name in _processes(top)})
    more = len(processes) - _NAMED
    told = processes[:_NAMED] + ([f"{more} more processes"] if more > 0 else [])
    return [*below[:_NAMED], *([f"used by {', '.join(told)}"] if told else [])]


def _processes(top: str) -> Iterator[Tuple[int, str]]:
    """Yield the processes that have their folder, program or an open file below *top*."""
    for folder in _PROCESSES.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            links = [folder / one for one in ("cwd", "root", "exe")]
            links += list((folder / "fd").iterdir())
            if any(_is_below(link, top) for link in links):
                name = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
                yield int(folder.name), name
        except OSError:
            continue  # it ended, or belongs to another user


def _is_below(link: Path, top: str) -> bool:
    try:
        target = os.readlink(link)  # noqa: PTH115  # Path.readlink would make a Path of each
    except OSError:
        return False
    return target == top or target.startswith(f"{top}/")
