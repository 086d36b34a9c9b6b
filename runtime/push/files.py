"""The files of a run: what its job lists, contents from the parts that were brought."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence

from catena.core.context import Distant, FileEntry
from catena.core.errors import CatenaError
from catena.fileserver.index import BadPathError, check_path
from catena.fileserver.remote import ContentStore
from catena.fileserver.roots import read_each
from catena.runtime.push.protocol import Tree


class PartMissingError(CatenaError):
    """A file of this run is listed, and its content is not here."""


class ShippedFiles:
    """Implements `core.context.FileClient` on the trees that travelled with a job.

    Args:
        trees: what was listed; of two for one environment the later one adds to the first.
        parts: the contents.
    """

    def __init__(self, trees: Iterable[Tree], parts: ContentStore) -> None:
        self._parts = parts
        self._entries: Dict[str, Dict[str, FileEntry]] = {}
        self._folders: Dict[str, List[str]] = {}
        for tree in trees:
            found = self._entries.setdefault(tree.saltenv, {})
            found.update((check_path(entry.path), entry) for entry in tree.entries)
            folders = self._folders.setdefault(tree.saltenv, [])
            folders.extend(check_path(folder) for folder in tree.folders)

    def fetch(self, path: str, saltenv: str = "base") -> Optional[Path]:
        """Return a hash-checked, read-only copy of *path*, or None.

        Raises:
            PartMissingError: it is listed, and its content is gone or damaged.
        """
        entry = self.entry(path, saltenv)
        if entry is None:
            return None
        held = self._parts.get(entry)
        if held is None:
            raise PartMissingError(f"salt://{entry.path}: its content did not arrive whole")
        return self._parts.named(held, saltenv, entry.path)

    def fetch_all(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[Path]]:
        """Return copies of several files, in the order asked."""
        return [self.fetch(path, saltenv) for path in paths]

    def contents(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[bytes]]:
        """Return the contents of several files, in the order asked."""
        return read_each(self.fetch_all(paths, saltenv))

    def distant(self, path: str, saltenv: str = "base") -> Optional[Distant]:
        """Return None: what `fetch` gives is on this host for this run anyway."""
        return None

    def entries(self, saltenv: str = "base", prefix: str = "") -> List[FileEntry]:
        """Return the files below *prefix*, sorted by path."""
        found = self._entries.get(saltenv, {})
        return [found[path] for path in sorted(found) if _is_below(path, prefix)]

    def entry(self, path: str, saltenv: str = "base") -> Optional[FileEntry]:
        """Return the entry of one file, or None."""
        try:
            return self._entries.get(saltenv, {}).get(check_path(path))
        except BadPathError:
            return None

    def folders(self, saltenv: str = "base", prefix: str = "") -> List[str]:
        """Return the folders below *prefix*, empty ones too, sorted."""
        found = sorted({*self._folders.get(saltenv, ()), *self._parents(saltenv)})
        return [folder for folder in found if _is_below(folder, prefix)]

    def came_whole(self, saltenv: str, folder: str) -> bool:
        """Return whether *folder* itself was listed: it came with all that lies below it."""
        return folder.strip("/") in self._folders.get(saltenv, ())

    def _parents(self, saltenv: str) -> Iterable[str]:
        for path in self._entries.get(saltenv, {}):
            for parent in Path(path).parents:
                if parent.parts:
                    yield parent.as_posix()

    def environments(self) -> List[str]:
        """Return the environments that exist, sorted."""
        return sorted(self._entries)

    def missing(self) -> List[str]:
        """Return the hashes of listed contents that are not here, sorted."""
        wanted = {e.sha256 for found in self._entries.values() for e in found.values() if e.sha256}
        return sorted(sha256 for sha256 in wanted if self._parts.find(sha256) is None)


def _is_below(path: str, prefix: str) -> bool:
    cleaned = prefix.strip("/")
    return not cleaned or path == cleaned or path.startswith(cleaned + "/")
