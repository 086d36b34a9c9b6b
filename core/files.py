"""Files that survive a power cut, and folders that only their owner enters.

The order tmp, fsync, rename, fsync(folder) is the one of the writers tried in `reliability.md`
that leaves no torn, empty or old content behind in any legal disk state after a cut.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator, List, Mapping, Sequence, Union

from catena.core import failpoints
from catena.core.errors import CatenaError, LimitError

AnyPath = Union[str, "os.PathLike[str]"]

#: Files that are written side by side, and threads that wait for the disk.
_OPEN_FILES = 256
_SYNCING = 8
#: What is asked for at once of a file that says that it is smaller.
_READ_BYTES = 4096


class UnsafeFolderError(CatenaError):
    """A private folder belongs to somebody else or is open to others."""


def no_room(error: BaseException) -> bool:
    """Return whether *error* says that the disk is full: what failed may work later."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def sync_folder(folder: AnyPath) -> None:
    """Make renames and unlinks in *folder* durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(path: AnyPath) -> None:
    """Make the content of a file durable, whoever wrote it; its name is the folder's affair."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_all(handle: int, data: Union[bytes, memoryview]) -> None:
    """Write all of *data* to a file descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def append(handle: int, data: bytes) -> None:
    """Write all of *data* to a file that is being made or added to."""
    failpoints.hit("file.write")
    write_all(handle, data)


def write_whole(path: AnyPath, data: bytes, mode: int = 0o600) -> None:
    """Replace *path* by *data*: it is wholly old or wholly new, as long as the power stays.

    Raises:
        OSError: nothing was replaced.
    """
    target = Path(path)
    temporary = _beside(target)
    try:
        os.close(_written(temporary, data, mode))
        _renamed(temporary, target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def write_durable(path: AnyPath, data: bytes, mode: int = 0o600) -> None:
    """Replace *path* by *data* so that after a cut it is wholly old or wholly new.

    When this returns, it is new for good. The file is made with *mode* from the first moment.

    Raises:
        OSError: nothing was replaced (disk full, no permission).
    """
    target = Path(path)
    temporary = _beside(target)
    try:
        handle = _written(temporary, data, mode)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        _renamed(temporary, target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def write_many_durable(folder: AnyPath, files: Mapping[str, bytes], mode: int = 0o600) -> None:
    """Replace files of *folder* (name -> data), each as `write_durable` does, in less time.

    The disk's journal takes what several threads sync at the same moment in one go, and the
    folder is synced once.

    Raises:
        OSError: some were replaced, the others not.
    """
    names = list(files)
    for start in range(0, len(names), _OPEN_FILES):
        _write_some(Path(folder), {n: files[n] for n in names[start : start + _OPEN_FILES]}, mode)
    sync_folder(folder)


def _write_some(folder: Path, files: Mapping[str, bytes], mode: int) -> None:
    temporary = {name: _beside(folder / name) for name in files}
    handles: List[int] = []
    try:
        try:
            for name, data in files.items():
                handles.append(_written(temporary[name], data, mode))
            _sync(handles)
        finally:
            for handle in handles:
                os.close(handle)
        for name, path in temporary.items():
            _renamed(path, folder / name)
    except OSError:
        for path in temporary.values():
            path.unlink(missing_ok=True)
        raise


def _sync(handles: Sequence[int]) -> None:
    if len(handles) < _SYNCING:
        for handle in handles:
            os.fsync(handle)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_SYNCING) as pool:
        for _ in pool.map(os.fsync, handles):
            pass


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.new")


def left_beside(target: Path) -> List[Path]:
    """Return what processes that were killed amid a write of *target* left in its folder."""
    if not target.parent.is_dir():
        return []
    beside = (path for path in target.parent.iterdir() if path.suffix == ".new")
    return [path for path in beside if path.name.startswith(f".{target.name}.")]


def _written(temporary: Path, data: bytes, mode: int) -> int:
    """Return the open file *temporary* with *data* in it, not synced."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, mode)
    try:
        os.fchmod(handle, mode)
        append(handle, data)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _renamed(temporary: Path, target: Path) -> None:
    failpoints.hit("file.rename")
    temporary.rename(target)
    failpoints.hit("file.renamed")


