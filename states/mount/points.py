"""mount.mounted, mount.unmounted and mount.mod_watch: what is mounted where."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared import fstab, mount_cache, mounted
from catena.modules.shared import mount_options as compare
from catena.modules.shared.arguments import listed, split, truth
from catena.states.answers import done, failed, likely_typos, would
from catena.states.mount.kept import status, with_line

#: Types whose options change only with a new mount; so do those that begin with "fuse".
_MOUNTED_ANEW = ("nfs", "nfs4", "cvfs")
#: Maximum number of mounts at one place that a state removes.
_LAYERS = 32


@dataclass(frozen=True)
class MountOptions:
    """Arguments of mount.mounted, with Salt's names and defaults."""

    mkmnt: Any = False
    opts: Any = "defaults"
    dump: Any = 0
    pass_num: Any = 0
    config: str = "/etc/fstab"
    persist: Any = True
    mount: Any = True
    user: Optional[str] = None
    match_on: Any = "auto"
    device_name_regex: Any = None
    extra_mount_invisible_options: Any = None
    extra_mount_invisible_keys: Any = None
    extra_mount_ignore_fs_keys: Any = None
    extra_mount_translate_options: Any = None
    hidden_opts: Any = None
    #: Salt's default is True, which changes fstab at the second run.
    bind_mount_copy_active_opts: Any = False


@dataclass(frozen=True)
class _Order:
    """A wanted mount, checked."""

    entry: fstab.FstabLine
    #: Real path of the mount point.
    point: str
    options: MountOptions
    rules: compare.Rules
    keys: Tuple[str, ...]

    @property
    def name(self) -> str:
        return self.entry.name

    def arguments(self) -> Dict[str, Any]:
        """Return the arguments of mount.mount and mount.remount."""
        return {
            "name": self.point,
            "device": self.entry.device,
            "fstype": self.entry.fstype,
            "opts": list(self.entry.opts),
            "user": self.options.user,
        }


def _point(name: Any) -> str:
    """Return a mount point without a slash at its end.

    Raises:
        UsageError: it is no absolute path.
    """
    text = str(name)
    if not text.startswith("/") or "\0" in text:
        raise UsageError(f"{text[:80]!r} is no absolute path")
    return text.rstrip("/") or "/"


def _order(name: Any, device: Any, fstype: Any, options: MountOptions) -> _Order:
    """Return the order for the arguments of mount.mounted.

    Raises:
        UsageError: an argument makes no sense.
    """
    for key, value in (("name", name), ("device", device), ("fstype", fstype)):
        if not value:
            raise UsageError(f"Must provide {key} to mount.mounted")
    entry = fstab.entry_of(
        _point(name), device, fstype, options.opts, options.dump, options.pass_num
    )
    rules = compare.rules_of(
        options.extra_mount_invisible_options,
        options.extra_mount_invisible_keys,
        options.extra_mount_ignore_fs_keys,
        options.extra_mount_translate_options,
        options.hidden_opts,
    )
    keys = fstab.keys_of(options.match_on, entry)
    return _Order(entry, os.path.realpath(entry.name), options, rules, keys)


@state()
def mounted_(
    context: Context, /, name: str, device: Any = None, fstype: Any = None, **options: Any
) -> StateResult:
    """Make sure that a file system is mounted, now and at every boot.

    Args:
        context: of the run.
        name: mount point.
        device: as in fstab: a path, UUID=…, LABEL=…, HOST:/PATH, or a word as "tmpfs".
        fstype: type of the file system; "none" for a bind mount.
        options: opts (a list, or text with commas), mkmnt (make the mount point), dump, pass_num,
            persist (write fstab; default True), mount (mount it now; default True), config (path
            of fstab), user (who mounts it), match_on (fields by which the line of fstab is found),
            device_name_regex (devices that count as the wanted one), hidden_opts and
            extra_mount_invisible_options, extra_mount_invisible_keys, extra_mount_ignore_fs_keys,
            extra_mount_translate_options (options that the kernel shows otherwise or not at all),
            bind_mount_copy_active_opts (write the options of the mount that holds the source of a
            bind mount to fstab too; default False).
    """
    chosen, rest = split(MountOptions, options)
    warnings = likely_typos(MountOptions, rest, "mount.mounted")
    try:
        order = _order(name, device, fstype, chosen)
        found, ends = _live(context, order)
        if found.result is not False and not ends and truth(chosen.persist):
            found = _kept(context, order, found)
    except (UsageError, CommandExecutionError) as problem:
        found = failed(str(problem))
    return replace(found, warnings=warnings)


