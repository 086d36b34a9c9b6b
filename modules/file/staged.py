"""Many new files at once: each is there whole or not at all, and the disk is waited for together.

To wait for the disk once for each file and once for its folder is most of the time that a tree of
small files takes. Here the contents of a group come to the disk first, in files without a name
(O_TMPFILE: whoever is killed leaves nothing behind); then each gets its name; then the folders
come to the disk, each of them once.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import TracebackType
from typing import Dict, Iterable, Optional, Sequence, Set, Tuple, Type

from catena.core.errors import CommandExecutionError
from catena.core.files import sync_folder, write_all
from catena.modules.file import content
from catena.modules.shared.attributes import default_mode

#: Files of one group: each is an open descriptor until it has its name.
GROUP_FILES = 256
#: Larger files wait for the disk by themselves.
FILE_BYTES = 1024 * 1024
GROUP_BYTES = 16 * 1024 * 1024
#: So few are waited for one by one.
_FEW = 8
#: Linux whose syncfs(2) says when something could not be written.
_TELLS_ERRORS = (5, 8)


class Staged:
    """One group of new files; a context manager, at whose end all of them are durable.

    Args:
        files: path, content and mode ("0644"; None: by the umask) of each. What is there
            already, is too large, or lies on a file system without nameless files, is left out:
            `write` writes it as ever.
    """

    def __init__(self, files: Iterable[Tuple[Path, bytes, Optional[str]]]) -> None:
        self._handles: Dict[Path, Tuple[int, bytes, Optional[str]]] = {}
        self._folders: Set[Path] = set()
        try:
            for path, data, mode in files:
                if path in self._handles:
                    continue
                if len(data) <= FILE_BYTES and not os.path.lexists(path):
                    self._add(path, data, mode)
            self._sync([handle for handle, _, _ in self._handles.values()])
        except OSError:
            # A full disk, say: `write` meets it again, and says what it is.
            self._forget()

    def write(self, path: Path, data: bytes, mode: Optional[str] = None) -> None:
        """Make the file, as `content.write` does.

        Raises:
            CommandExecutionError: it can't be written; nothing was replaced.
        """
        handle, ready, wanted = self._handles.pop(path, (-1, b"", None))
        try:
            fits = handle >= 0 and ready == data and wanted == mode
            if not fits or not self._named(handle, path):
                content.write(path, data, mode)
        finally:
            if handle >= 0:
                os.close(handle)

    def _add(self, path: Path, data: bytes, mode: Optional[str]) -> None:
        flags = getattr(os, "O_TMPFILE", None)
        if flags is None:
            return
        try:
            handle = os.open(path.parent, flags | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except OSError:
            # No folder yet, or no such files on its file system.
            return
        self._handles[path] = handle, data, mode
        write_all(handle, data)
        os.fchmod(handle, int(mode or default_mode(), 8))

    def _sync(self, handles: Sequence[int]) -> None:
        """Return when files of one file system are on its disk.

        Each fsync is a commit of the file system, or a flush of the disk at least; one syncfs does
        for all (a quarter of the time for 256 files).
        """
        if len(handles) > _FEW and _tells_errors():
            import ctypes

            if ctypes.CDLL(None, use_errno=True).syncfs(handles[0]):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            devices = {os.fstat(handle).st_dev for handle in handles}
            if len(devices) == 1:
                return
        for handle in handles:
            os.fsync(handle)

    def _named(self, handle: int, path: Path) -> bool:
        """Give a file its name; False where it can't have it, as where another has it by now."""
        try:
            folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.link(f"/proc/self/fd/{handle}", path.name, dst_dir_fd=folder)
            finally:
                os.close(folder)
        except OSError:
            return False
        self._folders.add(path.parent)
        return True

    def _forget(self) -> None:
        while self._handles:
            os.close(self._handles.popitem()[1][0])

    def __enter__(self) -> Staged:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._forget()
        for folder in self._folders:
            try:
                sync_folder(folder)
            except OSError as problem:
                raise CommandExecutionError(f"{folder}: {problem.strerror}") from problem


def _tells_errors() -> bool:
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return found is not None and (int(found[1]), int(found[2])) >= _TELLS_ERRORS
