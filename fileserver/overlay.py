"""File roots with some files before them that one host alone sees."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence

from catena.core.context import Distant, FileClient, FileEntry
from catena.core.digest import sha256
from catena.fileserver.roots import read_each


class OverlaidClient:
    """Implements `core.context.FileClient`: some files in the environment base, then *inner*.

    Args:
        inner: the roots.
        own: path below the roots -> file of this host.
    """

    def __init__(self, inner: FileClient, own: Mapping[str, Path]) -> None:
        self._inner = inner
        self._own = dict(own)

    def fetch(self, path: str, saltenv: str = "base") -> Optional[Path]:
        """Return the file itself; None when there is no such path."""
        local = self._local(path, saltenv)
        return local if local is not None else self._inner.fetch(path, saltenv)

    def fetch_all(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[Path]]:
        """Return several files, in the order asked."""
        return [self.fetch(path, saltenv) for path in paths]

    def contents(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[bytes]]:
        """Return the contents of several files, in the order asked."""
        return read_each(self.fetch_all(paths, saltenv))

    def distant(self, path: str, saltenv: str = "base") -> Optional[Distant]:
        """Return a large file that only *inner* has; None for any other."""
        here = self._local(path, saltenv) is not None
        return None if here else self._inner.distant(path, saltenv)

    def entry(self, path: str, saltenv: str = "base") -> Optional[FileEntry]:
        """Return the entry of one file, or None."""
        local = self._local(path, saltenv)
        return self._inner.entry(path, saltenv) if local is None else _entry(path, local)

    def entries(self, saltenv: str = "base", prefix: str = "") -> List[FileEntry]:
        """Return the files below *prefix*, sorted by path."""
        found: Dict[str, FileEntry] = {e.path: e for e in self._inner.entries(saltenv, prefix)}
        for path in self._below(saltenv, prefix):
            entry = self.entry(path, saltenv)
            if entry is not None:
                found[path] = entry
        return [found[path] for path in sorted(found)]

    def folders(self, saltenv: str = "base", prefix: str = "") -> List[str]:
        """Return the folders below *prefix*, sorted."""
        found = set(self._inner.folders(saltenv, prefix))
        for path in self._below(saltenv, prefix):
            parts = path.split("/")[:-1]
            above = ("/".join(parts[: n + 1]) for n in range(len(parts)))
            found.update(folder for folder in above if _is_below(folder, prefix))
        return sorted(found)

    def environments(self) -> List[str]:
        """Return the environments that exist, sorted."""
        return sorted({"base", *self._inner.environments()})

    def _local(self, path: str, saltenv: str) -> Optional[Path]:
        local = self._own.get(path) if saltenv == "base" else None
        return local if local is not None and local.is_file() else None

    def _below(self, saltenv: str, prefix: str) -> List[str]:
        if saltenv != "base":
            return []
        return [path for path in self._own if _is_below(path, prefix)]


def _entry(path: str, local: Path) -> FileEntry:
    data = local.read_bytes()
    mode = local.stat().st_mode & 0o7777
    return FileEntry(path, sha256(data).hexdigest(), len(data), mode)


def _is_below(path: str, prefix: str) -> bool:
    folder = prefix.strip("/")
    return not folder or path == folder or path.startswith(folder + "/")
