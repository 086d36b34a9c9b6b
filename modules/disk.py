"""disk.*: file systems and their usage."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.shared import programs
from catena.modules.shared.arguments import truth
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


def checked_device(device: Any) -> str:
    """Return the path of a device.

    Raises:
        UsageError: it is no absolute path.
    """
    text = str(device)
    if not text.startswith("/") or any(mark in text for mark in "\r\n\0"):
        raise UsageError(f"device: {text[:80]!r} is no absolute path")
    return text


@function(reads=True)
def fstype(context: Context, device: str) -> str:
    """Return the type of the file system on a device; "" if it has none.

    Raises:
        CommandExecutionError: blkid is not installed.
        UsageError: *device* is no absolute path.
    """
    # Without its cache, which may be older than the last mkfs.
    words = ["blkid", "-c", "/dev/null", "-o", "value", "-s", "TYPE", "--"]
    ran = programs.look(context, [*words, checked_device(device)], "util-linux")
    return ran.stdout.strip()


@function(reads=True)
def get_fstype_from_path(context: Context, path: str) -> str:
    """Return the type of the file system that holds *path*; "" if it is not there."""
    from catena.modules.shared import mounted

    found = mounted.holding(os.path.realpath(path), mounted.mounts())
    return found.fstype if found and os.path.exists(path) else ""  # noqa: PTH110


#: By option of disk.tune: blockdev's option to set it, and the value that shows it.
TUNED = {
    "read-ahead": ("setra", "getra"),
    "filesystem-read-ahead": ("setfra", "getfra"),
    "read-only": ("setro", "getro"),
    "read-write": ("setrw", "getro"),
}
_SHOWN = (
    *("getro", "getsz", "getss", "getpbsz", "getiomin", "getioopt", "getalignoff"),
    *("getmaxsect", "getsize64", "getra", "getfra"),
)


def tune_words(options: Mapping[str, Any]) -> List[str]:
    """Return blockdev's options for those of disk.tune.

    Raises:
        UsageError: an option that blockdev does not have, or a value that it can't have.
    """
    words: List[str] = []
    for key, value in options.items():
        if key.startswith("__"):
            continue
        flag = key in ("read-only", "read-write")
        wrong = value not in (True, "True") if flag else not str(value).isdigit()
        if key not in TUNED or wrong:
            raise UsageError(f"Invalid keyword arguments: {key}={str(value)[:80]}")
        words += [f"--{TUNED[key][0]}", *([] if flag else [str(value)])]
    return words


@function(reads=True)
def dump(context: Context, device: str, args: Optional[List[str]] = None) -> Dict[str, str]:
    """Return what blockdev knows of a device: getro, getsz, getss, getra, ….

    Raises:
        CommandExecutionError: it is no block device, or blockdev is not installed.
        UsageError: *device* is no absolute path.
    """
    words = ["blockdev", *(f"--{name}" for name in _SHOWN), checked_device(device)]
    lines = programs.need(context, words, "util-linux").split()
    found = dict(zip(_SHOWN, lines))
    return {name: found[name] for name in args if name in found} if args else found


@function()
def tune(context: Context, /, device: str, **options: Any) -> Dict[str, str]:
    """Set properties of a block device; return them as dump does.

    Args:
        context: the host.
        device: its path.
        options: read-ahead and filesystem-read-ahead (512-byte sectors), read-only: True,
            read-write: True.

    Raises:
        CommandExecutionError: blockdev failed.
        UsageError: an option that does not exist.
    """
    words = tune_words(options)
    if words:
        programs.need(context, ["blockdev", *words, checked_device(device)], "util-linux")
    return dump(context, device, [TUNED[key][1] for key in options if key in TUNED])


@function()
def wipe(context: Context, device: str) -> bool:
    """Remove all signatures of file systems from a device; return True.

    Raises:
        CommandExecutionError: wipefs failed.
        UsageError: *device* is no absolute path.
    """
    words = ["wipefs", "--all", "--", checked_device(device)]
    programs.need(context, words, "util-linux", timeout=_MKFS_SECONDS)
    return True


@function()
def resize2fs(context: Context, device: str) -> str:
    """Resize a file system of ext2, ext3 or ext4 to its device; return what resize2fs prints.

    Raises:
        CommandExecutionError: resize2fs failed.
        UsageError: *device* is no absolute path.
    """
    words = ["resize2fs", checked_device(device)]
    return programs.need(context, words, "e2fsprogs", timeout=_MKFS_SECONDS).strip()


#: Seconds: a large device may discard its blocks first.
_MKFS_SECONDS = 3600
#: Package with mkfs.TYPE, by type; else the one named TYPE-progs.
_MKFS_PACKAGES = {
    **dict.fromkeys(("ext2", "ext3", "ext4"), "e2fsprogs"),
    **dict.fromkeys(("fat", "vfat", "msdos"), "dosfstools"),
    **{"xfs": "xfsprogs", "ntfs": "ntfs-3g", "f2fs": "f2fs-tools", "exfat": "exfatprogs"},
    **dict.fromkeys(("minix", "cramfs"), "util-linux"),
}
_TYPE = re.compile(r"[a-z][a-z0-9._-]{0,31}\Z")


def maker_of(fs_type: Any) -> Tuple[str, str]:
    """Return the program that makes a type of file system, and its package.

    Raises:
        UsageError: it can't be the name of a type.
    """
    kind = str(fs_type)
    if not _TYPE.match(kind):
        raise UsageError(f"Invalid fs_type: {kind[:80]}")
    return f"mkfs.{kind}", _MKFS_PACKAGES.get(kind, f"{kind}-progs")


def format_words(fs_type: str, values: Mapping[str, Any]) -> List[str]:
    """Return the options of mkfs for those of disk.format.

    Raises:
        UsageError: a value makes no sense.
    """
    words: List[str] = []
    ext, xfs = fs_type.startswith("ext"), fs_type == "xfs"
    size, lazy, fat = (values.get(key) for key in ("inode_size", "lazy_itable_init", "fat"))
    for key, value in (("inode_size", size), ("lazy_itable_init", lazy), ("fat", fat)):
        if (
            value is not None
            and not str(int(value) if isinstance(value, bool) else value).isdigit()
        ):
            raise UsageError(f"{key}: {str(value)[:80]!r} is not a number")
    if size is not None and (ext or xfs):
        words += ["-I", str(size)] if ext else ["-i", f"size={size}"]
    if lazy is not None and ext:
        words += ["-E", f"lazy_itable_init={int(lazy)}"]
    if fat is not None and fs_type.endswith("fat"):
        words += ["-F", str(fat)]
    if truth(values.get("force")) and (ext or xfs):
        words.append("-F" if ext else "-f")
    return words


@function(name="format")
def format_(
    context: Context,
    device: str,
    fs_type: str = "ext4",
    inode_size: Any = None,
    lazy_itable_init: Any = None,
    fat: Any = None,
    force: Any = False,
) -> bool:
    """Make a file system on a device, which loses what is on it; return True.

    Args:
        context: the host.
        device: its path.
        fs_type: as ext4, xfs, vfat.
        inode_size: bytes of an inode (ext, xfs).
        lazy_itable_init: initialise inode tables in the background (ext).
        fat: 12, 16 or 32 (fat, vfat).
        force: also on a whole device or over another file system (ext, xfs).

    Raises:
        CommandExecutionError: the program is not installed, or failed.
        UsageError: an argument makes no sense.
    """
    program, package = maker_of(fs_type)
    values = {
        "inode_size": inode_size,
        "lazy_itable_init": lazy_itable_init,
        "fat": fat,
        "force": force,
    }
    words = [program, *format_words(str(fs_type), values), checked_device(device)]
    programs.need(context, words, package, timeout=_MKFS_SECONDS)
    return True
