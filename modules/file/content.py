"""File contents: compare in memory, write atomically, back up on request."""

from __future__ import annotations

import difflib
import errno
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import Callable, List, Optional, Tuple, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.files import sync_folder, write_all

#: Maximum bytes for a diff, because difflib needs more than linear time. Longer texts are compared
#: as bytes, and the change is reported without a diff.
DIFF_LIMIT = 2 * 1024 * 1024
#: Values of `backup` that store the copy in the agent's cache.
CACHED_BACKUPS = ("minion", "both", True)
_SAMPLE = 8192
_TEXT = bytes(range(32, 127)) + b"\n\r\t\b"
#: Maximum share of non-ASCII bytes in a text that is not UTF-8; with more, it is binary.
_ODD_SHARE = 0.3


def is_binary(data: bytes, size: int = 0) -> bool:
    """Return whether *data*, the beginning of a file of *size* bytes, is binary.

    Binary data contains a NUL byte, or its beginning is not UTF-8 and contains too many non-ASCII
    bytes for an older text encoding.
    """
    sample = data[:_SAMPLE]
    if b"\0" in sample:
        return True
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as problem:
        cut = max(len(data), size) > _SAMPLE and problem.start >= len(sample) - 4
        return not cut and len(sample.translate(None, _TEXT)) > _ODD_SHARE * len(sample)
    return False


def decode(data: bytes, encoding: str = "utf-8") -> str:
    """Return *data* as text that `encode` converts back to the same bytes."""
    return data.decode(encoding, errors="surrogateescape")


def encode(text: str, encoding: str = "utf-8") -> bytes:
    """Return the bytes of *text*."""
    return text.encode(encoding, errors="surrogateescape")


def _lines(data: bytes) -> List[str]:
    """Return the lines of *data* for display, decoded as UTF-8 or else as Latin-1."""
    shown = []
    for line in data.splitlines(True):
        try:
            shown.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            shown.append(line.decode("latin-1"))
    return shown


def diff(old: Union[str, bytes], new: Union[str, bytes]) -> str:
    """Return a unified diff of two contents, or a sentence if no diff can be shown."""
    before = old.encode("utf-8", "surrogateescape") if isinstance(old, str) else old
    after = new.encode("utf-8", "surrogateescape") if isinstance(new, str) else new
    told = _told((before, len(before)), (after, len(after)))
    return told or "".join(difflib.unified_diff(_lines(before), _lines(after)))


def diff_of_large(old: int, new: int) -> str:
    """Return the result of `diff` for two open files with more than DIFF_LIMIT bytes in total."""
    before, after = ((os.pread(one, _SAMPLE, 0), os.fstat(one).st_size) for one in (old, new))
    return _told(before, after)


def _told(before: Tuple[bytes, int], after: Tuple[bytes, int]) -> str:
    """Return the sentence for two contents (beginning, size) without a diff; else ""."""
    binary = is_binary(*before), is_binary(*after)
    if binary == (True, True):
        return "Replace binary file"
    if binary == (True, False):
        return "Replace binary file with text file"
    if binary == (False, True):
        return "Replace text file with binary file"
    if before[1] + after[1] > DIFF_LIMIT:
        return f"{before[1]} bytes became {after[1]} bytes (too long for a diff)"
    return ""


def read(path: Path) -> bytes:
    """Return the bytes of a file.

    Raises:
        CommandExecutionError: it can't be read.
    """
    try:
        return path.read_bytes()
    except OSError as problem:
        raise CommandExecutionError(f"{path}: {problem.strerror}") from problem


def _take_over(handle: int, target: Path) -> None:
    """Copy owner, mode and extended attributes of the old file to the new one."""
    try:
        found = target.stat()
    except FileNotFoundError:
        return
    if hasattr(os, "listxattr"):
        try:
            for name in os.listxattr(target):
                os.setxattr(handle, name, os.getxattr(target, name))
        except OSError:
            pass  # the file system has no such attributes, or only the kernel may set them
    if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(handle, found.st_uid, found.st_gid)
    os.fchmod(handle, stat.S_IMODE(found.st_mode))


