"""file.directory: a folder, its attributes, those of what lies in it, and nothing else in it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.arguments import listed, split, truth
from catena.modules.file import attributes
from catena.modules.file.attributes import Wanted
from catena.modules.file.change import make_folders, remove_path
from catena.states.answers import done, failed, likely_typos, would
from catena.states.file.kept import keep, kept
from catena.states.file.patterns import chosen as chosen_by

_RECURSE = ("user", "group", "mode", "ignore_files", "ignore_dirs", "silent")
Changes = Dict[str, Any]


@dataclass(frozen=True)
class FolderOptions:
    """Arguments of file.directory, with Salt's names and defaults."""

    user: Any = None
    group: Any = None
    recurse: Any = None
    max_depth: Optional[int] = None
    dir_mode: Any = None
    file_mode: Any = None
    mode: Any = None
    makedirs: bool = False
    clean: bool = False
    exclude_pat: Any = None
    follow_symlinks: bool = False
    force: bool = False
    backupname: Optional[str] = None
    allow_symlink: bool = True
    children_only: bool = False
    attrs: Any = None
    require: Any = None
    #: Old spellings that formulas use, and other systems' arguments.
    dirmode: Any = None
    make_dirs: Any = None
    win_owner: Any = None
    win_perms: Any = None
    win_deny_perms: Any = None
    win_inheritance: Any = None
    win_perms_reset: Any = None


@dataclass(frozen=True)
class Folder:
    """One file.directory: what to do with one path."""

    path: Path
    options: FolderOptions
    #: What the folder itself, a folder below it and a file below it should have.
    top: Wanted
    dirs: Wanted
    files: Wanted
    recurse: Tuple[str, ...]
    test: bool


def folder_order(context: Context, name: str, options: FolderOptions) -> Folder:
    """Return the order of one folder.

    Raises:
        UsageError: the path is relative, or a mode or `recurse` is malformed.
    """
    path = Path(os.path.normpath(Path(str(name)).expanduser()))
    if not path.is_absolute():
        raise UsageError(f"Specified file {name} is not an absolute path")
    recurse = tuple(str(part) for part in listed(options.recurse))
    for part in recurse:
        if part not in _RECURSE:
            raise UsageError(f"recurse: {part!r} is none of {', '.join(_RECURSE)}")
    if {"ignore_files", "ignore_dirs"} <= set(recurse):
        raise UsageError('Must not specify "recurse" options "ignore_files" and "ignore_dirs"')
    dir_mode = attributes.parse_mode(options.dir_mode or options.mode)
    file_mode = attributes.parse_mode(options.file_mode)
    user = options.user if "user" in recurse else None
    group = options.group if "group" in recurse else None
    with_mode = "mode" in recurse
    return Folder(
        path=path,
        options=options,
        top=Wanted(options.user, options.group, dir_mode),
        dirs=Wanted(user, group, dir_mode if with_mode else None),
        files=Wanted(user, group, file_mode if with_mode else None),
        recurse=recurse,
        test=context.test,
    )


def _members(order: Folder) -> Iterator[Tuple[Path, Wanted]]:
    """Yield what lies below the folder and what it should have, folders after their contents."""
    if not {"user", "group", "mode"} & set(order.recurse):
        return
    deepest = order.options.max_depth
    follow = truth(order.options.follow_symlinks)
    for base, folders, files in os.walk(order.path, topdown=False, followlinks=follow):
        depth = len(Path(base).relative_to(order.path).parts)
        if deepest is not None and depth > int(deepest):
            continue
        if "ignore_files" not in order.recurse:
            for name in sorted(files):
                yield Path(base, name), order.files
        if "ignore_dirs" not in order.recurse:
            for name in sorted(folders):
                yield Path(base, name), order.dirs


def _doomed(context: Context, order: Folder) -> List[Path]:
    """Return what `clean` removes: neither managed by this run nor excluded; parents first."""
    if not truth(order.options.clean):
        return []
    saved = {str(order.path)}
    for text in kept(context):
        saved.add(text)
        saved.update(str(parent) for parent in Path(text).parents)
    doomed: List[Path] = []
    for base, folders, files in os.walk(order.path):
        for name in sorted([*folders, *files]):
            path = Path(base, name)
            relative = str(path.relative_to(order.path))
            excluded = bool(order.options.exclude_pat) and not chosen_by(
                relative, None, order.options.exclude_pat
            )
            if excluded:
                if name in folders:
                    folders.remove(name)
                saved.update(str(parent) for parent in [path, *path.parents])
            elif str(path) not in saved:
                doomed.append(path)
    return [path for path in doomed if str(path) not in saved]


