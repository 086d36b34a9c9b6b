"""file.hardlink: a hard link to a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file.change import make_folders, remove_path
from catena.modules.shared.attributes import Wanted
from catena.states.answers import done, failed, would
from catena.states.file.kept import keep
from catena.states.file.paths import absolute


def _refusal(link: Path, origin: Path) -> str:
    """Return why the hard link is not possible, or ""."""
    if not origin.exists():
        return f"Target {origin} for hard link does not exist"
    if origin.is_dir():
        return f"Unable to hard link from directory {origin}"
    if link.is_dir():
        return f"Unable to hard link to directory {link}"
    return ""


def _same(link: Path, origin: Path) -> bool:
    return os.path.samestat(link.lstat(), origin.lstat())


def _planned(link: Path, origin: Path, force: bool) -> StateResult:
    """Return the result of test mode."""
    name = str(link)
    if not os.path.lexists(link):
        return would(f"Hard link {name} to {origin} is set for creation", {"new": name})
    if link.lstat().st_nlink > 1 and not link.is_symlink():
        if _same(link, origin):
            return done(f"The hard link {name} is presently targetting {origin}")
        return would(f"Link {name} target is set to be changed to {origin}", {"change": name})
    if force:
        return would(
            f"The file or directory {name} is set for removal to make way for a new hard link "
            f"targeting {origin}"
        )
    return failed(
        f"File or directory exists where the hard link {name} should be. "
        "Did you mean to use force?"
    )


def _linked(context: Context, link: Path, origin: Path, force: bool) -> StateResult:
    name, changes = str(link), {"new": str(link)}
    comment = f"Created new hard link {name} -> {origin}"
    if os.path.lexists(link):
        if _same(link, origin):
            return done(f"Target of hard link {name} is already pointing to {origin}")
        if link.lstat().st_nlink > 1 and not link.is_symlink():
            comment = f"Set target of hard link {name} -> {origin}"
        elif force:
            changes = {"forced": "File for hard link was forcibly replaced", **changes}
        else:
            return failed(f"File exists where the hard link {name} should be")
        remove_path(link)
    context.call("file.link", str(origin), name)
    return done(comment, changes)


@state()
def hardlink(
    context: Context,
    /,
    name: str,
    target: str,
    force: bool = False,
    makedirs: bool = False,
    **ignored: Any,
) -> StateResult:
    """Make *name* a hard link to the file *target*."""
    try:
        link = absolute(name)
        origin = Path(str(target)).expanduser()
        if not origin.is_absolute():
            return failed(f"Specified target {target} is not an absolute path")
        keep(context, link)
        refused = _refusal(link, origin)
        if refused:
            return failed(refused)
        if context.test:
            return _planned(link, origin, bool(force))
        if not link.parent.is_dir():
            if not makedirs:
                return failed(f"Directory {link.parent} for hard link is not present")
            make_folders(link.parent, Wanted())
        return _linked(context, link, origin, bool(force))
    except CommandExecutionError as problem:
        return failed(str(problem))
