"""Walking file roots: which files an environment has, and their hashes.

The first root that has a path wins, as in Salt. No path leaves its root: names are checked, and
links are followed only to places inside a root of the same environment.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from catena.core.context import FileEntry
from catena.core.digest import sha256
from catena.core.errors import CatenaError, ConfigError
from catena.core.frozen import dataclass
from catena.core.patterns import lazy_pattern

PATH_LIMIT = 1024
_READ = 1024 * 1024
#: Size below which a file is hashed without OpenSSL, bytes.
_SMALL = 64 * 1024
#: Maximum number of cached hashes; the oldest are dropped.
HASHES_KEPT = 300_000
#: Salt's name for "every environment" in file_roots.
ANY_ENVIRONMENT = "__env__"
_ENVIRONMENT = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.@/-]{0,127}\Z")

Folders = Sequence[Union[str, "os.PathLike[str]"]]


class BadPathError(CatenaError):
    """A path can't lie in the file roots."""


@dataclass(frozen=True)
class RootOptions:
    """What of the roots is served."""

    follow_links: bool = False
    ignore_globs: Tuple[str, ...] = ()
    ignore_patterns: Tuple[re.Pattern[str], ...] = ()

    @staticmethod
    def of(
        follow_links: bool = False, globs: Sequence[str] = (), regexes: Sequence[str] = ()
    ) -> RootOptions:
        """Return options from the settings fileserver_followsymlinks and file_ignore_*.

        Raises:
            ConfigError: one of the regular expressions is none.
        """
        try:
            compiled = tuple(re.compile(text) for text in regexes)
        except re.error as error:
            raise ConfigError(f"file_ignore_regex: {error}") from None
        return RootOptions(follow_links, tuple(globs), compiled)

    def ignores(self, path: str) -> bool:
        """Return whether *path* (below its root) is not served."""
        return any(fnmatchcase(path, glob) for glob in self.ignore_globs) or any(
            pattern.search(path) for pattern in self.ignore_patterns
        )


def check_path(path: str) -> str:
    """Return *path* without a leading slash.

    Raises:
        BadPathError: it is empty, too long, or has a `.`, `..`, empty or NUL part.
    """
    cleaned = path.lstrip("/")
    parts = cleaned.split("/")
    if not cleaned or len(cleaned) > PATH_LIMIT or "\0" in cleaned:
        raise BadPathError(f"{path[:80]!r} is not a path of the file server")
    if any(part in ("", ".", "..") for part in parts):
        raise BadPathError(f"{path[:80]!r} is not a path of the file server")
    return cleaned


def is_environment(name: str) -> bool:
    """Return whether *name* can be the name of an environment."""
    return bool(_ENVIRONMENT.match(name)) and ".." not in name


def hash_file(path: Union[str, os.PathLike[str]]) -> str:
    """Return the SHA-256 of a file, hex."""
    with Path(path).open("rb") as stream:
        first = stream.read(_SMALL)
        if len(first) < _SMALL:
            return sha256(first).hexdigest()
        # OpenSSL is faster, but loading it takes a twentieth of a short command.
        import hashlib

        digest = hashlib.sha256(first)
        for block in iter(lambda: stream.read(_READ), b""):
            digest.update(block)
    return digest.hexdigest()


class HashCache:
    """Hashes of files, kept as long as inode, size and times stay."""

    def __init__(self) -> None:
        self._kept: Dict[str, Tuple[Tuple[int, ...], str]] = {}
        self._adding = threading.Lock()

    def __call__(self, path: Path) -> str:
        """Return the SHA-256 of *path*, hex."""
        found = path.stat()
        stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        kept = self._kept.get(str(path))
        if kept is not None and kept[0] == stamp:
            return kept[1]
        digest = hash_file(path)
        with self._adding:
            self._kept[str(path)] = (stamp, digest)
            while len(self._kept) > HASHES_KEPT:
                # Chunk files of chains have new names each time, so the cache must be bounded.
                del self._kept[next(iter(self._kept))]
        return digest


@dataclass(frozen=True)
class Found:
    """A file of an environment, where it lies here."""

    path: str
    #: The file itself, links resolved.
    real: Path
    size: int
    mode: int
    link: str = ""


