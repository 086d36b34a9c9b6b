"""Durable removal of a path; it does not follow links or enter mounted file systems."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import stat
from pathlib import Path
from typing import List

from catena.core.errors import CatenaError
from catena.core.files import AnyPath, sync_folder

_MOUNTS = "/proc/self/mountinfo"
#: Column of the mount point in /proc/self/mountinfo.
_MOUNT_POINT = 4


class CannotRemoveError(CatenaError):
    """A path cannot be removed; the message gives the reason and the remedy."""


def remove_entry(path: AnyPath) -> None:
    """Remove the file, link, pipe, socket, device or folder at *path*, if it exists.

    A link is removed, never its target.

    Raises:
        CannotRemoveError: it is immutable, its file system is read-only, or something is mounted
            there.
    """
    target = Path(path)
    try:
        kind = target.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise refusal("remove", target, error) from error
    try:
        _refuse_mounts(target)
        if stat.S_ISDIR(kind):
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        sync_folder(target.parent)
    except OSError as error:
        raise refusal("remove", target, error) from error


def refusal(verb: str, path: Path, error: OSError) -> CannotRemoveError:
    """Return the error for a failed removal or renaming, with the command that makes it succeed.

    Args:
        verb: what failed, "remove" or "move".
        path: the entry.
        error: why it failed.
    """
    # `rmtree` names the entry inside a folder, if Python knows its whole path.
    inside = str(error.filename or "").startswith(f"{path}/")
    where = f"{error.filename}: " if inside else ""
    why = error.strerror or error
    return CannotRemoveError(f"can't {verb} {path}: {where}{why}; {_cure(path, error.errno)}")


def _refuse_mounts(path: Path) -> None:
    place = _real(path)
    # The last mount comes first: it may hide others, or lie inside of them.
    for point in reversed(_mount_points()):
        if point == place or point.startswith(f"{place}/"):
            raise CannotRemoveError(
                f"can't remove {path}: a file system is mounted at {point}; "
                f"first: umount {shlex.quote(point)}"
            )


def _mount_points() -> List[str]:
    """Return the mount points of this host; [] if they are unknown."""
    try:
        lines = Path(_MOUNTS).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    columns = (line.split() for line in lines)
    # The kernel escapes spaces and similar characters, as \040.
    points = (c[_MOUNT_POINT] for c in columns if len(c) > _MOUNT_POINT)
    return [point.decode("unicode_escape").encode("latin-1").decode(errors="surrogateescape")
            for point in points]  # fmt: skip


def _real(path: Path) -> str:
    """Return *path* as the kernel lists mount points: no part of its folder is a link."""
    return str(path.parent.resolve() / path.name)


def _cure(path: Path, number: object) -> str:
    place, folder = shlex.quote(str(path)), shlex.quote(str(path.parent))
    if number == errno.EROFS:
        return f"first: mount -o remount,rw {shlex.quote(_mount_point_of(path))}"
    if number == errno.EPERM:
        return f"is it immutable or append-only? first: {_unlock(path)}"
    if number == errno.EACCES:
        return f"let uid {os.geteuid()} write to {folder}"
    return f"look at {place}, then ask again"


def _unlock(path: Path) -> str:
    """Return the command that removes the attributes i and a from *path* and its folder."""
    commands = []
    # Links and pipes have no attributes; chattr would fail on them.
    if not path.is_symlink() and (path.is_dir() or path.is_file()):
        commands.append(f"chattr -R -ia {shlex.quote(str(path))}")
    commands.append(f"chattr -ia {shlex.quote(str(path.parent))}")
    return "; ".join(commands)


def _mount_point_of(path: Path) -> str:
    """Return the mount point of the file system of *path*."""
    above = {str(folder) for folder in Path(_real(path)).parents}
    return max((point for point in _mount_points() if point in above), key=len, default="/")
