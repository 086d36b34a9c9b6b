"""mount.swap: a swap area that is active, now and at every boot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules import mount
from catena.modules.shared import fstab, mounted
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would


@state()
def swap(
    context: Context, name: str, persist: Any = True, config: str = "/etc/fstab"
) -> StateResult:
    """Make sure that a swap area is active, now and at every boot.

    Args:
        context: of the run.
        name: a device or file, or UUID=… and LABEL=….
        persist: also write fstab; an entry for swap that exists keeps its options.
        config: path of fstab.
    """
    try:
        entry = fstab.entry_of("none", name, "swap")
        path = mounted.path_of(entry.device)
        if path is None:
            return failed(f"{entry.device} is no device and no file for swap")
        found = _active(context, entry.device, path)
        if found.result is False or not truth(persist):
            return found
        return _kept(context, found, entry, path, str(config))
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))


def _active(context: Context, name: str, path: str) -> StateResult:
    if path in context.call("mount.swaps"):
        return done(f"Swap {name} already active")
    if context.test:
        return would(f"Swap {name} is set to be activated")
    try:
        found = context.call("mount.swapon", path)
    except CommandExecutionError as problem:
        return failed(f"Swap {name} failed to activate: {problem}")
    return done(f"Swap {name} activated", found["stats"])


def _is_kept(lines: list[str], name: str, path: str) -> bool:
    """Return whether a line of fstab activates the swap area at boot."""
    entries = [one for line in lines for one in [fstab.parse(line)] if one]
    areas = [one.device for one in entries if one.fstype == "swap"]
    return any(one == name or mounted.path_of(one) == path for one in areas)


def _kept(
    context: Context, found: StateResult, entry: fstab.FstabLine, path: str, config: str
) -> StateResult:
    """Add the swap area to fstab."""
    if not Path(config).is_file():
        return failed(f"{found.comment}. However, the fstab was not found.", found.changes)
    lines = fstab.read(config)
    if _is_kept(lines, entry.device, path):
        return found
    if context.test:
        told = f"Swap {entry.device} is set to be added to the fstab"
        return would(f"{told} and to be activated" if found.result is None else told)
    try:
        mount.write_table(config, [*lines, entry.line()])
    except CommandExecutionError as problem:
        return failed(f"{found.comment}. {problem}", found.changes)
    comment = f"{found.comment}. Added new entry to the fstab."
    return done(comment, {**found.changes, "persist": "new"})
