"""file.* functions that create, move and remove files and folders and set attributes."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any, List, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import function
from catena.modules.file import content
from catena.modules.file.inspect import existing, expand, list_backups
from catena.modules.shared import attributes
from catena.modules.shared.attributes import Wanted

#: Folders that no state may remove, as a protection against templates with an empty variable.
PROTECTED = frozenset(
    "/ /bin /boot /dev /etc /home /lib /lib64 /opt /proc /root /run /sbin /srv /sys /usr "
    "/usr/bin /usr/lib /usr/sbin /usr/share /var /var/lib".split()
)


_DAY = 86400


def _failed(path: object, problem: OSError) -> CommandExecutionError:
    return CommandExecutionError(f"{path}: {problem.strerror or problem}")


def make_folders(path: Path, wanted: Wanted) -> List[Path]:
    """Create *path* and its missing parents with the wanted attributes; return the new ones.

    Raises:
        CommandExecutionError: a folder can't be created.
    """
    missing: List[Path] = []
    folder = path
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for folder in reversed(missing):
        try:
            folder.mkdir()
        except OSError as problem:
            raise _failed(folder, problem) from problem
        attributes.apply(folder, wanted)
    return list(reversed(missing))


def remove_path(path: Path) -> None:
    """Remove a file, link or whole folder.

    Raises:
        CommandExecutionError: the path is in PROTECTED, is relative, or can't be removed.
    """
    if not path.is_absolute():
        raise CommandExecutionError(f"File path must be absolute: {path}")
    if os.path.normpath(path) in PROTECTED:
        raise CommandExecutionError(f"Refusing to remove {path}")
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as problem:
        raise _failed(path, problem) from problem


@function(clean=True)
def mkdir(
    context: Context, dir_path: str, user: Any = None, group: Any = None, mode: Any = None
) -> bool:
    """Create a folder and its parents; return True."""
    path = expand(dir_path)
    if not path.is_dir():
        make_folders(path, Wanted(user, group, attributes.parse_mode(mode)))
    return True


@function(clean=True)
def makedirs(
    context: Context, path: str, user: Any = None, group: Any = None, mode: Any = None
) -> Optional[str]:
    """Create the parent folders of *path*; return a sentence if they exist."""
    text = str(path)
    folder = expand(text if text.endswith("/") else str(expand(text).parent))
    if folder.is_dir():
        return f"Directory '{folder}' already exists"
    make_folders(folder, Wanted(user, group, attributes.parse_mode(mode)))
    return None


@function(clean=True)
def makedirs_perms(
    context: Context, name: str, user: Any = None, group: Any = None, mode: Any = None
) -> None:
    """Create the folder *name* and its parents with owner, group and mode."""
    mkdir(context, name, user, group, mode)


@function(clean=True)
def touch(
    context: Context, name: str, atime: Optional[float] = None, mtime: Optional[float] = None
) -> bool:
    """Create an empty file, or set the times of an existing one; return True."""
    path = expand(name)
    try:
        path.touch()
        if atime is not None or mtime is not None:
            now = path.stat()
            os.utime(
                path,
                (
                    now.st_atime if atime is None else float(atime),
                    now.st_mtime if mtime is None else float(mtime),
                ),
            )
    except OSError as problem:
        raise _failed(name, problem) from problem
    return True


@function(clean=True)
def remove(context: Context, path: str) -> bool:
    """Remove a file, link or whole folder; return False if it does not exist."""
    found = expand(path)
    if found.is_absolute() and not os.path.lexists(found):
        return False
    remove_path(found)
    return True


@function()
def delete_backup(context: Context, path: str, backup_id: int) -> dict[str, Any]:
    """Remove a backup that `backup: minion` has stored."""
    kept = list_backups(context, path).get(int(backup_id))
    if kept is None:
        return {"result": False, "comment": f"backup_id '{backup_id}' does not exist for {path}"}
    Path(kept["Location"]).unlink()
    return {"result": True, "comment": f"Successfully removed {kept['Location']}"}


@function()
def restore_backup(context: Context, path: str, backup_id: int) -> dict[str, Any]:
    """Restore a backup of `backup: minion`, after a backup of the current file."""
    kept = list_backups(context, path).get(int(backup_id))
    if kept is None:
        return {"result": False, "comment": f"backup_id '{backup_id}' does not exist for {path}"}
    target = expand(path)
    data = content.read(Path(kept["Location"]))
    content.backup(context, target, "minion")
    content.write(target, data)
    return {
        "result": True,
        "comment": f"Successfully restored {kept['Location']} to {path}",
    }


@function(clean=True)
def symlink(
    context: Context, src: str, path: str, force: bool = False, atomic: bool = False
) -> bool:
    """Make *path* a symbolic link to *src*; *force* replaces an existing link or file."""
    link = expand(path)
    if not link.is_absolute():
        raise CommandExecutionError(f"Link path must be absolute: {path}")
    place_link(link, str(src), bool(force or atomic))
    return True


def place_link(link: Path, target: str, force: bool) -> None:
    """Make *link* point to *target*; *force* replaces another link or file atomically.

    Raises:
        CommandExecutionError: another file exists, or the link can't be created.
    """
    try:
        if not os.path.lexists(link):
            link.symlink_to(target)
            return
        if link.is_symlink() and os.readlink(link) == target:  # noqa: PTH115
            return
        if not force:
            raise CommandExecutionError(f"Found existing file or link: {link}")
        if link.is_dir() and not link.is_symlink():
            remove_path(link)
        temporary = link.with_name(f".{link.name[:64]}.{os.getpid()}.new")
        temporary.symlink_to(target)
        temporary.replace(link)
    except OSError as problem:
        raise _failed(link, problem) from problem


@function(clean=True)
def link(context: Context, src: str, path: str) -> bool:
    """Make *path* a hard link to the file *src*."""
    try:
        os.link(expand(src), expand(path))
    except OSError as problem:
        raise CommandExecutionError(f"Could not create '{path}': {problem.strerror}") from problem
    return True


@function(clean=True)
def rename(context: Context, src: str, dst: str) -> bool:
    """Move *src* to *dst*."""
    move(expand(src), expand(dst))
    return True


def move(source: Path, target: Path) -> None:
    """Move *source* to *target*, also between file systems.

    Raises:
        CommandExecutionError: *source* can't be moved.
    """
    if not (source.is_absolute() and target.is_absolute()):
        raise CommandExecutionError("File path must be absolute.")
    try:
        shutil.move(str(source), str(target))
    except OSError as problem:
        raise CommandExecutionError(
            f"Unable to move '{source}' to '{target}': {problem.strerror or problem}"
        ) from problem


@function(name="move")
def move_(context: Context, src: str, dst: str, disallow_copy_and_unlink: bool = False) -> Any:
    """Move *src* to *dst* (into it, when it is a folder); return {"result", "comment"}."""
    source, target = existing(src), expand(dst)
    if target.is_dir():
        target = target / source.name
    if disallow_copy_and_unlink:
        try:
            source.rename(target)
        except OSError as problem:
            raise _failed(src, problem) from problem
    else:
        move(source, target)
    return {"result": True, "comment": f"'{src}' moved to '{dst}'"}


@function()
def copy(
    context: Context, src: str, dst: str, recurse: bool = False, remove_existing: bool = False
) -> bool:
    """Copy a file (with *recurse*, a folder) with mode, owner and times; return True."""
    copy_path(existing(src), expand(dst), recurse, remove_existing)
    return True


def copy_path(source: Path, target: Path, recurse: bool, remove_existing: bool) -> None:
    """Copy *source* to *target*.

    Raises:
        CommandExecutionError: *source* is a folder without *recurse*, or can't be copied.
    """
    try:
        if source.is_dir():
            if not recurse:
                raise CommandExecutionError(f"{source} is a directory; set recurse to copy it")
            if remove_existing and target.exists():
                remove_path(target)
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
            return
        shutil.copy2(source, target)
    except (OSError, shutil.Error) as problem:
        raise CommandExecutionError(
            f"Could not copy '{source}' to '{target}': {problem}"
        ) from problem


@function()
def chown(context: Context, path: str, user: Any, group: Any) -> Optional[str]:
    """Set the owner and group of *path*; return None, or an error text."""
    return _owned(path, user, group, True)


@function()
def lchown(context: Context, path: str, user: Any, group: Any) -> Optional[str]:
    """Set the owner and group of *path* itself, not of a link's target."""
    return _owned(path, user, group, False)