def write(path: Path, data: bytes, mode: Optional[str] = None) -> None:
    """Replace the file *path* by *data*, atomically and durably; follow a link.

    An existing file keeps its owner, mode and attributes. A new file is created with *mode* from
    the start, so that it is never readable by others in between; without *mode*, by the umask.

    Raises:
        CommandExecutionError: the file can't be written; nothing was replaced.
    """
    write_by(path, lambda handle: write_all(handle, data), mode)


def write_by(path: Path, fill: Callable[[int], None], mode: Optional[str] = None) -> None:
    """Replace the file *path* as `write` does, with the data that *fill* writes to a new file.

    Raises:
        CommandExecutionError: the file can't be written; nothing was replaced. Exceptions of
            *fill* are passed on, and nothing was replaced.
    """
    target = path.resolve() if path.is_symlink() else path
    new = not target.exists()
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:64]}.", dir=target.parent)
    except OSError as problem:
        raise CommandExecutionError(f"{path}: {problem.strerror}") from problem
    try:
        try:
            fill(handle)
            if new:
                os.fchmod(handle, int(mode or _new_mode(), 8))
            else:
                _take_over(handle, target)
            os.fsync(handle)
        finally:
            os.close(handle)
        _swap(Path(name), target)
        sync_folder(target.parent)
    except BaseException as problem:
        Path(name).unlink(missing_ok=True)
        if isinstance(problem, OSError):
            raise CommandExecutionError(f"{path}: {problem.strerror}") from problem
        raise


def _new_mode() -> str:
    from catena.modules.shared.attributes import default_mode

    return default_mode()


def _swap(temporary: Path, target: Path) -> None:
    """Rename the new file to *target*; overwrite a mount point (/etc/hosts) in place."""
    try:
        temporary.rename(target)
    except OSError as problem:
        if problem.errno != errno.EBUSY:
            raise
        with temporary.open("rb") as new, target.open("r+b") as stream:
            shutil.copyfileobj(new, stream)
            stream.truncate()
            stream.flush()
            os.fsync(stream.fileno())
        temporary.unlink()


def keep_copy(path: Path, suffix: str) -> Path:
    """Copy *path* (or a link's target) to the same folder with *suffix*; return the copy.

    Raises:
        CommandExecutionError: the file can't be copied.
    """
    path = path.resolve()
    target = path.with_name(path.name + suffix)
    try:
        shutil.copy2(path, target)
        found = path.stat()
        if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(target, found.st_uid, found.st_gid)
    except OSError as problem:
        raise CommandExecutionError(f"{target}: {problem.strerror}") from problem
    return target


def backup(context: Context, path: Path, kind: object) -> Optional[Path]:
    """Back up *path* as the `backup` argument says, and return the copy.

    Args:
        context: the call's context.
        path: file that is about to change.
        kind: "minion" stores the copy in the agent's cache (see file.list_backups), a suffix
            such as ".bak" beside the file; a false value makes none.

    Raises:
        CommandExecutionError: the file can't be copied.
    """
    if not kind or not path.is_file():
        return None
    if kind in CACHED_BACKUPS:
        stamp = time.strftime("%a_%b_%d_%H:%M:%S_") + f"{time.time_ns() // 1000 % 1_000_000:06d}"
        stamp += time.strftime("_%Y")
        folder = context.host.cache_dir / "file_backup" / str(path.parent).lstrip("/")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            target = folder / f"{path.name}_{stamp}"
            shutil.copy2(path, target)
            target.chmod(0o600)
        except OSError as problem:
            raise CommandExecutionError(f"{folder}: {problem.strerror}") from problem
        return target
    if kind == "master":
        return None
    return keep_copy(path, str(kind))
