"""mount.*: mounted file systems, swap areas and /etc/fstab."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.shared import fstab as table
from catena.modules.shared import mount_cache, mounted, programs
from catena.modules.shared.arguments import truth
from catena.modules.shared.mount_call import mount_words, options_without, private_options

_SWAPS = Path("/proc/swaps")
#: Seconds: a server of network file systems may be slow to answer.
_DEADLINE = 180


def write_table(config: str, lines: Sequence[str]) -> None:
    """Replace a table of file systems atomically.

    Raises:
        CommandExecutionError: it can't be written; nothing was replaced.
    """
    from catena.modules.file.content import encode, write

    write(Path(config), encode("".join(f"{line}\n" for line in lines)), "0644")


@function(name="fstab", reads=True)
def fstab_(context: Context, config: str = "/etc/fstab") -> Dict[str, Dict[str, Any]]:
    """Return device, fstype, opts, dump and pass by mount point; passwords are hidden.

    Of several lines for one mount point ("none" of swap areas) the further ones get an underscore.
    """
    found = {}
    for name, one in table.table(table.read(str(config))).items():
        found[name] = {
            "device": one.device,
            "fstype": one.fstype,
            "opts": table.shown(one.opts),
            "dump": one.dump,
            "pass": one.pass_num,
        }
    return found


@function(reads=True)
def active(context: Context, extended: bool = False) -> Dict[str, Dict[str, Any]]:
    """Return device, alt_device, fstype and opts by mount point; more with *extended*."""
    found: Dict[str, Dict[str, Any]] = {}
    for point, one in mounted.mounts().items():
        row: Dict[str, Any] = {
            "device": one.device,
            "alt_device": one.device,
            "fstype": one.fstype,
            "opts": list(one.opts),
        }
        if extended:
            major, _, minor = one.number.partition(":")
            row.update(mountid=one.mountid, parentid=one.parentid, major=major, minor=minor)
            row.update(root=one.root, superopts=list(one.superopts))
        found[point] = row
    return found


@function(reads=True)
def is_mounted(context: Context, name: str) -> bool:
    """Return whether something is mounted at *name*."""
    return str(name) in mounted.mounts()


@function()
def set_fstab(
    context: Context,
    name: str,
    device: str,
    fstype: str,
    opts: Any = "defaults",
    dump: Any = 0,
    pass_num: Any = 0,
    config: str = "/etc/fstab",
    test: Any = False,
    match_on: Any = "auto",
    not_change: Any = False,
) -> str:
    """Add or change a line of fstab; return "new", "change" or "present".

    Args:
        context: the host.
        name: mount point.
        device: as in fstab.
        fstype: type of the file system.
        opts: a list of options, or text with commas.
        dump: fifth field.
        pass_num: sixth field, the order of checks at boot.
        config: path of the table.
        test: only say what would be done.
        match_on: field or fields by which the line is found; "auto": the mount point for types
            that have no device of their own, otherwise the device.
        not_change: leave a line that differs.

    Raises:
        CommandExecutionError: the table does not exist, or can't be read or written.
        UsageError: an argument can't be a field of a line.
    """
    if not Path(config).is_file():
        raise CommandExecutionError(f'Bad config file "{config}"')
    entry = table.entry_of(name, device, fstype, opts, dump, pass_num)
    lines, result = table.with_entry(
        table.read(config), entry, table.keys_of(match_on, entry), keep=truth(not_change)
    )
    if result != table.PRESENT and not truth(test):
        write_table(config, lines)
    return result


@function()
def rm_fstab(
    context: Context, name: str, device: Optional[str] = None, config: str = "/etc/fstab"
) -> bool:
    """Remove a mount point, or only its lines for a device, from fstab; return True.

    Raises:
        CommandExecutionError: the table can't be read or written.
    """
    lines = table.read(config)
    wanted = table.without_entry(lines, str(name), device)
    if wanted != lines:
        write_table(config, wanted)
    return True


def _real(name: str) -> str:
    """Return the mount point as the kernel lists it.

    Raises:
        UsageError: it is no absolute path.
    """
    if not str(name).startswith("/") or "\0" in str(name):
        raise UsageError(f"name: {str(name)[:80]!r} is no absolute path")
    return os.path.realpath(name)


def _mount(
    context: Context,
    name: str,
    device: Optional[str],
    fstype: str,
    opts: List[str],
    user: Optional[str],
) -> None:
    if not device:
        programs.need(context, ["mount", _real(name)], "mount", timeout=_DEADLINE, runas=user)
        return
    with private_options(device, _real(name), fstype, opts) as private:
        words = mount_words(device, _real(name), fstype, options_without(opts, private), private)
        ran = programs.look(
            context, words, "mount", timeout=_DEADLINE, env=private.env, runas=user
        )
    if ran.retcode:
        told = private.hide((ran.stderr or ran.stdout).strip()) or "mount printed nothing"
        raise CommandExecutionError(told)


@function()
def mount(
    context: Context,
    name: str,
    device: Optional[str] = None,
    mkmnt: Any = False,
    fstype: str = "",
    opts: Any = "defaults",
    user: Optional[str] = None,
    util: str = "mount",
) -> bool:
    """Mount a file system; without *device* as its line of fstab says. Return True.

    Args:
        context: the host.
        name: mount point.
        device: as in fstab.
        mkmnt: make the mount point.
        fstype: type of the file system.
        opts: a list of options, or text with commas. Passwords are not in mount's command line.
        user: who mounts it.
        util: only "mount".

    Raises:
        CommandExecutionError: it can't be mounted; the message is that of mount(8).
        UsageError: an argument makes no sense.
    """
    if util != "mount":
        raise UsageError(f"util: {str(util)[:80]!r} is not supported; use 'mount'")
    if truth(mkmnt) and not Path(name).exists():
        context.call("file.mkdir", _real(name), user=user)
    _mount(context, name, device or None, str(fstype or ""), list(table.options_of(opts)), user)
    return True


@function()
def remount(
    context: Context,
    name: str,
    device: str,
    mkmnt: Any = False,
    fstype: str = "",
    opts: Any = "defaults",
    user: Optional[str] = None,
) -> bool:
    """Apply options to a mounted file system, or mount it; return True.

    Raises:
        CommandExecutionError: it can't be mounted; the message is that of mount(8).
        UsageError: an argument makes no sense.
    """
    wanted = table.options_of(opts)
    if _real(name) not in mounted.mounts():
        return mount(context, name, device, mkmnt, fstype, list(wanted), user)
    # A bind mount keeps its device; with "bind" mount(8) changes the flags of this place only.
    extra = () if "remount" in wanted else ("remount",)
    _mount(context, name, device, str(fstype or ""), [*wanted, *extra], user)
    return True


@function()
def umount(
    context: Context,
    name: str,
    device: Optional[str] = None,
    user: Optional[str] = None,
    util: str = "mount",
    lazy: Any = False,
) -> bool:
    """Unmount what is mounted at *name*; return True.

    Args:
        context: the host.
        name: mount point.
        device: only if it comes from this device.
        user: who unmounts it.
        util: only "mount" or "umount".
        lazy: detach it at once even if it is in use.

    Raises:
        CommandExecutionError: nothing is mounted there, or it is in use; the message names
            processes that use it.
    """
    if util not in ("mount", "umount"):
        raise UsageError(f"util: {str(util)[:80]!r} is not supported; use 'mount'")
    point, rows = _real(name), mounted.mounts()
    if point not in rows or (
        device and not mounted.is_from(rows[point], device, rows[point].opts, rows)
    ):
        raise CommandExecutionError(f"{name} does not have anything mounted")
    words = ["umount", *(["--lazy"] if truth(lazy) else []), point]
    ran = programs.look(context, words, "mount", timeout=_DEADLINE, runas=user)
    if ran.retcode:
        told = (ran.stderr or ran.stdout).strip() or "umount printed nothing"
        users = mounted.users_of(point, rows) if "busy" in told else []
        raise CommandExecutionError("; ".join([told, *users]))
    return True


@function(reads=True)
def swaps(context: Context) -> Dict[str, Dict[str, str]]:
    """Return type, size, used and priority by the device of each swap area."""
    try:
        lines = _SWAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}  # a kernel without swap
    found = {}
    for line in lines[1:]:
        words = line.split()
        if len(words) == 5:
            keys = ("type", "size", "used", "priority")
            found[table.unescaped(words[0])] = dict(zip(keys, words[1:]))
    return found


def _swap_path(name: str) -> str:
    """Return the path of a swap area: a device, a file, or UUID=… and LABEL=….

    Raises:
        UsageError: it is none of them.
    """
    found = mounted.path_of(str(name))
    if found is None:
        raise UsageError(f"{str(name)[:80]!r} is no device and no file for swap")
    return found


@function()
def swapon(context: Context, name: str, priority: Any = None) -> Dict[str, Any]:
    """Activate a swap area; return {"stats": as swaps shows it, "new": whether it was off}.

    Raises:
        CommandExecutionError: it can't be activated.
        UsageError: *name* or *priority* makes no sense.
    """
    path = _swap_path(name)
    there = swaps(context)
    if path in there:
        return {"stats": there[path], "new": False}
    if priority is not None and not str(priority).lstrip("-").isdigit():
        raise UsageError(f"priority: {str(priority)[:80]!r} is not a number")
    words = ["swapon", *([] if priority is None else ["--priority", str(priority)]), path]
    programs.need(context, words, "mount", timeout=_DEADLINE)
    found = swaps(context)
    if path not in found:
        raise CommandExecutionError(f"swapon ended without an error, but {path} is not active")
    return {"stats": found[path], "new": True}


@function()
def swapoff(context: Context, name: str) -> Optional[bool]:
    """Deactivate a swap area; return True, or None if it was not active.

    Raises:
        CommandExecutionError: it can't be deactivated.
    """
    path = _swap_path(name)
    if path not in swaps(context):
        return None
    programs.need(context, ["swapoff", path], "mount", timeout=_DEADLINE)
    return True


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


@function(reads=True)
def is_fuse_exec(context: Context, cmd: str) -> bool:
    """Return whether a program is linked with libfuse; False if there is no such program."""
    import shutil

    path = shutil.which(str(cmd))
    if path is None:
        return False
    return "libfuse" in programs.look(context, ["ldd", path], "libc-bin").stdout


@function(reads=True)
def read_mount_cache(context: Context, name: str) -> Dict[str, Any]:
    """Return with what the states have mounted *name*: device, fstype, mkmnt, opts."""
    return mount_cache.load(context).get(str(name), {})


@function()
def write_mount_cache(
    context: Context,
    real_name: str,
    device: str,
    mkmnt: Any = False,
    fstype: str = "",
    mount_opts: Any = None,
) -> bool:
    """Remember with what the states have mounted a file system, without passwords; return True.

    Raises:
        CommandExecutionError: it can't be stored.
    """
    row = {
        "device": device,
        "fstype": fstype,
        "mkmnt": truth(mkmnt),
        "opts": table.shown(table.options_of(mount_opts)),
    }
    mount_cache.store(context, {**mount_cache.load(context), str(real_name): row})
    return True


@function()
def delete_mount_cache(context: Context, real_name: str) -> bool:
    """Forget with what the states have mounted a file system; return True.

    Raises:
        CommandExecutionError: it can't be stored.
    """
    rows = mount_cache.load(context)
    if str(real_name) in rows:
        mount_cache.store(context, {key: row for key, row in rows.items() if key != real_name})
    return True