def _owned(path: str, user: Any, group: Any, follow: bool) -> Optional[str]:
    found = expand(path)
    wanted = Wanted(user or None, group or None)
    problem = "" if os.path.lexists(found) else "File not found"
    for what, missing in (("User", Wanted(wanted.user)), ("Group", Wanted(group=wanted.group))):
        if attributes.missing_account(missing):
            problem += f"{what} does not exist\n"
    if problem:
        return problem
    attributes.apply(found, wanted, follow)
    return None


@function()
def chgrp(context: Context, path: str, group: Any) -> Optional[str]:
    """Set the group of *path*; return None, or an error text."""
    return _owned(path, None, group, True)


@function()
def set_mode(context: Context, path: str, mode: Any) -> str:
    """Set the permission bits of *path* and return them."""
    found = expand(path)
    if not found.exists():
        raise CommandExecutionError(f"{path}: File not found")
    attributes.apply(found, Wanted(mode=attributes.parse_mode(mode)))
    return attributes.mode_of(found)


@function()
def truncate(context: Context, path: str, length: int) -> None:
    """Truncate a file to *length* bytes."""
    try:
        os.truncate(existing(path), int(length))
    except OSError as problem:
        raise _failed(path, problem) from problem


def remove_empty(
    folder: Path, recurse: bool, older_than: Optional[float]
) -> Tuple[List[str], List[List[str]]]:
    """Remove an empty folder; with *recurse*, first remove empty folders below it.

    Returns:
        The removed folders, and [path, reason] of the others. A folder that was changed in the
        last *older_than* days is in neither.
    """
    gone: List[str] = []
    errors: List[List[str]] = []
    below = [place for place, _, _ in os.walk(folder, topdown=False)] if recurse else []
    limit = time.time() - float(older_than) * _DAY if older_than else None
    for place in [*below[:-1], str(folder)]:
        if limit is not None and Path(place).stat().st_mtime > limit:
            continue
        try:
            Path(place).rmdir()
            gone.append(place)
        except OSError as problem:
            errors.append([place, str(problem)])
    return gone, errors


