"""Files that survive a power failure, and private folders.

A file is written in the order tmp, fsync, rename, fsync(folder). Of the orders compared in
`reliability.md`, this one leaves no torn, empty or old content in any legal state of the disk.
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

#: Maximum number of files written together, and of threads that sync them.
_OPEN_FILES = 256
_SYNCING = 8
#: Minimum size of the first read; files of /proc report a size of 0.
_READ_BYTES = 4096
#: Names of a process's own streams, which may be pipes that somebody reads.
_STREAMS = frozenset({"/dev/stdout", "/dev/stderr"})
_NO_LOG = "{} is a pipe, a socket or a block device; set a file, a device such as /dev/null, or -"


class SpecialFileError(CatenaError):
    """A path that must be a regular file is a pipe, a socket or a device."""


class UnsafeFolderError(CatenaError):
    """A private folder belongs to another user or is accessible to others."""


def no_room(error: BaseException) -> bool:
    """Return whether *error* means that the disk is full, so that a retry may succeed later."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def sync_folder(folder: AnyPath) -> None:
    """Make renames and unlinks in *folder* durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(path: AnyPath) -> None:
    """Make a file's content durable; its name needs `sync_folder`."""
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
    """Write all of *data* to a file that is being created or extended."""
    failpoints.hit("file.write")
    write_all(handle, data)


def write_whole(path: AnyPath, data: bytes, mode: int = 0o600) -> None:
    """Replace *path* by *data* atomically, but not durably: a power failure may tear it.

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
    """Replace *path* by *data* so that even after a power failure it is either old or new.

    The new content is durable when this returns. The file has *mode* from the beginning.

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
    except OSError as error:
        temporary.unlink(missing_ok=True)
        _name_only(error, target)
        raise
    sync_folder(target.parent)


def write_many_durable(folder: AnyPath, files: Mapping[str, bytes], mode: int = 0o600) -> None:
    """Replace files of *folder* (name -> data) like `write_durable`, in less time.

    Several threads sync at the same time, which the disk's journal combines; the folder is synced
    once.

    Raises:
        OSError: some files were replaced, others not.
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
    """Return the temporary files that killed processes left beside *target*."""
    if not target.parent.is_dir():
        return []
    beside = (path for path in target.parent.iterdir() if path.suffix == ".new")
    return [path for path in beside if path.name.startswith(f".{target.name}.")]


def _name_only(error: OSError, target: Path) -> None:
    """Let *error* name the target instead of the temporary file."""
    if error.filename is not None:
        error.filename = os.fspath(target)
        if error.filename2 is not None:
            del error.filename2  # None would be part of the message


def _written(temporary: Path, data: bytes, mode: int) -> int:
    """Return the open file *temporary* after writing *data*, not synced."""
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
    """Remove *path* durably, if it exists."""
    Path(path).unlink(missing_ok=True)
    sync_folder(Path(path).parent)


def read_limited(path: AnyPath, limit: int) -> bytes:
    """Return the bytes of a regular file of at most *limit* bytes.

    Raises:
        LimitError: the file is larger, or is not a regular file (a pipe would block).
        OSError: it cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise LimitError(f"{os.fspath(path)}: not a regular file")
        # The buffer fits the file's size, because one of *limit* bytes costs more than the read.
        # Files of /proc report a size of 0.
        data = _read(handle, limit + 1, min(limit, max(found.st_size, _READ_BYTES)) + 1)
    except BlockingIOError:
        # Some files of /proc look regular but would block.
        raise LimitError(f"{os.fspath(path)}: nothing to read") from None
    finally:
        os.close(handle)
    if len(data) > limit:
        raise LimitError(f"{os.fspath(path)}: larger than {limit} bytes")
    return data


def _read(handle: int, limit: int, piece: int) -> bytes:
    """Read in pieces until the end; return at most *limit* bytes."""
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


def is_misplaced(path: AnyPath) -> bool:
    """Return whether *path* exists and is no regular file but a folder, link, pipe or device."""
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def open_log(path: AnyPath) -> int:
    """Return a descriptor that appends to the log file *path*.

    A missing file is created with mode 0600. A named pipe is refused: opening it would wait for a
    reader, and writing to it would wait while it is full.

    Raises:
        SpecialFileError: it is a named pipe, a socket or a block device.
        OSError: it cannot be opened.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe without a reader, or a socket
            raise SpecialFileError(_NO_LOG.format(path)) from None
        raise
    mode = os.fstat(handle).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode) or str(path) in _STREAMS):
        os.close(handle)
        raise SpecialFileError(_NO_LOG.format(path))
    os.set_blocking(handle, True)
    return handle


def size_of(path: AnyPath) -> int:
    """Return the size of a file in bytes; 0 if it does not exist."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def tail_of(path: AnyPath, size: int) -> str:
    """Return the last *size* bytes of a text file, stripped; "" if it does not exist."""
    try:
        with Path(path).open("rb") as stream:
            stream.seek(max(0, size_of(path) - size))
            return stream.read(size).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def private_folder(path: AnyPath) -> Path:
    """Return *path* as a folder of mode 0700 owned by this user; create it durably if missing.

    Raises:
        UnsafeFolderError: it exists and is a link, another user's, or writable by others.
    """
    folder = Path(path)
    if not folder.exists():
        # Others may pass through the parent: a packaged one (/var/lib/catena) is not private.
        durable_folder(folder.parent, 0o755)
        durable_folder(folder)
    elif folder.is_dir():
        _sync_name_if_empty(folder)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise UnsafeFolderError(f"{folder}: not a folder owned by this user")
    if found.st_mode & 0o022:
        raise UnsafeFolderError(
            f"{folder}: others may write to it (mode {found.st_mode & 0o777:o})"
        )
    return folder


def key_folder(path: AnyPath) -> Path:
    """Return *path*, a daemon's `pki_dir`, as a private folder; create it durably if missing.

    A missing parent named `pki` contains only folders of keys, so it gets mode 0700, as the units
    of packaging/systemd create it.

    Raises:
        UnsafeFolderError: as `private_folder`.
    """
    parent = Path(path).parent
    if parent.name == "pki" and not parent.exists():
        durable_folder(parent.parent, 0o755)
        durable_folder(parent)
    return private_folder(path)


def durable_folder(path: AnyPath, mode: int = 0o700) -> Path:
    """Return *path* as a folder that survives a power failure; create it with *mode* if missing.

    Each created folder is synced into its parent. The umask has no effect.
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
    """Sync the name of an existing empty folder.

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
    """Hold the lock file *path* exclusively until the block ends.

    For files that several jobs read, change and write: without a lock, changes would be lost.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