def rename_durable(source: AnyPath, target: AnyPath) -> None:
    """Rename within one file system, durably."""
    Path(source).rename(target)
    sync_folder(Path(target).parent)
    if Path(source).parent != Path(target).parent:
        sync_folder(Path(source).parent)


def unlink_durable(path: AnyPath) -> None:
    """Remove *path* if it is there, durably."""
    Path(path).unlink(missing_ok=True)
    sync_folder(Path(path).parent)


def read_limited(path: AnyPath, limit: int) -> bytes:
    """Return the bytes of a regular file of at most *limit* bytes.

    Raises:
        LimitError: the file is larger, or is not a regular file (a pipe would block).
        OSError: it can't be read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise LimitError(f"{os.fspath(path)}: not a regular file")
        # Room for what it holds, not for what it might: a buffer of the limit costs more than
        # the reading. Files of /proc say that they are empty.
        data = _read(handle, limit + 1, min(limit, max(found.st_size, _READ_BYTES)) + 1)
    except BlockingIOError:
        # Some files of /proc look regular and would block.
        raise LimitError(f"{os.fspath(path)}: nothing to read") from None
    finally:
        os.close(handle)
    if len(data) > limit:
        raise LimitError(f"{os.fspath(path)}: larger than {limit} bytes")
    return data


def _read(handle: int, limit: int, piece: int) -> bytes:
    """Return at most *limit* bytes, read in pieces until there are no more."""
    data = os.read(handle, min(limit, piece))
    if not data:
        return data
    pieces, size = [data], len(data)
    while size < limit:
        data = os.read(handle, min(limit - size, piece))
        if not data:
            break
        pieces.append(data)
        size += len(data)
    return b"".join(pieces)


def size_of(path: AnyPath) -> int:
    """Return the size of a file in bytes; 0 where there is none."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def tail_of(path: AnyPath, size: int) -> str:
    """Return the last *size* bytes of a text file, without the space around; "" without one."""
    try:
        with Path(path).open("rb") as stream:
            stream.seek(max(0, size_of(path) - size))
            return stream.read(size).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def private_folder(path: AnyPath) -> Path:
    """Return *path* as a folder of mode 0700 that this user owns, made (durably) if missing.

    Raises:
        UnsafeFolderError: it exists and is a link, another user's, or writable by others.
    """
    folder = Path(path)
    if not folder.exists():
        # Others may pass through: a packaged parent (/var/lib/catena) is not private either.
        durable_folder(folder.parent, 0o755)
        durable_folder(folder)
    elif folder.is_dir():
        _sync_name_if_empty(folder)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise UnsafeFolderError(f"{folder}: not a folder of this user")
    if found.st_mode & 0o022:
        raise UnsafeFolderError(
            f"{folder}: others may write to it (mode {found.st_mode & 0o777:o})"
        )
    return folder


def durable_folder(path: AnyPath, mode: int = 0o700) -> Path:
    """Return *path* as a folder that survives a power failure; made with *mode* if missing.

    Each folder that had to be made is synced into the one above it. The umask has no effect.
    """
    folder = Path(path)
    missing = []
    for each in (folder, *folder.parents):
        if each.is_dir():
            _sync_name_if_empty(each)
            break
        missing.append(each)
    for each in reversed(missing):
        each.mkdir(mode=mode, exist_ok=True)
        each.chmod(mode)
        sync_folder(each.parent)
    return folder


def _sync_name_if_empty(folder: Path) -> None:
    """Sync the name of an existing folder that holds nothing.

    The process that created it may have been killed before it synced the parent folder. A folder
    with content needs no sync: callers add content only after `durable_folder` has returned.
    """
    # A process that may not read the parent folder could not have created the folder durably.
    with suppress(PermissionError):
        with os.scandir(folder) as entries:
            is_empty = next(entries, None) is None
        if is_empty:
            sync_folder(folder.parent)


@contextmanager
def alone(path: AnyPath) -> Iterator[None]:
    """Let nobody else who asks for *path*, a lock file, in until the block ends.

    For files that several jobs read, change and write: of two at once one change would be lost.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
