"""File roots on this host as a file client: for --local, SSH and the master itself."""

from __future__ import annotations

from pathlib import Path
from typing import Iterable, List, Mapping, Optional, Sequence

from catena.core.context import Distant, FileEntry
from catena.fileserver.index import BadPathError, Folders, RootOptions, Roots


def read_each(files: Iterable[Optional[Path]]) -> List[Optional[bytes]]:
    """Return the contents of local files, where there are any."""
    return [file.read_bytes() if file is not None else None for file in files]


class RootsClient:
    """Implements `core.context.FileClient` on folders of this host.

    Args:
        roots: environment -> folders, earlier ones win (config `file_roots`, `pillar_roots`).
        options: which files are served (`RootOptions.of(follow_links, globs, regexes)`).
        extra: folders that every environment has after its own.
    """

    def __init__(
        self,
        roots: Mapping[str, Folders],
        options: Optional[RootOptions] = None,
        extra: Folders = (),
    ) -> None:
        self.roots = Roots(roots, options, extra)

    def fetch(self, path: str, saltenv: str = "base") -> Optional[Path]:
        """Return the file itself; None when the environment has no such path."""
        try:
            found = self.roots.find(path, saltenv)
        except BadPathError:
            return None
        return found.real if found else None

    def fetch_all(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[Path]]:
        """Return several files, in the order asked."""
        return [self.fetch(path, saltenv) for path in paths]

    def contents(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[bytes]]:
        """Return the contents of several files, in the order asked."""
        return read_each(self.fetch_all(paths, saltenv))

    def distant(self, path: str, saltenv: str = "base") -> Optional[Distant]:
        """Return None: all files are here."""
        return None

    def entries(self, saltenv: str = "base", prefix: str = "") -> List[FileEntry]:
        """Return the files below *prefix*, sorted by path."""
        files, _ = self.roots.walk(saltenv, prefix)
        return [self.roots.entry(found) for found in files]

    def entry(self, path: str, saltenv: str = "base") -> Optional[FileEntry]:
        """Return the entry of one file, or None."""
        try:
            found = self.roots.find(path, saltenv)
        except BadPathError:
            return None
        return self.roots.entry(found) if found else None

    def folders(self, saltenv: str = "base", prefix: str = "") -> List[str]:
        """Return the folders below *prefix*, empty ones too, sorted."""
        return self.roots.walk(saltenv, prefix)[1]

    def environments(self) -> List[str]:
        """Return the environments that exist, sorted."""
        return self.roots.environments()
