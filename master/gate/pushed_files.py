"""Files that minions push (cp.push): each into its own folder, within limits.

    <cache_dir>/minions/<minion>/files/<path>       a complete file
    <cache_dir>/minions/<minion>/incoming/<sha256>  a file that is being received

A minion chooses the path below its own folder and nothing else. Folders are opened one by one
without following symbolic links.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catena.core import ids
from catena.core.errors import LimitError, NotAllowedError, UsageError
from catena.transport.messages import FilePush, FileStored

#: Longest path and one name of it, in bytes, and the maximum number of folders.
PATH_BYTES, NAME_BYTES, DEPTH = 1024, 255, 32
#: Maximum number of files of one minion.
FILES = 10_000
#: Maximum number of files that one minion may be sending.
OPEN = 4
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(slots=True)
class _Upload:
    """A file that is being received."""

    path: tuple[str, ...]
    count: int
    index: int = 0
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)


def parts_of(path: str) -> tuple[str, ...]:
    """Return the names of a relative path.

    Raises:
        UsageError: it is absolute, leaves its folder, or is too long or deep.
    """
    names = tuple(path.split("/"))
    if len(path.encode("utf-8", "surrogatepass")) > PATH_BYTES or len(names) > DEPTH:
        raise UsageError("the path of a pushed file is too long")
    for name in names:
        if name in ("", ".", "..") or not name.isprintable():
            raise UsageError(f"{path[:80]!r} can't be the path of a pushed file")
        if len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES:
            raise UsageError("a name in the path of a pushed file is too long")
    return names


class PushedFiles:
    """Stores pushed files; called in threads.

    Args:
        folder: `minions` in the master's cache.
        accepts: the setting `file_recv`.
        file_bytes: maximum size of a file.
        total_bytes: maximum size of all files of one minion.
    """

    def __init__(self, folder: Path, accepts: bool, file_bytes: int, total_bytes: int) -> None:
        self._folder = folder
        self._accepts = accepts
        self._file_bytes = file_bytes
        self._total_bytes = total_bytes
        self._uploads: dict[tuple[str, str], _Upload] = {}
        self._lock = threading.Lock()

    def put(self, minion: str, part: FilePush) -> FileStored:
        """Store one piece; after the last one, the file.

        Raises:
            NotAllowedError: this master accepts no files.
            UsageError: path, hash or order of the pieces are wrong.
            LimitError: the file or the minion's folder grows too large.
        """
        if not self._accepts:
            raise NotAllowedError("this master accepts no files from minions: see file_recv")
        path = parts_of(part.path)
        if _DIGEST.match(part.sha256) is None or not 0 <= part.index < part.count:
            raise UsageError("a pushed file needs its SHA-256 and an index below the count")
        with self._lock:
            return self._put(ids.minion_id(minion), path, part)

    def _put(self, minion: str, path: tuple[str, ...], part: FilePush) -> FileStored:
        key = (minion, part.sha256)
        if part.index == 0:
            self._begin(key, _Upload(path, part.count))
        upload = self._uploads.get(key)
        if upload is None or (upload.path, upload.count) != (path, part.count):
            raise UsageError("send a pushed file from its first piece")
        if part.index < upload.index:
            # A piece that was resent after a broken connection.
            return FileStored(part.path, part.sha256, False)
        if part.index > upload.index:
            raise UsageError("send the pieces of a pushed file in order")
        if upload.size + len(part.data) > self._file_bytes:
            self._drop(key)
            raise LimitError(f"the file is larger than {self._file_bytes} bytes")
        self._append(key, upload, part.data)
        if upload.index < upload.count:
            return FileStored(part.path, part.sha256, False)
        self._finish(key, upload)
        return FileStored(part.path, part.sha256, True)

    def _begin(self, key: tuple[str, str], upload: _Upload) -> None:
        minion = key[0]
        mine = [other for other in self._uploads if other[0] == minion and other != key]
        # The oldest upload of a minion gives way: it was probably abandoned.
        for other in mine[: max(0, len(mine) - OPEN + 1)]:
            self._drop(other)
        self._uploads.pop(key, None)
        with self._folder_of(minion, ("incoming",)) as folder, suppress(FileNotFoundError):
            os.unlink(key[1], dir_fd=folder)  # relative to the open folder
        self._uploads[key] = upload

    def _append(self, key: tuple[str, str], upload: _Upload, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        with self._folder_of(key[0], ("incoming",)) as folder:
            handle = os.open(key[1], flags, 0o600, dir_fd=folder)
            with os.fdopen(handle, "wb") as target:
                target.write(data)
        upload.digest.update(data)
        upload.size += len(data)
        upload.index += 1

    def _finish(self, key: tuple[str, str], upload: _Upload) -> None:
        minion, sha256 = key
        if upload.digest.hexdigest() != sha256:
            self._drop(key)
            raise UsageError("the pushed file differs from its SHA-256")
        size, files = _contents(self._folder / minion / "files")
        if size + upload.size > self._total_bytes or files >= FILES:
            self._drop(key)
            raise LimitError(f"the files of {minion} are {size} bytes in {files} files already")
        *above, name = upload.path
        with (
            self._folder_of(minion, ("incoming",)) as source,
            self._folder_of(minion, ("files", *above)) as target,
        ):
            os.rename(sha256, name, src_dir_fd=source, dst_dir_fd=target)
        del self._uploads[key]

    def _drop(self, key: tuple[str, str]) -> None:
        self._uploads.pop(key, None)
        with self._folder_of(key[0], ("incoming",)) as folder, suppress(FileNotFoundError):
            os.unlink(key[1], dir_fd=folder)

    @contextmanager
    def _folder_of(self, minion: str, names: tuple[str, ...]) -> Iterator[int]:
        """Yield a folder of *minion*, which is made if it is missing.

        Raises:
            UsageError: a file is where a folder should be.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._folder, _DIRECTORY)
        try:
            for name in (minion, *names):
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=handle)
                inner = os.open(name, _DIRECTORY, dir_fd=handle)
                os.close(handle)
                handle = inner
            yield handle
        except (NotADirectoryError, IsADirectoryError) as error:
            raise UsageError(f"the pushed file's path meets a file or folder: {error}") from None
        finally:
            os.close(handle)


def _contents(folder: Path) -> tuple[int, int]:
    """Return size in bytes and number of the files below *folder*."""
    size = count = 0
    for where, _, files in os.walk(folder):
        for name in files:
            size += (Path(where) / name).lstat().st_size
            count += 1
    return size, count