def _live(context: Context, order: _Order) -> Tuple[StateResult, bool]:
    """Mount what is wanted; return the result so far, and whether fstab is not looked at."""
    rows = mounted.mounts()
    row = rows.get(order.point)
    if row is None:
        return _absent(context, order)
    if not truth(order.options.mount):
        return done(f"{order.name} is mounted, not changed"), False
    if not mounted.is_from(row, order.entry.device, order.entry.opts, rows):
        return _other_device(context, order, row)
    changed = _changed_options(context, order, row)
    if not changed:
        return done("Target was already mounted"), False
    told = ",".join(sorted(fstab.shown(changed)))
    if context.test:
        return would(f"Remount would be forced because options ({told}) changed"), True
    return _with_options(context, order, told), False


def _absent(context: Context, order: _Order) -> Tuple[StateResult, bool]:
    """Mount or make a mount point at which nothing is mounted."""
    name, there = order.name, Path(order.point).exists()
    makes = truth(order.options.mkmnt) and not there
    if not truth(order.options.mount):
        return _only_point(context, order, there=there), False
    if context.test:
        if makes:
            return would(f"{name} would be created and mounted"), True
        if there:
            return would(f"{name} would be mounted"), True
        return would(f"{name} does not exist and would not be created"), True
    if not there and not makes:
        return failed("Mount directory is not present"), True
    return _mount(context, order, {}), False


def _only_point(context: Context, order: _Order, *, there: bool) -> StateResult:
    """Return the result for `mount: False`."""
    name = order.name
    if there:
        return done(f"{name} would not be mounted" if context.test else f"{name} not mounted")
    if not truth(order.options.mkmnt):
        if context.test:
            return done(f"{name} does not exist and would neither be created nor mounted")
        return done(f"{name} not present and not mounted")
    if context.test:
        return would(f"{name} would be created, but not mounted")
    context.call("file.mkdir", name, user=order.options.user)
    return done(f"{name} was created, not mounted", {"mkmnt": True})


def _mount(context: Context, order: _Order, changes: Dict[str, Any]) -> StateResult:
    try:
        context.call("mount.mount", **order.arguments(), mkmnt=truth(order.options.mkmnt))
    except CommandExecutionError as problem:
        return failed(str(problem), changes)
    if order.point not in mounted.mounts():
        return failed(f"mount ended without an error, but {order.name} is not mounted", changes)
    _remember(context, order)
    return done("Target was successfully mounted", {**changes, "mount": True})


def _other_device(
    context: Context, order: _Order, row: mounted.Mounted
) -> Tuple[StateResult, bool]:
    """Replace a mount of another device."""
    device = order.entry.device
    for pattern in listed(order.options.device_name_regex):
        if _matches(pattern, row.device):
            told = "An umount will not be forced because device matched device_name_regex: "
            return done(f"{told}{row.device}"), False
    if context.test:
        told = "An umount would have been forced because devices do not match.  Watched: "
        return would(f"{told}{device}"), False
    real = mounted.path_of(device)
    other = f" ({real})" if real and real != device else ""
    told = f"Forced unmount because devices don't match. Wanted: {device}{other}"
    try:
        context.call("mount.umount", order.point, user=order.options.user)
    except CommandExecutionError as problem:
        return failed(f"Unable to unmount {order.name}: {problem}"), True
    return _mount(context, order, {"umount": f"{told}, current: {row.device}"}), False