@function()
def rmdir(
    context: Context,
    path: str,
    recurse: bool = False,
    verbose: bool = False,
    older_than: Optional[float] = None,
) -> Any:
    """Remove a folder if it is empty.

    Args:
        context: the call's context.
        path: the folder.
        recurse: first remove empty folders below it.
        verbose: return the removed folders and the errors.
        older_than: minimum age in days since the last change of a folder.

    Returns:
        Whether the folder is removed; with *verbose*, {"result", "deleted", "errors"}.
    """
    found = existing(path)
    if not found.is_dir():
        raise CommandExecutionError(f"A valid directory was not specified: {path}")
    gone, errors = remove_empty(found, recurse, older_than)
    done = not errors and (bool(gone) or recurse)
    if verbose:
        return {"result": done, "deleted": gone, "errors": errors}
    return done


@function()
def check_perms(
    context: Context, name: str, ret: Any = None, user: Any = None, group: Any = None,
    mode: Any = None,
) -> Tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """Set owner, group and mode of *name*; return (state result, old attributes)."""
    found = existing(name)
    status = found.stat()
    was = {
        "luser": attributes.user_name(status.st_uid),
        "lgroup": attributes.group_name(status.st_gid),
        "lmode": attributes.mode_of(found),
    }
    wanted = Wanted(user, group, attributes.parse_mode(mode))
    told = ret or {"name": name, "changes": {}, "comment": "", "result": True}
    if context.test:
        changes = attributes.differences(found, wanted)
        told["result"] = None if changes else told["result"]
    else:
        changes = attributes.apply(found, wanted)
    told["changes"] = {**told.get("changes", {}), **changes}
    return told, was


def lines_of(values: Any) -> List[str]:
    """Return the given lines of file.write and file.append as strings."""
    return [str(value) for value in (values if isinstance(values, (list, tuple)) else [values])]
