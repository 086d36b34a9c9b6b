"""Files in folders that a user owns, read and replaced by root without following the user's links.

A user who owns a folder can replace any name in it by a symbolic link, at any time. Therefore this
module walks a path by file descriptors. It follows a link only if nobody but root and the calling
user can have made it.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

from catena.core.errors import CommandExecutionError
from catena.core.files import write_all
from catena.core.frozen import dataclass

#: Maximum bytes of a file that is read.
FILE_BYTES = 4 * 1024 * 1024
#: Maximum number of links in a path, as in Linux.
_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Owner:
    """The user to whom new files and folders belong."""

    uid: int
    gid: int


def _failed(path: Path, problem: OSError) -> CommandExecutionError:
    return CommandExecutionError(f"{path}: {problem.strerror or problem}")


def _is_trusted(folder: int) -> bool:
    """Return whether only root and the calling user can have made the links in a folder."""
    found = os.fstat(folder)
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    sticky = found.st_mode & stat.S_ISVTX
    return found.st_uid in (0, os.geteuid()) and bool(sticky or not others)


def _target(folder: int, name: str, path: Path) -> str:
    """Return the target of the link *name*.

    Raises:
        CommandExecutionError: another user may have made the link.
    """
    owner = os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid
    if owner not in (0, os.geteuid()) or not _is_trusted(folder):
        raise CommandExecutionError(
            f"{path}: {name!r} is a symbolic link that its folder's owner can change; "
            "it is not followed"
        )
    return os.readlink(name, dir_fd=folder)


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _made(folder: int, name: str, owner: Owner, path: Path) -> int:
    """Create a folder of mode 0700 that belongs to *owner*, and return it open."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
    handle = os.open(name, _FOLDER, dir_fd=folder)
    try:
        # The folder's owner can put another folder in the place of the new one.
        if os.fstat(handle).st_uid != os.geteuid() or any(os.scandir(handle)):
            raise CommandExecutionError(f"{path}: {name!r} was replaced while it was created")
        if os.geteuid() == 0:
            os.fchown(handle, owner.uid, owner.gid)
        os.fchmod(handle, 0o700)
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextmanager
def _folder_of(path: Path, make: Optional[Owner] = None) -> Iterator[Tuple[int, str]]:
    """Open the folder of *path*; yield its descriptor and the file's name in it.

    Args:
        path: absolute path of a file, which need not exist.
        make: create missing folders for this owner.

    Raises:
        CommandExecutionError: a link is not followed.
        OSError: a folder does not exist or is not accessible.
    """
    if not path.is_absolute():
        raise CommandExecutionError(f"{path}: the path is not absolute")
    handles: List[int] = [os.open("/", _FOLDER)]
    names = [part for part in reversed(path.parts[1:])]
    links = 0
    try:
        while names:
            name = names.pop()
            if name == "..":
                # `handles` holds one descriptor per folder below the root.
                if len(handles) > 1:
                    os.close(handles.pop())
            elif _is_link(handles[-1], name):
                links += 1
                if links > _LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                target = Path(_target(handles[-1], name, path))
                if target.is_absolute():
                    while len(handles) > 1:
                        os.close(handles.pop())
                names += [part for part in reversed(target.parts) if part != "/"]
            elif not names:
                yield handles[-1], name
                return
            else:
                handles.append(_entered(handles[-1], name, path, make))
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    finally:
        for handle in handles:
            os.close(handle)


def _entered(folder: int, name: str, path: Path, make: Optional[Owner]) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if make is None:
            raise
        return _made(folder, name, make, path)


def _opened(folder: int, name: str, path: Path) -> int:
    """Open a regular file for reading, and check its size.

    Raises:
        CommandExecutionError: it is no regular file, or is too large.
    """
    handle = os.open(
        name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
    )
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and found.st_size <= FILE_BYTES:
        return handle
    os.close(handle)
    reason = "too large" if stat.S_ISREG(found.st_mode) else "not a regular file"
    raise CommandExecutionError(f"{path}: {reason}")


def read(path: Path) -> Optional[bytes]:
    """Return the content of a user's file; None if it does not exist.

    Raises:
        CommandExecutionError: it can't be read, or is reached by a link that is not followed.
    """
    try:
        with _folder_of(path) as (folder, name):
            handle = _opened(folder, name, path)
            with os.fdopen(handle, "rb") as stream:
                return stream.read(FILE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise _failed(path, problem) from problem


def write(path: Path, data: bytes, owner: Owner, mode: int = 0o600) -> None:
    """Replace a user's file atomically and durably; create missing folders (0700).

    An existing file keeps its owner, mode and extended attributes.

    Args:
        path: absolute path.
        data: new content.
        owner: of a new file and of new folders.
        mode: of a new file.

    Raises:
        CommandExecutionError: it can't be written, or is reached by a link that is not followed.
    """
    try:
        with _folder_of(path, owner) as (folder, name):
            _replace(folder, name, path, data, owner, mode)
    except OSError as problem:
        raise _failed(path, problem) from problem


def _replace(folder: int, name: str, path: Path, data: bytes, owner: Owner, mode: int) -> None:
    temporary = f".{name[:64]}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        try:
            write_all(handle, data)
            _dress(handle, folder, name, path, owner, mode)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def _dress(handle: int, folder: int, name: str, path: Path, owner: Owner, mode: int) -> None:
    """Give the new file the attributes of the old one, or *owner* and *mode*."""
    try:
        old = _opened(folder, name, path)
    except FileNotFoundError:
        if os.geteuid() == 0:
            os.fchown(handle, owner.uid, owner.gid)
        os.fchmod(handle, mode)
        return
    try:
        found = os.fstat(old)
        with suppress(OSError):  # the file system may have no such attributes
            for attribute in os.listxattr(old):
                os.setxattr(handle, attribute, os.getxattr(old, attribute))
        if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(handle, found.st_uid, found.st_gid)
        os.fchmod(handle, stat.S_IMODE(found.st_mode))
    finally:
        os.close(old)
