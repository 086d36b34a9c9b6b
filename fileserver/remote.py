"""The minion's side: a content-addressed cache of the master's files.

One list of files per environment and client (a client lives for one job); a file whose content is
in the cache is never fetched again, whatever its path or environment. Nothing is handed out whose
hash was not checked by this process.

Large files and the members of trees go straight to their one place: a file that has the content
that its list names is not fetched again, cache or not.
"""

from __future__ import annotations

import contextlib
import os
import time
import urllib.parse
from functools import cached_property
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    Union,
)

from catena.core.context import FileEntry
from catena.core.digest import hex_of, sha256_for
from catena.core.dry_run import unguarded
from catena.core.errors import CatenaError, FileChangedError, NotFoundError, PeerError
from catena.core.files import private_folder, write_all
from catena.fileserver import manifest as manifests
from catena.fileserver.index import BadPathError, check_path, hash_file
from catena.fileserver.manifest import Manifest
from catena.transport.messages import (
    CHUNK_BYTES,
    FILES_AT_ONCE,
    PIECE_BYTES,
    ChunkReply,
    ChunkRequest,
    FilesReply,
    FilesRequest,
    ManifestReply,
)

if TYPE_CHECKING:
    from catena.fileserver.transfers import Report, Transfers

#: Pieces that are asked for before the first has come: as many as there are hands on their way.
WINDOW = 8
#: Size above which a file is written only to its destination, not to the cache, bytes.
DISTANT_BYTES = 2 * 1024 * 1024
#: Size below which the progress of a file is not reported, bytes.
REPORTED_BYTES = 8 * 1024 * 1024
LIST_LIMIT = 64 * 1024 * 1024
DAY_SECONDS = 24 * 3600
#: Time after which content that no job used leaves the cache, seconds.
KEEP_SECONDS = 30 * DAY_SECONDS
#: Files whose list changed while they were fetched are looked up anew this often.
_ATTEMPTS = 3


class WrongContentError(PeerError):
    """Received content does not match its hash."""


#: What `pipelined` takes: each ChunkRequest gives a ChunkReply, each FilesRequest a FilesReply.
Request = Union[ChunkRequest, FilesRequest]


class ChunkSource(Protocol):
    """Where lists and pieces come from: the master's bulk socket, or something that relays to it.

    A request that the other side refuses raises CatenaError; FileChangedError where the content
    that is asked for is not there any more.
    """

    def manifest(self, saltenv: str) -> ManifestReply:
        """Return hash and size of an environment's list."""

    def chunk(self, request: ChunkRequest) -> ChunkReply:
        """Return one piece."""

    def files(self, request: FilesRequest) -> FilesReply:
        """Return several small files."""

    def pipelined(self, requests: Sequence[Request], window: int) -> Iterable[Any]:
        """Return the answers in the order asked, with up to *window* requests under way."""


def one_by_one(source: ChunkSource, requests: Sequence[Request]) -> Iterator[Any]:
    """Yield the answers one after the other: `pipelined` of a source that can do no better."""
    for request in requests:
        if isinstance(request, FilesRequest):
            yield source.files(request)
        else:
            yield source.chunk(request)