def _matches(pattern: Any, device: str) -> bool:
    try:
        return bool(re.match(str(pattern), device))
    except re.error as problem:
        raise UsageError(f"device_name_regex: {str(pattern)[:80]!r}: {problem}") from problem


def _changed_options(context: Context, order: _Order, row: mounted.Mounted) -> List[str]:
    """Return options that the mount lacks, and those that were dropped but are still set."""
    entry = order.entry
    lacking = compare.differing(entry.opts, row.opts, row.superopts, row.fstype, order.rules)
    before = mount_cache.load(context).get(order.point, {})
    if before.get("device") != entry.device:
        return list(lacking)
    unseen = before.get("unseen") or []
    options = [str(one) for one in before.get("opts") or []]
    gone = [one for one in options if one not in fstab.shown(entry.opts)]
    dropped = compare.still_set(gone, row.opts, row.superopts, row.fstype, order.rules)
    return [*(one for one in lacking if one not in unseen), *dropped]


def _with_options(context: Context, order: _Order, told: str) -> StateResult:
    """Change the options of a mounted file system."""
    kind = order.entry.fstype
    anew = kind in _MOUNTED_ANEW or kind.startswith("fuse")
    what = "Forced unmount and mount" if anew else "Forced remount"
    changes = {"umount": f"{what} because options ({told}) changed"}
    try:
        if not anew:
            context.call("mount.remount", **order.arguments())
        else:
            try:
                context.call("mount.umount", order.point)
            except CommandExecutionError:
                context.call("mount.umount", order.point, lazy=True)
                what = "Forced a lazy unmount and mount because the previous unmount failed and"
                changes = {"umount": f"{what} because the options ({told}) changed"}
            context.call("mount.mount", **order.arguments())
    except CommandExecutionError as problem:
        return failed(f"Unable to change the options of {order.name}: {problem}")
    _remember(context, order)
    return done("Target was already mounted", changes)


def _remember(context: Context, order: _Order) -> None:
    """Store the options of a mount, and those that the kernel does not show."""
    row = mounted.mounts().get(order.point)
    if row is None:
        return
    entry = order.entry
    unseen = compare.differing(entry.opts, row.opts, row.superopts, row.fstype, order.rules)
    kept = {
        "device": entry.device,
        "fstype": entry.fstype,
        "mkmnt": truth(order.options.mkmnt),
        "opts": fstab.shown(entry.opts),
        "unseen": list(unseen),
    }
    mount_cache.store(context, {**mount_cache.load(context), order.point: kept})


def _line(order: _Order) -> fstab.FstabLine:
    """Return the entry for fstab."""
    opts = tuple(one for one in order.entry.opts if one != "remount")
    rows = mounted.mounts()
    if (
        truth(order.options.bind_mount_copy_active_opts)
        and mounted.is_bind(opts)
        and order.point in rows
    ):
        below = mounted.holding(os.path.realpath(order.entry.device), rows)
        if below is not None:
            opts = tuple(sorted({*opts, *below.opts, *below.superopts}))
    return replace(order.entry, opts=opts)


def _kept(context: Context, order: _Order, found: StateResult) -> StateResult:
    entry, config = _line(order), str(order.options.config)
    if not context.test:
        try:
            return with_line(context, found, entry, config, order.keys)
        except CommandExecutionError as problem:
            return failed(f"{found.comment}. {problem}", found.changes)
    kind = status(config, entry, order.keys)
    if not kind:
        return failed(f"{found.comment}. However, the fstab was not found.")
    if kind == fstab.PRESENT:
        comment = f"{found.comment}. Entry already exists in the fstab."
        return StateResult(found.result, found.changes, comment)
    name, mount = order.name, truth(order.options.mount)
    if kind == fstab.NEW:
        told = "needs to be written to the fstab in order to be made persistent."
        return would(f"{found.comment}. {name} {'is mounted, but ' if mount else ''}{told}")
    if mount:
        return would(f"{found.comment}. {name} is mounted, but its fstab entry must be updated.")
    return would(f"{found.comment}. The {name} fstab entry must be updated.")


