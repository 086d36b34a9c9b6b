"""The part of a mount's state that is in fstab: compare, report, write."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Tuple

from catena.core.context import Context
from catena.core.types import StateResult
from catena.modules.shared import fstab
from catena.states.answers import failed

_ADDED = {
    fstab.NEW: ("new", ". Added new entry to the fstab."),
    fstab.CHANGE: ("update", ". Updated the entry in the fstab."),
}


def status(
    config: str, entry: fstab.FstabLine, keys: Tuple[str, ...], *, keep: bool = False
) -> str:
    """Return whether an entry is new, changed or present in a table; "" if there is no table."""
    if not Path(config).is_file():
        return ""
    return fstab.with_entry(fstab.read(config), entry, keys, keep=keep)[1]


def arguments_of(entry: fstab.FstabLine) -> Dict[str, Any]:
    """Return the arguments of mount.set_fstab for an entry."""
    return {
        "name": entry.name,
        "device": entry.device,
        "fstype": entry.fstype,
        "opts": list(entry.opts),
        "dump": entry.dump,
        "pass_num": entry.pass_num,
    }


def with_line(
    context: Context,
    found: StateResult,
    entry: fstab.FstabLine,
    config: str,
    keys: Tuple[str, ...],
    *,
    keep: bool = False,
) -> StateResult:
    """Write an entry to fstab and return *found* with what was done.

    Args:
        context: of the run.
        found: the result so far.
        entry: the wanted one.
        config: path of the table.
        keys: fields by which its line is found.
        keep: leave the line that is found as it is.

    Raises:
        CommandExecutionError: the table can't be read or written.
    """
    if not Path(config).is_file():
        return failed(f"{found.comment}. However, the fstab was not found.", found.changes)
    result = context.call(
        "mount.set_fstab", **arguments_of(entry), config=config, match_on=list(keys),
        not_change=keep,
    )  # fmt: skip
    if result == fstab.PRESENT:
        comment = f"{found.comment}. Entry already exists in the fstab."
        return StateResult(found.result, found.changes, comment)
    word, told = _ADDED[result]
    return StateResult(found.result, {**found.changes, "persist": word}, found.comment + told)