class Roots:
    """The folders of every environment.

    Args:
        roots: environment -> folders, earlier ones win. `__env__` serves any environment; in
            its folders that word stands for the environment's name.
        options: what is served.
        extra: folders that every environment has after its own.
    """

    def __init__(
        self,
        roots: Mapping[str, Folders],
        options: Optional[RootOptions] = None,
        extra: Folders = (),
    ) -> None:
        self._roots = {env: [Path(folder) for folder in given] for env, given in roots.items()}
        self._options = options or RootOptions()
        self._extra = [Path(folder) for folder in extra]
        self.hash = HashCache()

    def environments(self) -> List[str]:
        """Return the environments that are named, sorted; base alone where none is."""
        named = {env for env in self._roots if env != ANY_ENVIRONMENT}
        return sorted(named or {"base"})

    def folders_of(self, saltenv: str) -> List[Path]:
        """Return the roots of an environment, real and existing, in order of precedence."""
        own = self._roots.get(saltenv)
        if own is None and is_environment(saltenv):
            template = self._roots.get(ANY_ENVIRONMENT, [])
            own = [Path(str(folder).replace(ANY_ENVIRONMENT, saltenv)) for folder in template]
        known = own or []
        extra = self._extra if own is not None or saltenv == "base" else []
        return [Path(os.path.realpath(folder)) for folder in (*known, *extra) if folder.is_dir()]

    def find(self, path: str, saltenv: str) -> Optional[Found]:
        """Return the file *path* of an environment, or None.

        Raises:
            BadPathError: the path can't lie in any root.
        """
        checked = check_path(path)
        if self._options.ignores(checked):
            return None
        folders = self.folders_of(saltenv)
        for root in folders:
            found = self._at(root, checked, folders)
            if found is not None:
                return found
        return None

    def entry(self, found: Found) -> FileEntry:
        """Return *found* with its hash."""
        return FileEntry(found.path, self.hash(found.real), found.size, found.mode, found.link)

    def walk(self, saltenv: str, prefix: str = "") -> Tuple[List[Found], List[str]]:
        """Return the files and folders of an environment, sorted by path.

        Args:
            saltenv: the environment.
            prefix: a path; only what lies at and below it.
        """
        start = prefix.strip("/")
        try:
            start = check_path(start) if start else ""
        except BadPathError:
            return [], []
        folders = self.folders_of(saltenv)
        files: Dict[str, Found] = {}
        seen: set[str] = set()
        plain_parents = not self._options.follow_links
        for root in folders:
            for path, is_folder in self._from(root, start, folders):
                if is_folder:
                    seen.add(path)
                elif path not in files:
                    found = self._at(root, path, folders, plain_parents)
                    if found is not None:
                        files[path] = found
        return [files[path] for path in sorted(files)], sorted(seen)

    def _from(self, root: Path, start: str, folders: List[Path]) -> Iterator[Tuple[str, bool]]:
        """Yield (path, whether it is a folder) of *start*, below *root*, and all below it."""
        place = f"{root}/{start}" if start else str(root)
        real = os.path.realpath(place)
        parts = start.split("/") if start else []
        above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        if any(self._options.ignores(path) for path in above) or not _inside(real, folders):
            return
        if not os.path.isdir(real):  # noqa: PTH112  # text, as everywhere here
            yield start, False
        elif real == place or self._options.follow_links:
            if start:
                yield start, True
            yield from self._below(root, (start, real), folders)

    def _below(
        self, root: Path, start: Tuple[str, str], folders: List[Path]
    ) -> Iterator[Tuple[str, bool]]:
        """Yield (path, whether it is a folder) of everything below *start* (path, real path)."""
        waiting: List[Tuple[str, Tuple[str, ...]]] = [(start[0], (str(root), start[1]))]
        while waiting:
            prefix, above = waiting.pop()
            for item in _scan(str(root / prefix)):
                path = f"{prefix}/{item.name}" if prefix else item.name
                if len(path) > PATH_LIMIT or self._options.ignores(path):
                    continue
                if not item.is_dir(follow_symlinks=self._options.follow_links):
                    yield path, False
                    continue
                real = os.path.realpath(item.path)
                # Skip links to a folder above (endless) and links out of the roots.
                if real not in above and _inside(real, folders):
                    yield path, True
                    waiting.append((path, (*above, real)))

    def _at(
        self, root: Path, path: str, folders: List[Path], plain_parents: bool = False
    ) -> Optional[Found]:
        """Return the file at *path* below *root*; *plain_parents*: no folder above is a link."""
        given = f"{root}/{path}"
        real, link = given, ""
        try:
            status = os.lstat(given)
            if stat.S_ISLNK(status.st_mode):
                link = os.readlink(given)  # noqa: PTH115  # the text of the link, not a path
            if link or not plain_parents:
                real = os.path.realpath(given)
            if real != given:
                status = os.lstat(real)
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode) or not _inside(real, folders):
            return None
        if not plain_parents and not self._options.follow_links and real != given:
            # Else the file itself is the only link.
            above = os.path.dirname(given)  # noqa: PTH120  # text like `real`
            if not link or os.path.realpath(above) != above:
                return None
        return Found(path, Path(real), status.st_size, stat.S_IMODE(status.st_mode), link)


def _inside(real: str, folders: List[Path]) -> bool:
    return any(real == str(root) or real.startswith(f"{root}/") for root in folders)


def _scan(folder: str) -> List[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as items:
            return sorted(items, key=lambda item: item.name)
    except OSError:
        # The folder was removed or is not readable: it has no files.
        return []