@state()
def unmounted(
    context: Context,
    /,
    name: str,
    device: Optional[str] = None,
    config: str = "/etc/fstab",
    persist: Any = False,
    user: Optional[str] = None,
    **options: Any,
) -> StateResult:
    """Make sure that nothing is mounted at a place.

    Args:
        context: of the run.
        name: mount point.
        device: only if it comes from this device.
        config: path of fstab.
        persist: also remove the mount point from fstab.
        user: who unmounts it.
        options: ignored, as in Salt.
    """
    if not name:
        return failed("Must provide name to mount.unmounted")
    try:
        point = _point(name)
        found = _unmount(context, point, device, user)
        if found.result is True and truth(persist):
            found = _purged(context, found, point, device, str(config))
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))
    return found


def _is_mounted(point: str, device: Optional[str]) -> bool:
    rows = mounted.mounts()
    row = rows.get(os.path.realpath(point))
    return row is not None and (not device or mounted.is_from(row, device, _bind(device), rows))


def _bind(device: str) -> Tuple[str, ...]:
    """Return the options that a device of fstab implies: a folder is the source of a bind."""
    return ("bind",) if Path(device).is_dir() else ()


def _unmount(
    context: Context, point: str, device: Optional[str], user: Optional[str]
) -> StateResult:
    if not _is_mounted(point, device):
        return done("Target was already unmounted")
    if context.test:
        return would(f"Mount point {point} is mounted but should not be")
    changes: Dict[str, Any] = {}
    try:
        for _ in range(_LAYERS):
            context.call("mount.umount", point, user=user)
            changes["umount"] = True
            if not _is_mounted(point, device):
                break
        else:
            return failed(f"more than {_LAYERS} file systems are mounted at {point}", changes)
    except CommandExecutionError as problem:
        return failed(str(problem), changes)
    context.call("mount.delete_mount_cache", os.path.realpath(point))
    return done("Target was successfully unmounted", changes)


def _purged(
    context: Context, found: StateResult, point: str, device: Optional[str], config: str
) -> StateResult:
    """Remove a mount point from fstab."""
    entries = [one for line in fstab.read(config) for one in [fstab.parse(line)] if one]
    lines = [one for one in entries if one.name == point]
    if not lines:
        return replace(found, comment=f"{found.comment}. fstab entry not found")
    if device and all(one.device != device for one in lines):
        told = f"{found.comment}. fstab entry for device {device} not found"
        return replace(found, comment=told)
    if context.test:
        return would(
            f"Mount point {point} is unmounted but needs to be purged from {config} to be made "
            "persistent"
        )
    try:
        context.call("mount.rm_fstab", point, device, config)
    except CommandExecutionError as problem:
        return failed(f"{found.comment}. Failed to persist purge: {problem}", found.changes)
    comment = f"{found.comment}. Removed target from fstab"
    return StateResult(True, {**found.changes, "persist": "purged"}, comment)


@state()
def mod_watch(
    context: Context, /, name: str, sfun: str = "mounted", **options: Any
) -> StateResult:
    """Mount a file system again with its options: something watched has changed."""
    if sfun != "mounted":
        return done(f"Watch not supported in {sfun} at this time")
    chosen, _ = split(MountOptions, options)
    try:
        order = _order(name, options.get("device"), options.get("fstype"), chosen)
        if context.test:
            return would(f"{name} is set to be remounted")
        context.call("mount.remount", **order.arguments())
    except (UsageError, CommandExecutionError) as problem:
        return failed(f"{name} failed to remount: {problem}")
    return done(f"{name} remounted", {"remount": True})