class CachingClient:
    """Implements `core.context.FileClient` over a `ChunkSource`.

    Args:
        source: where files come from.
        cache_dir: private folder, kept between jobs and shared by them.
    """

    def __init__(self, source: ChunkSource, cache_dir: Path) -> None:
        self._source = source
        self._folder = cache_dir
        self._lists: Dict[str, Manifest] = {}
        #: Reports steps of the job that this client is for, where somebody may watch it.
        self.report: Optional[Report] = None

    @cached_property
    def _transfers(self) -> Transfers:
        # Imported on first use: only large files need it.
        from catena.fileserver.transfers import Transfers

        assert self.report is not None
        return Transfers(self.report)

    @cached_property
    def _store(self) -> ContentStore:
        # Created on first use: most jobs ask for no file.
        return ContentStore(self._folder)

    def fetch(self, path: str, saltenv: str = "base") -> Optional[Path]:
        """Return a hash-checked, read-only copy of *path*; None when there is no such file.

        Raises:
            CatenaError: the master could not be asked.
            WrongContentError: what came is not what was promised.
        """
        for attempt in range(_ATTEMPTS):
            entry = self.entry(path, saltenv)
            if entry is None:
                return None
            try:
                held = self._store.get(entry) or self._download(entry, saltenv)
                return self._store.named(held, saltenv, entry.path)
            except (FileChangedError, NotFoundError):
                # The file changed or was removed since the list was made; a new list tells which.
                if attempt == _ATTEMPTS - 1:
                    raise
                self._lists.pop(saltenv, None)
        return None

    def fetch_all(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[Path]]:
        """Return copies of several files, in the order asked.

        Those that are not here come together: one after the other, each would wait for the way to
        the master and back.
        """
        small: Dict[str, FileEntry] = {}
        for path in paths:
            entry = self.entry(path, saltenv)
            if entry and 0 < entry.size <= CHUNK_BYTES and not self._store.get(entry):
                small.setdefault(entry.sha256, entry)
        with _one_by_one_else():
            for one, data in self._together(list(small.values()), saltenv):
                self._store.put(one, [ChunkReply(one.sha256, 0, data)])
        return [self.fetch(path, saltenv) for path in paths]

    def contents(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[bytes]]:
        """Return the contents of several small files, in the order asked; None: no such file.

        What is in the cache comes from there; what is not comes together, and stays nowhere.

        Raises:
            CatenaError: the master could not be asked.
            WrongContentError: what came is not what was promised.
        """
        asked = [self.entry(path, saltenv) for path in paths]
        found: Dict[str, bytes] = {}
        absent: Dict[str, FileEntry] = {}
        for entry in asked:
            held = self._store.get(entry) if entry else None
            if entry and held:
                found[entry.sha256] = held.read_bytes()
            elif entry and 0 < entry.size <= CHUNK_BYTES:
                absent.setdefault(entry.sha256, entry)
        # As in `fetch_all`: a file that a group reply lacks is fetched alone.
        with _one_by_one_else():
            for entry, data in self._together(list(absent.values()), saltenv):
                found[entry.sha256] = _checked(entry, data)
        return [
            found[entry.sha256]
            if entry and entry.sha256 in found
            else _read(self.fetch(path, saltenv))
            for path, entry in zip(paths, asked)
        ]

    def distant(self, path: str, saltenv: str = "base") -> Optional[DistantFile]:
        """Return a file that is too large to be kept twice and is not in the cache; else None."""
        entry = self.entry(path, saltenv)
        if entry is None or entry.size <= DISTANT_BYTES or self._store.has(entry):
            return None
        return DistantFile(self, entry, saltenv)

    def pieces(self, entry: FileEntry, saltenv: str) -> Iterable[ChunkReply]:
        """Return the content of a file, piece by piece as it comes; not checked.

        Raises:
            FileChangedError: the file has changed.
            CatenaError: the master could not be asked.
        """
        offsets = range(0, entry.size, PIECE_BYTES)
        asked = [
            ChunkRequest(saltenv, entry.path, entry.sha256, at, PIECE_BYTES) for at in offsets
        ]
        # Most files are one chunk and need no pipelining.
        if len(asked) < 2:
            return [self._source.chunk(request) for request in asked]
        return self._watched(entry, self._source.pipelined(asked, WINDOW))

    def _watched(self, entry: FileEntry, pieces: Iterable[ChunkReply]) -> Iterable[ChunkReply]:
        if self.report is None or entry.size < REPORTED_BYTES or not entry.path:
            return pieces
        return self._transfers.watched(entry, pieces)

    def _together(
        self, entries: Sequence[FileEntry], saltenv: str
    ) -> Iterator[Tuple[FileEntry, bytes]]:
        """Yield small files with what came for them, as many as one message takes at a time."""
        groups = list(_groups(entries))
        asked = [
            FilesRequest(saltenv, tuple(e.path for e in group), tuple(e.sha256 for e in group))
            for group in groups
        ]
        for group, reply in zip(groups, self._source.pipelined(asked, WINDOW)):
            if len(reply.contents) != len(group):
                raise WrongContentError("the master sent more or fewer files than requested")
            yield from zip(group, reply.contents)

    def entries(self, saltenv: str = "base", prefix: str = "") -> List[FileEntry]:
        """Return the files below *prefix*, sorted by path."""
        found = self._list(saltenv).entries
        return [found[path] for path in sorted(found) if _below(path, prefix)]

    def entry(self, path: str, saltenv: str = "base") -> Optional[FileEntry]:
        """Return the entry of one file, or None."""
        try:
            return self._list(saltenv).entries.get(check_path(path))
        except BadPathError:
            return None

    def folders(self, saltenv: str = "base", prefix: str = "") -> List[str]:
        """Return the folders below *prefix*, empty ones too, sorted."""
        return [f for f in sorted(self._list(saltenv).folders) if _below(f, prefix)]

    def environments(self) -> List[str]:
        """Return the environments that exist, sorted."""
        return sorted(self._list("base").environments)

    def refresh(self) -> None:
        """Ask for the lists anew on their next use; contents stay."""
        self._lists.clear()

    def prune(self, unused_seconds: float) -> int:
        """Remove contents that no job used for that long; return how many files went."""
        return self._store.prune(unused_seconds)

    def prune_daily(self) -> None:
        """Remove contents that no job used for KEEP_SECONDS; at most once a day."""
        stamp = f"{self._folder}/.pruned"
        try:
            # Asked at the end of each job: no Path of it.
            if time.time() - os.stat(stamp).st_mtime < DAY_SECONDS:  # noqa: PTH116
                return
        except FileNotFoundError:
            # Never yet; other faults of the disk are the next job's to report.
            if not self._folder.exists():
                return
        Path(stamp).touch(mode=0o600)
        self.prune(KEEP_SECONDS)

    def _list(self, saltenv: str) -> Manifest:
        for attempt in range(_ATTEMPTS):
            if saltenv in self._lists:
                break
            try:
                self._lists[saltenv] = self._ask_list(saltenv)
            except FileChangedError:
                # Another job of this minion fetched a newer list in between.
                if attempt == _ATTEMPTS - 1:
                    raise
        return self._lists[saltenv]

    def _ask_list(self, saltenv: str) -> Manifest:
        reply = self._source.manifest(saltenv)
        if not manifests.is_digest(reply.sha256) or not 0 < reply.size <= LIST_LIMIT:
            raise WrongContentError("the master named an invalid list of files")
        listed = FileEntry("", reply.sha256, reply.size, 0o600)
        held = self._store.get(listed) or self._download(listed, saltenv)
        found = manifests.unpack(held.read_bytes())
        return Manifest(found.entries, found.folders, reply.environments)

    def _download(self, entry: FileEntry, saltenv: str) -> Path:
        return self._store.put(entry, self.pieces(entry, saltenv))


