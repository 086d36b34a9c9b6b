"""file.absent, exists, missing, pruned, touch, copy and rename."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass, replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file.change import (
    copy_path,
    make_folders,
    move,
    remove_empty,
    remove_path,
)
from catena.modules.shared import attributes
from catena.modules.shared.arguments import split
from catena.modules.shared.attributes import Wanted
from catena.states.answers import done, failed, would
from catena.states.file.kept import keep


def absolute(name: str) -> Path:
    """Return *name* as an absolute path.

    Raises:
        CommandExecutionError: the path is relative.
    """
    path = Path(str(name)).expanduser()
    if not path.is_absolute():
        raise CommandExecutionError(f"Specified file {name} is not an absolute path")
    return path


def _named(name: str, what: str) -> Path:
    """Return the path of a state, which may be empty because of a template.

    Raises:
        CommandExecutionError: the path is empty or relative.
    """
    if not str(name).strip():
        raise CommandExecutionError(f"Must provide name to file.{what}")
    return absolute(name)


@state()
def absent(context: Context, /, name: str, **ignored: Any) -> StateResult:
    """Remove the file, link or folder *name*."""
    try:
        path = _named(name, "absent")
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
    """Verify that *name*, or the target of the link, exists; change nothing."""
    if not str(name).strip():
        return failed("Must provide name to file.exists")
    if Path(name).exists():
        return done(f"Path {name} exists")
    return failed(f"Specified path {name} does not exist")


@state()
def missing(context: Context, /, name: str, **ignored: Any) -> StateResult:
    """Verify that *name*, or the target of the link, does not exist; change nothing."""
    if not str(name).strip():
        return failed("Must provide name to file.missing")
    if Path(name).exists():
        return failed(f"Specified path {name} exists")
    return done(f"Path {name} is missing")


@state()
def pruned(
    context: Context,
    name: str,
    recurse: bool = False,
    ignore_errors: bool = False,
    older_than: Optional[float] = None,
) -> StateResult:
    """Remove the folder *name* if it is empty.

    Args:
        context: the call's context.
        name: the folder.
        recurse: first remove empty folders below it.
        ignore_errors: as recurse, and allow that folders with files stay.
        older_than: minimum age in days since the last change of a folder.
    """
    path = Path(str(name)).expanduser()
    deep = bool(recurse or ignore_errors)
    if not path.is_dir():
        return done(f"Directory {name} is not present")
    if context.test:
        return would(f"Directory {name} is set for removal", {"deleted": name})
    gone, errors = remove_empty(path, deep, older_than)
    if (gone and ignore_errors) or (not errors and (gone or deep)):
        changes = {"deleted": sorted(gone) if deep else name} if gone else {}
        if deep:
            comment = f"Recursively removed empty directories under {name}" if gone else ""
            return done(comment, changes)
        return done(f"Removed directory {name}", changes)
    return failed(f"Failed to remove directory {name}", {"deleted": gone, "errors": errors})


def _wanted_time(what: str, value: Any) -> Optional[float]:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        raise CommandExecutionError(f"{what}: {value!r} is no number of seconds") from None


def _times(path: Path, atime: Optional[float], mtime: Optional[float]) -> bool:
    """Return whether the file has the wanted times."""
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
    """Create an empty file, or set the times of an existing one."""
    try:
        path = absolute(name)
        keep(context, path)
        wanted = _wanted_time("atime", atime), _wanted_time("mtime", mtime)
        new = not path.exists()
        if context.test:
            if new:
                return would(f"File {name} is set to be created", {"new": name})
            if not _times(path, *wanted):
                return would(f"Times set to be updated on file {name}", {"touched": name})
            return done(f"File {name} exists and has the correct times")
        if not path.parent.is_dir():
            if not makedirs or path.parent.exists():
                return failed(f"Directory not present to touch file {name}")
            make_folders(path.parent, Wanted())
        context.call("file.touch", str(path), atime=wanted[0], mtime=wanted[1])
    except CommandExecutionError as problem:
        return failed(str(problem))
    if new:
        return done(f"Created empty file {name}", {"new": name})
    kind = "directory" if path.is_dir() else "file"
    return done(f"Updated times on {kind} {name}", {"touched": name})


@dataclass(frozen=True)
class CopyOptions:
    """Arguments of file.copy except source and force."""

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
    return Wanted(
        options.user,
        options.group or attributes.primary_group(options.user),
        attributes.parse_mode(options.mode),
    )


def _apply_below(folder: Path, wanted: Wanted) -> None:
    """Set the owner of the contents of a copied folder."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            attributes.apply(Path(place, name), replace(wanted, mode=None), follow=False)


@dataclass(frozen=True)
class _Copy:
    """The paths of one file.copy, and their names in messages."""

    origin: Path
    target: Path
    source: str
    name: str

    def can(self, force: bool) -> bool:
        """Whether the place of the copy is free or may be overwritten."""
        return force or not os.path.lexists(self.target)


def _copied(context: Context, copy: _Copy, force: bool, options: CopyOptions) -> StateResult:
    target, origin = copy.target, copy.origin
    if not copy.can(force):
        return done(f'The target file "{target}" exists and will not be overwritten')
    there = os.path.lexists(target)
    same = there and _identical(origin, target)
    wanted = _copy_wanted(origin, options)
    problem = attributes.missing_account(wanted)
    if problem and not context.test:
        return failed(problem)
    if context.test:
        return would(f'File "{copy.source}" is set to be copied to "{target}"')
    if not target.parent.is_dir():
        if not options.makedirs:
            return failed(f"The target directory {target.parent} is not present")
        dir_mode = attributes.parse_mode(options.dir_mode)
        make_folders(target.parent, Wanted(wanted.user, wanted.group, dir_mode))
    if (
        there
        and not (same and target.samefile(origin))
        and (target.is_symlink() or origin.is_dir() != target.is_dir())
    ):
        remove_path(target)
    copy_path(origin, target, recurse=True, remove_existing=there)
    changes: Dict[str, Any] = {str(target): copy.source, **attributes.apply(target, wanted)}
    if target.is_dir() and not options.preserve:
        _apply_below(target, wanted)
    note = " - files are identical but force flag is set" if same else ""
    return done(f'Copied "{copy.source}" to "{copy.name}"{note}', changes)


@state(name="copy")
def copy_(
    context: Context, /, name: str, source: str, force: bool = False, **options: Any
) -> StateResult:
    """Copy a file or folder of this host to *name* once; with *force*, each time.

    Args:
        context: the call's context.
        name: target path.
        source: source path.
        force: overwrite an existing target.
        options: makedirs, preserve (owner and mode), user, group, mode, dir_mode, subdir.
    """
    chosen, _ = split(CopyOptions, options)
    try:
        target = absolute(name)
        if not Path(source).exists():
            return failed(f'Source file "{source}" is not present')
        origin = absolute(source)
        if target.is_dir() and chosen.subdir:
            target = target / origin.name
        keep(context, target)
        return _copied(context, _Copy(origin, target, source, name), bool(force), chosen)
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
    """Move *source* to *name* once."""
    try:
        target = absolute(name)
        if not os.path.lexists(source):
            return done(f'Source file "{source}" has already been moved out of place')
        origin = absolute(source)
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
