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
        raise _refused(target, error) from error
    try:
        if stat.S_ISDIR(kind):
            _refuse_mounts(target)
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        sync_folder(target.parent)
    except OSError as error:
        raise _refused(target, error) from error


def _refuse_mounts(folder: Path) -> None:
    inside = f"{folder}/"
    for point in _mount_points():
        if point == str(folder) or point.startswith(inside):
            raise CannotRemoveError(
                f"can't remove {folder}: a file system is mounted at {point}; "
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


def _refused(path: Path, error: OSError) -> CannotRemoveError:
    return CannotRemoveError(
        f"can't remove {path}: {error.strerror or error}; {_cure(path, error.errno)}"
    )


def _cure(path: Path, number: object) -> str:
    place, folder = shlex.quote(str(path)), shlex.quote(str(path.parent))
    if number == errno.EROFS:
        return f"first: mount -o remount,rw {shlex.quote(_mount_point_of(path))}"
    if number == errno.EPERM:
        return f"is it immutable? First: chattr -i {place} {folder}"
    if number == errno.EACCES:
        return f"let uid {os.geteuid()} write to {folder}"
    return f"look at {place}, then ask again"


def _mount_point_of(path: Path) -> str:
    """Return the mount point of the file system of *path*."""
    above = {str(folder) for folder in path.parents}
    return max((point for point in _mount_points() if point in above), key=len, default="/")