class DistantFile:
    """Implements `core.context.Distant`: a large file that goes to its one place, not the cache.

    Args:
        client: of this job.
        entry: what is wanted.
        saltenv: where it is.
    """

    def __init__(self, client: CachingClient, entry: FileEntry, saltenv: str) -> None:
        self.entry = entry
        self._client, self._saltenv = client, saltenv

    def write_to(self, handle: int) -> None:
        """Write the content to an open, empty file, its hash checked.

        Raises:
            FileChangedError: it changes all the time, or is gone.
            WrongContentError: what came is not what was promised.
            CatenaError: the master could not be asked.
        """
        # For what is large only: it brings threads, and Python's way to the C library.
        from catena.core.direct import writing
        from catena.core.heap import large_kept

        for _ in range(_ATTEMPTS):
            try:
                pieces = self._client.pieces(self.entry, self._saltenv)
                with large_kept(), writing(handle, self.entry.size) as write:
                    return receive(write, self.entry, pieces)
            except FileChangedError as error:
                changed = error
            os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)
            self._client.refresh()
            found = self._client.entry(self.entry.path, self._saltenv)
            if found is None:
                break
            self.entry = found
        raise changed


def receive(
    write: Callable[[bytes], None], entry: FileEntry, pieces: Iterable[ChunkReply]
) -> None:
    """Give *pieces*, which come in order, to who writes them, and check them.

    Raises:
        WrongContentError: they are not the content of *entry*.
    """
    digest = sha256_for(entry.size)
    written = 0
    for piece in pieces:
        if piece.offset != written or piece.sha256 != entry.sha256 or not piece.data:
            raise WrongContentError(f"salt://{entry.path}: a chunk is out of order")
        written += len(piece.data)
        if written > entry.size:
            raise WrongContentError(f"salt://{entry.path}: longer than announced")
        digest.update(piece.data)
        write(piece.data)
    if written != entry.size or digest.hexdigest() != entry.sha256:
        raise WrongContentError(f"salt://{entry.path}: the content does not have its hash")


