"""file.directory: a folder with its attributes, those of its contents, and `clean`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file.change import make_folders, remove_path
from catena.modules.shared import attributes
from catena.modules.shared.arguments import split, truth
from catena.modules.shared.attributes import Wanted
from catena.states.answers import done, failed, likely_typos, would
from catena.states.compiler.call import REQUIRED
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
    #: Arguments for other operating systems, without effect here.
    win_owner: Any = None
    win_perms: Any = None
    win_deny_perms: Any = None
    win_inheritance: Any = None
    win_perms_reset: Any = None


@dataclass(frozen=True)
class Folder:
    """The settings of one file.directory."""

    path: Path
    options: FolderOptions
    #: Wanted attributes of the folder itself, of folders below it, and of files below it.
    top: Wanted
    dirs: Wanted
    files: Wanted
    recurse: Tuple[str, ...]
    test: bool
    #: Low states that this state requires.
    required: Sequence[Mapping[str, Any]] = ()

    @property
    def follow(self) -> bool:
        """Whether to manage the attributes of a link's target instead of the link's."""
        return truth(self.options.follow_symlinks)


def _recurse_of(options: FolderOptions) -> Tuple[str, ...]:
    """Return the items of `recurse`.

    Raises:
        UsageError: it is malformed.
    """
    if options.recurse is None:
        return ()
    if not isinstance(options.recurse, (list, tuple)):
        raise UsageError('"recurse" must be formed as a list of strings')
    recurse = tuple(str(part) for part in options.recurse)
    if not set(recurse) <= set(_RECURSE):
        known = ", ".join(f'"{part}"' for part in _RECURSE)
        raise UsageError(f'Types for "recurse" limited to {known}.')
    if {"ignore_files", "ignore_dirs"} <= set(recurse):
        raise UsageError(
            'Must not specify "recurse" options "ignore_files" and "ignore_dirs" at the same time.'
        )
    return recurse


def folder_order(
    context: Context,
    name: str,
    options: FolderOptions,
    required: Sequence[Mapping[str, Any]] = (),
) -> Folder:
    """Return the settings of one folder from the arguments.

    Raises:
        UsageError: the path is relative, or an argument is malformed.
    """
    path = Path(os.path.normpath(Path(str(name)).expanduser()))
    if not path.is_absolute():
        raise UsageError(f"Specified file {name} is not an absolute path")
    recurse = _recurse_of(options)
    if truth(options.clean) and options.max_depth is not None:
        raise UsageError("Cannot specify both max_depth and clean")
    dir_mode = attributes.parse_mode(options.dir_mode or options.mode)
    file_mode = attributes.parse_mode(options.file_mode) or dir_mode
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
        required=required,
    )


def _members(order: Folder) -> Iterator[Tuple[Path, Wanted]]:
    """Yield (path, wanted attributes) below the folder; in each folder files come first."""
    if not {"user", "group", "mode"} & set(order.recurse):
        return
    deepest = order.options.max_depth
    for base, folders, files in os.walk(order.path):
        folders.sort()
        if deepest is not None and len(Path(base).relative_to(order.path).parts) >= int(deepest):
            folders.clear()
            continue
        if "ignore_files" not in order.recurse:
            for name in sorted(files):
                yield Path(base, name), order.files
        if "ignore_dirs" not in order.recurse:
            for name in folders:
                yield Path(base, name), order.dirs


def _followed(order: Folder, path: Path) -> bool:
    """Return whether to follow *path* to its target; a dangling link is not followed."""
    return order.follow and path.exists()


def doomed_by(context: Context, order: Folder) -> List[Path]:
    """Return the paths that `clean` removes, parents first.

    Files of required states, matches of `exclude_pat`, and the folders of both stay.
    """
    if not truth(order.options.clean):
        return []
    saved = {str(order.path)}
    for text in kept(context, order.required):
        saved.update((text, *(str(parent) for parent in Path(text).parents)))
    doomed: List[Path] = []
    for base, folders, files in os.walk(order.path):
        for name in sorted([*folders, *files]):
            path = Path(base, name)
            relative = str(path.relative_to(order.path))
            if order.options.exclude_pat and not chosen_by(
                relative, None, order.options.exclude_pat
            ):
                saved.update(str(parent) for parent in (path, *path.parents))
            elif str(path) not in saved:
                doomed.append(path)
    return [path for path in doomed if str(path) not in saved]


def remove_all(doomed: Sequence[Path]) -> List[str]:
    """Remove the paths of `doomed_by`; return them, without members of removed folders."""
    removed = []
    for path in doomed:
        if os.path.lexists(path):
            remove_path(path)
            removed.append(str(path))
    return removed


def _wanted_changes(context: Context, order: Folder) -> Tuple[Changes, List[Path]]:
    """Return the differing attributes by path, and the paths that `clean` removes."""
    if not order.path.is_dir():
        return {str(order.path): {"directory": "new"}}, []
    changes: Changes = {}
    for path, wanted in _members(order):
        found = attributes.differences(path, wanted, follow=_followed(order, path))
        if found:
            changes[str(path)] = found
    if not truth(order.options.children_only):
        found = attributes.differences(order.path, order.top, follow=order.follow)
        if found:
            changes[str(order.path)] = found
    doomed = doomed_by(context, order)
    for path in doomed:
        changes[str(path)] = {"removed": "Removed due to clean"}
    return changes, doomed


def _moved_away(order: Folder, backupname: str) -> Tuple[Optional[StateResult], Changes]:
    """Rename the file or link in the place of the folder."""
    path, forced = order.path, truth(order.options.force)
    backup = Path(backupname)
    backup = backup if backup.is_absolute() else path.parent / backup
    changes: Changes = {}
    if os.path.lexists(backup):
        if not forced:
            return failed(f"File exists where the backup target {backup} should go"), {}
        if order.test:
            changes["forced"] = f"Existing file at backup path {backup} would be removed"
        else:
            remove_path(backup)
    if not order.test:
        path.rename(backup)
        return None, {"backup": f"{path} renamed to {backup}"}
    changes["backup"] = f"{path} would be renamed to {backup}"
    changes[str(path)] = {"directory": "new"}
    return would(f"{path} would be backed up and replaced with a new directory", changes), {}


def _clear_way(order: Folder) -> Tuple[Optional[StateResult], Changes]:
    """Back up, remove or refuse a file or link in the place of the folder."""
    path, options = order.path, order.options
    link = path.is_symlink() and not (truth(options.allow_symlink) and path.is_dir())
    if not link and (path.is_dir() or not os.path.lexists(path)):
        return None, {}
    kind = "file" if path.is_file() else "symlink"
    if options.backupname:
        return _moved_away(order, options.backupname)
    if not truth(options.force):
        return failed(f"Specified location {path} exists and is a {kind}"), {}
    label = kind.capitalize()
    if order.test:
        return None, {"forced": f"{label} would be forcibly replaced"}
    remove_path(path)
    return None, {"forced": f"{label} was forcibly replaced"}


def _told(changes: Changes) -> str:
    lines = ["The following files will be changed:"]
    for path, found in changes.items():
        if isinstance(found, dict):
            lines.extend(f"{path}: {key} - {value}" for key, value in found.items())
    return "\n".join(lines) + "\n"


def _apply(order: Folder) -> Changes:
    """Set the attributes; return the last value of each changed one, as Salt reports them."""
    last: Changes = {}
    if not truth(order.options.children_only):
        last.update(attributes.apply(order.path, order.top, follow=order.follow))
    for member, wanted in _members(order):
        last.update(attributes.apply(member, wanted, follow=_followed(order, member)))
    return last


def _act(order: Folder, changes: Changes, doomed: List[Path]) -> StateResult:
    path, name = order.path, str(order.path)
    new = not path.is_dir()
    if new:
        if not path.parent.is_dir() and not truth(order.options.makedirs):
            return failed(f"No directory to create {name} in", changes)
        make_folders(path, order.top)
    last = _apply(order)
    if "silent" in order.recurse:
        changes = {"recursion": "Changes silenced"}
    changes.update(last)
    removed = remove_all(doomed)
    if removed:
        return done(f"Files cleaned from directory {name}", {**changes, "removed": removed})
    if new:
        return done("", changes)
    below = "/*" if truth(order.options.children_only) else ""
    return done(f"Directory {name}{below} updated", changes)


def manage_folder(context: Context, order: Folder) -> StateResult:
    """Bring one folder into the state that *order* describes."""
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


@state(wants=(REQUIRED,))
def directory(context: Context, /, name: str, **options: Any) -> StateResult:
    """Create the folder *name* with an owner and mode, and manage its contents.

    Args:
        context: the call's context.
        name: absolute path.
        options: user, group, mode or dir_mode, file_mode, recurse (list of user, group, mode,
            ignore_files, ignore_dirs, silent), max_depth, makedirs, clean (remove what no
            required state manages), exclude_pat, force, backupname, children_only, … as in Salt.
    """
    required = options.pop(REQUIRED, ())
    chosen, rest = split(FolderOptions, options)
    warnings = likely_typos(FolderOptions, rest, "file.directory")
    try:
        order = folder_order(context, name, chosen, required)
        keep(context, order.path)
        problem = "" if context.test else attributes.missing_account(order.top)
        if problem:
            return failed(problem)
        result = manage_folder(context, order)
    except (CommandExecutionError, UsageError) as refusal:
        return failed(str(refusal))
    except OSError as refusal:
        return failed(f"{refusal.filename or name}: {refusal.strerror}")
    return replace(result, warnings=warnings)