def _wanted_changes(context: Context, order: Folder) -> Tuple[Changes, List[Path]]:
    """Return what differs, by path, and what `clean` removes."""
    if not order.path.is_dir():
        return {str(order.path): {"directory": "new"}}, []
    changes: Changes = {}
    for path, wanted in _members(order):
        found = attributes.differences(path, wanted, follow=False)
        if found:
            changes[str(path)] = found
    if not truth(order.options.children_only):
        found = attributes.differences(order.path, order.top)
        if found:
            changes[str(order.path)] = found
    doomed = _doomed(context, order)
    for path in doomed:
        changes[str(path)] = {"removed": "Removed due to clean"}
    return changes, doomed


def _clear_way(order: Folder) -> Tuple[Optional[StateResult], Changes]:
    """Deal with a file or link that stands where the folder should be."""
    path, options, name = order.path, order.options, str(order.path)
    link = path.is_symlink() and not (truth(options.allow_symlink) and path.is_dir())
    if not link and (path.is_dir() or not os.path.lexists(path)):
        return None, {}
    kind = "symlink" if path.is_symlink() else "file"
    if options.backupname:
        backup = Path(options.backupname)
        backup = backup if backup.is_absolute() else path.parent / backup
        if os.path.lexists(backup) and not truth(options.force):
            return failed(f"File exists where the backup target {backup} should go"), {}
        if not order.test:
            path.rename(backup)
        return None, {"backup": f"{name} {'would be' if order.test else ''} renamed to {backup}"}
    if truth(options.force):
        label = kind.capitalize()
        if order.test:
            return None, {"forced": f"{label} would be forcibly replaced"}
        remove_path(path)
        return None, {"forced": f"{label} was forcibly replaced"}
    return failed(f"Specified location {name} exists and is a {kind}"), {}


def _told(changes: Changes) -> str:
    lines = ["The following files will be changed:"]
    for path, found in changes.items():
        if isinstance(found, dict):
            lines.extend(f"{path}: {key} - {value}" for key, value in found.items())
    return "\n".join(lines) + "\n"


def _act(order: Folder, changes: Changes, doomed: List[Path]) -> StateResult:
    path, name = order.path, str(order.path)
    new = not path.is_dir()
    if new:
        if not path.parent.is_dir() and not truth(order.options.makedirs):
            return failed(f"No directory to create {name} in", changes)
        make_folders(path, order.top)
    for member, wanted in _members(order):
        attributes.apply(member, wanted, follow=False)
    if not truth(order.options.children_only):
        attributes.apply(path, order.top)
    removed = []
    for member in doomed:
        if os.path.lexists(member):
            remove_path(member)
            removed.append(str(member))
    if removed:
        return done(f"Files cleaned from directory {name}", {**changes, "removed": removed})
    if new:
        return done("", changes)
    return done(f"Directory {name} updated", changes)


def manage_folder(context: Context, order: Folder) -> StateResult:
    """Bring one folder into the state that *order* asks for."""
    refused, forced = _clear_way(order)
    if refused:
        return refused
    doomed: List[Path] = []
    if order.test and forced:
        changes: Changes = {**forced, str(order.path): {"directory": "new"}}
    else:
        changes, doomed = _wanted_changes(context, order)
        changes = {**forced, **changes}
    if not changes:
        return done(f"The directory {order.path} is in the correct state")
    if order.test:
        return would(_told(changes), changes)
    return _act(order, changes, doomed)


@state(wants=("require",))
def directory(context: Context, /, name: str, **options: Any) -> StateResult:
    """Make *name* a folder with this owner and mode.

    Args:
        context: the call's context.
        name: absolute path.
        options: user, group, mode or dir_mode, file_mode, recurse (list of user, group, mode,
            ignore_files, ignore_dirs), max_depth, makedirs, clean (remove what this run has not
            managed), exclude_pat, force, backupname, children_only, … as in Salt.
    """
    chosen, rest = split(FolderOptions, options)
    if chosen.dirmode and not chosen.dir_mode:
        chosen = replace(chosen, dir_mode=chosen.dirmode)
    warnings = likely_typos(FolderOptions, rest, "file.directory")
    try:
        order = folder_order(context, name, chosen)
        keep(context, order.path)
        problem = attributes.missing_account(order.top)
        if problem and not context.test:
            return failed(problem)
        if problem:
            order = replace(order, top=Wanted(mode=order.top.mode))
            order = replace(order, dirs=Wanted(mode=order.dirs.mode))
            order = replace(order, files=Wanted(mode=order.files.mode))
            warnings = (*warnings, f"{problem}; another state may add it")
        result = manage_folder(context, order)
    except (CommandExecutionError, UsageError) as refusal:
        return failed(str(refusal))
    except OSError as refusal:
        return failed(f"{refusal.filename or name}: {refusal.strerror}")
    return replace(result, warnings=warnings)