class ContentStore:
    """Files by the hash of their content, in a private folder.

    The folder is the agent's own: states fill it in test mode too, to say what they would do.
    """

    def __init__(self, folder: Path) -> None:
        self._objects = private_folder(private_folder(folder) / "objects")
        self._names = private_folder(folder / "files")
        self._checked: Dict[str, Tuple[int, int]] = {}

    def get(self, entry: FileEntry) -> Optional[Path]:
        """Return the content of *entry*, its hash checked; None when it is not here.

        A content that is wrong (torn by a cut, or tampered with) is removed.
        """
        path = self._path(entry.sha256)
        try:
            status = path.lstat()
            stamp = (status.st_mtime_ns, status.st_size)
            if self._checked.get(entry.sha256) == stamp:
                return path
            if status.st_size == entry.size and hash_file(path) == entry.sha256:
                # The modification time is the last use; `prune` reads it.
                with unguarded():
                    os.utime(path)
                self._checked[entry.sha256] = (path.lstat().st_mtime_ns, status.st_size)
                return path
            with unguarded():
                path.unlink()
        except OSError:
            return None
        return None

    def has(self, entry: FileEntry) -> bool:
        """Return whether *entry*'s content is here, by its name and size; `get` looks into it."""
        try:
            return self._path(entry.sha256).lstat().st_size == entry.size
        except OSError:
            return False

    @unguarded()
    def put(self, entry: FileEntry, pieces: Iterable[ChunkReply]) -> Path:
        """Store *pieces*, which come in order, as the content of *entry*.

        Raises:
            WrongContentError: they are not that content; nothing is kept.
        """
        path = self._path(entry.sha256)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(partial, flags, 0o400)
        try:
            try:
                receive(lambda data: write_all(handle, data), entry, pieces)
            finally:
                os.close(handle)
            partial.rename(path)
        except (OSError, CatenaError):
            partial.unlink(missing_ok=True)
            raise
        status = path.lstat()
        self._checked[entry.sha256] = (status.st_mtime_ns, status.st_size)
        return path

    @unguarded()
    def take(self, sha256: str, file: Path) -> Path:
        """Make *file*, on the same file system, the content of that hash.

        Raises:
            WrongContentError: it is not that content.
        """
        if hash_file(file) != sha256:
            raise WrongContentError(f"{file.name}: the content does not have its hash")
        path = self._path(sha256)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        file.chmod(0o400)
        return file.rename(path)

    @unguarded()
    def drop(self, sha256: str) -> None:
        """Remove the content of that hash; nothing where it is not here."""
        self._path(sha256).unlink(missing_ok=True)

    def find(self, sha256: str) -> Optional[Path]:
        """Return the content of that hash, checked; None when it is not here."""
        try:
            size = self._path(sha256).lstat().st_size
        except OSError:
            return None
        return self.get(FileEntry("", sha256, size, 0o400))

    def named(self, content: Path, saltenv: str, path: str) -> Path:
        """Return *content* under a name that ends like *path*, for people and importers.

        It is the same file (a hard link); where links can't be made, the content itself.
        """
        folder = self._names / urllib.parse.quote(saltenv, safe="").replace(".", "%2E")
        name = folder.joinpath(*path.split("/"))
        try:
            if name.samefile(content):
                return name
        except OSError:
            # The link does not exist yet, or a folder of an older list stands in its place.
            pass
        return self._linked(content, folder, name)

    @unguarded()
    def _linked(self, content: Path, folder: Path, name: Path) -> Path:
        """Give *content* the name; return it, or where links can't be made the content."""
        try:
            self._clear_way(folder, name)
            link = name.with_name(f".{name.name[:200]}.{os.getpid()}.new")
            link.unlink(missing_ok=True)
            os.link(content, link)
            if name.is_dir() and not name.is_symlink():
                import shutil

                shutil.rmtree(name)
            link.rename(name)
            link.unlink(missing_ok=True)
        except OSError:
            return content
        return name

    def prune(self, unused_seconds: float) -> int:
        """Remove files that were not used for that long; a name shares its content's times."""
        before = time.time() - unused_seconds
        removed = 0
        for top in (self._objects, self._names):
            for folder, _, files in os.walk(top):
                for file in (Path(folder, name) for name in files):
                    if file.lstat().st_mtime < before:
                        file.unlink(missing_ok=True)
                        removed += 1
        self._checked.clear()
        return removed

    def _clear_way(self, folder: Path, name: Path) -> None:
        """Make the folders above *name*; a file of an older list may stand in their place."""
        current = self._names
        for part in name.parent.relative_to(self._names).parts:
            current = current / part
            if current.is_symlink() or current.is_file():
                current.unlink()
            current.mkdir(mode=0o700, exist_ok=True)

    def _path(self, sha256: str) -> Path:
        return self._objects / sha256[:2] / sha256


@contextlib.contextmanager
def _one_by_one_else() -> Iterator[None]:
    """Let what could not come together be fetched by itself, after the block.

    A file was changed or removed meanwhile, and `fetch` looks it up in a new list; or the relay or
    the master is of a version that gives files one by one.
    """
    try:
        yield
    except WrongContentError:
        raise
    except (FileChangedError, NotFoundError, PeerError):
        pass


def _checked(entry: FileEntry, data: bytes) -> bytes:
    if len(data) != entry.size or hex_of(data) != entry.sha256:
        raise WrongContentError(f"salt://{entry.path}: the content does not have its hash")
    return data


def _read(file: Optional[Path]) -> Optional[bytes]:
    return file.read_bytes() if file is not None else None


def _groups(entries: Sequence[FileEntry]) -> Iterator[List[FileEntry]]:
    """Yield *entries*, none larger than a piece, in groups that fit one message each."""
    group: List[FileEntry] = []
    size = 0
    for entry in entries:
        if group and (len(group) == FILES_AT_ONCE or size + entry.size > CHUNK_BYTES):
            yield group
            group, size = [], 0
        group.append(entry)
        size += entry.size
    if group:
        yield group


def _below(path: str, prefix: str) -> bool:
    cleaned = prefix.strip("/")
    return not cleaned or path == cleaned or path.startswith(cleaned + "/")
