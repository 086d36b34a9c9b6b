"""file.absent, touch, copy, rename, symlink, hardlink, exists, missing: paths, not contents."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file import attributes
from catena.modules.file.attributes import Wanted
from catena.modules.file.change import copy_path, make_folders, move, remove_path
from catena.states.answers import done, failed, would
from catena.states.file.kept import keep


def absolute(name: str) -> Path:
    """Return *name* as an absolute path.

    Raises:
        CommandExecutionError: it is relative.
    """
    path = Path(str(name)).expanduser()
    if not path.is_absolute():
        raise CommandExecutionError(f"Specified file {name} is not an absolute path")
    return path


@state()
def absent(context: Context, /, name: str, **ignored: Any) -> StateResult:
    """Make sure that there is no file, link or folder *name*."""
    try:
        path = absolute(name)
        if str(path) == "/":
            return failed('Refusing to make "/" absent')
        if not os.path.lexists(path):
            return done(f"File {name} is not present")
        folder = path.is_dir() and not path.is_symlink()
        if context.test:
            kind = "Directory" if folder else "File"
            return would(f"{kind} {name} is set for removal", {"removed": name})
        remove_path(path)
    except CommandExecutionError as problem:
        return failed(str(problem))
    return done(f"Removed {'directory' if folder else 'file'} {name}", {"removed": name})


@state()
def exists(context: Context, /, name: str, **ignored: Any) -> StateResult:
    """Verify that *name* is there; nothing is made."""
    if os.path.lexists(absolute(name)):
        return done(f"Specified path {name} exists")
    return failed(f"Specified path {name} does not exist")


@state()
def missing(context: Context, /, name: str, **ignored: Any) -> StateResult:
    """Verify that *name* is not there; nothing is removed."""
    if os.path.lexists(absolute(name)):
        return failed(f"Specified path {name} exists")
    return done(f"Specified path {name} is missing")


def _times(path: Path, atime: Optional[float], mtime: Optional[float]) -> bool:
    """Return whether the file has the times asked for."""
    status = path.stat()
    return (atime is None or int(status.st_atime) == int(atime)) and (
        mtime is None or int(status.st_mtime) == int(mtime)
    )


@state()
def touch(
    context: Context,
    /,
    name: str,
    atime: Optional[float] = None,
    mtime: Optional[float] = None,
    makedirs: bool = False,
) -> StateResult:
    """Make an empty file, or set the times of one that is there."""
    path = absolute(name)
    keep(context, path)
    new = not path.exists()
    if context.test:
        if new:
            return would(f"File {name} is set to be created", {"new": name})
        if not _times(path, atime, mtime):
            return would(f"Times set to be updated on file {name}", {"touched": name})
        return done(f"File {name} exists and has the correct times")
    if not path.parent.is_dir():
        if not makedirs:
            return failed(f"Directory not present to touch file {name}")
        make_folders(path.parent, Wanted())
    try:
        context.call("file.touch", str(path), atime=atime, mtime=mtime)
    except CommandExecutionError as problem:
        return failed(str(problem))
    if new:
        return done(f"Created empty file {name}", {"new": name})
    kind = "directory" if path.is_dir() else "file"
    return done(f"Updated times on {kind} {name}", {"touched": name})


@dataclass(frozen=True)
class CopyOptions:
    """Arguments of file.copy beside source and force."""

    makedirs: bool = False
    preserve: bool = False
    user: Any = None
    group: Any = None
    mode: Any = None
    dir_mode: Any = None
    subdir: bool = False


def _identical(source: Path, target: Path) -> bool:
    import filecmp

    return source.is_file() and target.is_file() and filecmp.cmp(source, target, shallow=False)


def _copy_wanted(source: Path, options: CopyOptions) -> Wanted:
    if options.preserve:
        status = source.stat()
        return Wanted(status.st_uid, status.st_gid, attributes.mode_of(source))
    return Wanted(options.user, options.group, attributes.parse_mode(options.mode))


def _copied(
    context: Context, target: Path, origin: Path, force: bool, options: CopyOptions
) -> StateResult:
    name, source = str(target), str(origin)
    there = os.path.lexists(target)
    note = ""
    if there and not force:
        return done(f'The target file "{name}" exists and will not be overwritten')
    if there and _identical(origin, target):
        note = " - files are identical but force flag is set"
    wanted = _copy_wanted(origin, options)
    problem = attributes.missing_account(wanted)
    if problem and not context.test:
        return failed(problem)
    if context.test:
        return would(f'File "{source}" is set to be copied to "{name}"')
    if not target.parent.is_dir():
        if not options.makedirs:
            return failed(f"The target directory {target.parent} is not present")
        dir_mode = attributes.parse_mode(options.dir_mode)
        make_folders(target.parent, Wanted(options.user, options.group, dir_mode))
    if there and origin.is_dir() != target.is_dir():
        remove_path(target)
    copy_path(origin, target, recurse=True, remove_existing=there)
    changes: Dict[str, Any] = {name: source, **attributes.apply(target, wanted)}
    return done(f'Copied "{source}" to "{name}"{note}', changes)


@state(name="copy")
def copy_(
    context: Context, /, name: str, source: str, force: bool = False, **options: Any
) -> StateResult:
    """Copy a file or folder of this host to *name*, once (each time with *force*).

    Args:
        context: the call's context.
        name: where to.
        source: where from.
        force: overwrite what is there.
        options: makedirs, preserve (owner and mode), user, group, mode, dir_mode, subdir.
    """
    from catena.modules.arguments import split

    chosen, _ = split(CopyOptions, options)
    try:
        target, origin = absolute(name), absolute(source)
        if not os.path.lexists(origin):
            return failed(f'Source file "{source}" is not present')
        if target.is_dir() and chosen.subdir:
            target = target / origin.name
        keep(context, target)
        return _copied(context, target, origin, bool(force), chosen)
    except CommandExecutionError as problem:
        return failed(str(problem))


@state()
def rename(
    context: Context,
    /,
    name: str,
    source: str,
    force: bool = False,
    makedirs: bool = False,
    **ignored: Any,
) -> StateResult:
    """Move *source* to *name*, once."""
    try:
        target, origin = absolute(name), absolute(source)
        if not os.path.lexists(origin):
            return done(f'Source file "{source}" has already been moved out of place')
        there = os.path.lexists(target)
        if there and not force:
            return done(f'The target file "{name}" exists and will not be overwritten')
        if context.test:
            return would(f'File "{source}" is set to be moved to "{name}"')
        if not target.parent.is_dir():
            if not makedirs:
                return failed(f"The target directory {target.parent} is not present")
            make_folders(target.parent, Wanted())
        if there:
            remove_path(target)
        move(origin, target)
    except CommandExecutionError as problem:
        return failed(str(problem))
    return done(f'Moved "{source}" to "{name}"', {name: source})


@state()
def hardlink(
    context: Context, /, name: str, target: str, force: bool = False, makedirs: bool = False
) -> StateResult:
    """Make *name* another name of the file *target*."""
    try:
        link, origin = absolute(name), absolute(target)
        keep(context, link)
        if not origin.is_file() and not context.test:
            return failed(f"Target {target} for hard link does not exist")
        if link.exists() and origin.exists() and link.samefile(origin) and not link.is_symlink():
            return done(f"Target of hard link {name} is already pointing to {target}")
        there = os.path.lexists(link)
        if there and not force:
            return failed(f"File exists where the hard link {name} should be")
        if context.test:
            return would(f"Hard link {name} to {target} is set for creation", {"new": name})
        if not link.parent.is_dir():
            if not makedirs:
                return failed(f"Directory {link.parent} for hard link is not present")
            make_folders(link.parent, Wanted())
        if there:
            remove_path(link)
        context.call("file.link", target, str(link))
    except CommandExecutionError as problem:
        return failed(str(problem))
    return done(f"Created new hard link {name} -> {target}", {"new": name})
