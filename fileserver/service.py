"""The master's side of the bulk socket: lists of files and pieces of them, per minion.

What a minion may read is the tree of an environment, plus its own overlay (the chunk files and
scripts of its chains), which no other minion can name or list. Whose request it is comes from the
connection; a path is looked up in that minion's view only.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Callable, List, Mapping, Optional, Tuple

from catena.core import failpoints
from catena.core.context import FileEntry
from catena.core.errors import FileChangedError, NotFoundError
from catena.fileserver import manifest as manifests
from catena.fileserver.index import (
    BadPathError,
    Folders,
    Found,
    RootOptions,
    Roots,
    check_path,
)
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

#: Lists that are kept between the reply that names them and the request that fetches them.
KEPT_LISTS = 64

Overlay = Callable[[str], Mapping[str, Path]]


def no_overlay(minion: str) -> Mapping[str, Path]:
    """Return no files: what a minion sees beside the roots when it has no chains."""
    return {}


class FileService:
    """Serves file roots to minions. Its methods may be called from several threads.

    Args:
        roots: environment -> folders, earlier ones win.
        overlay: path -> file that one minion sees in the environment base, before the roots.
        extra_roots: folders that every environment has after its own.
        options: which files of the roots are served.
        monotonic: seconds, for telling whether a walk is newer than a question.
    """

    def __init__(
        self,
        roots: Mapping[str, Folders],
        overlay: Overlay = no_overlay,
        extra_roots: Folders = (),
        options: Optional[RootOptions] = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._roots = Roots(roots, options, extra_roots)
        self._overlay = overlay
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._walks: dict[str, Tuple[float, List[FileEntry], List[str]]] = {}
        self._blobs: OrderedDict[Tuple[str, str], Tuple[str, bytes]] = OrderedDict()
        self._shared: dict[str, Tuple[Tuple[List[FileEntry], List[str]], str, bytes]] = {}

    def manifest(self, minion: str, saltenv: str, asked: Optional[float] = None) -> ManifestReply:
        """Return hash and size of the list of files that *minion* sees.

        The list itself is read by `chunk` with an empty path.

        Args:
            minion: who asks.
            saltenv: environment.
            asked: when the question came (`time.monotonic()`); now by default. A walk that began
                later answers it: of thousands that ask at once, those that wait share one walk,
                and an edit that was made before the question is always seen.
        """
        came = self._monotonic() if asked is None else asked
        with self._lock:
            sha256, blob = self._list_for(minion, saltenv, came)
        return ManifestReply(sha256, len(blob), tuple(self._roots.environments()))

    def chunk(self, minion: str, request: ChunkRequest) -> ChunkReply:
        """Return one piece of a file (or of the list) as *minion* sees it.

        Raises:
            NotFoundError: this minion has no such file.
            FileChangedError: it is not the content that was asked for any more.
            BadPathError: the path or the offset makes no sense.
        """
        _sends()
        if request.offset < 0 or request.size < 1:
            raise BadPathError("the offset must not be negative, and the size must be positive")
        if not request.path:
            return self._list_chunk(minion, request)
        data = self._read(minion, request, min(request.size, PIECE_BYTES))
        return ChunkReply(request.sha256, request.offset, data)

    def files(self, minion: str, request: FilesRequest) -> FilesReply:
        """Return several small files as *minion* sees them, in the order asked.

        Raises:
            NotFoundError: this minion has no such file.
            FileChangedError: one is not the content that was asked for any more.
            BadPathError: a path makes no sense, or they are more than one message takes.
        """
        _sends()
        if not len(request.paths) == len(request.hashes) <= FILES_AT_ONCE:
            raise BadPathError(f"a request has at most {FILES_AT_ONCE} files, each with its hash")
        contents: List[bytes] = []
        left = CHUNK_BYTES
        for path, sha256 in zip(request.paths, request.hashes):
            one = ChunkRequest(request.saltenv, path, sha256, 0)
            contents.append(self._read(minion, one, left + 1))
            left -= len(contents[-1])
            if left < 0:
                raise BadPathError(
                    f"the requested files have more than {CHUNK_BYTES} bytes in total"
                )
        return FilesReply(tuple(contents))

    def _read(self, minion: str, request: ChunkRequest, size: int) -> bytes:
        """Return at most *size* bytes of a file; raises like `chunk`."""
        found = self._find(minion, check_path(request.path), request.saltenv)
        if found is None or not manifests.is_digest(request.sha256):
            raise NotFoundError(f"salt://{request.path[:200]} is not there for {minion}")
        try:
            if self._roots.hash(found.real) != request.sha256:
                raise FileChangedError(f"salt://{request.path[:200]} has changed")
            # Read without a buffer: the bytes go into the reply unchanged.
            with found.real.open("rb", buffering=0) as stream:
                stream.seek(request.offset)
                return stream.read(size)
        except OSError as error:
            raise FileChangedError(f"salt://{request.path[:200]}: {error.strerror}") from None

    def _find(self, minion: str, path: str, saltenv: str) -> Optional[Found]:
        own = self._overlay(minion).get(path) if saltenv == "base" else None
        return _found(path, own) if own is not None else self._roots.find(path, saltenv)

    def _list_chunk(self, minion: str, request: ChunkRequest) -> ChunkReply:
        with self._lock:
            kept = self._blobs.get((minion, request.saltenv))
            if kept is None or kept[0] != request.sha256:
                # The requested list, if the last walk of the tree still gives it.
                kept = self._list_for(minion, request.saltenv, 0.0)
        if kept[0] != request.sha256:
            raise FileChangedError("the list of files has changed")
        size = min(request.size, PIECE_BYTES)
        data = kept[1][request.offset : request.offset + size]
        return ChunkReply(request.sha256, request.offset, data)

    def _list_for(self, minion: str, saltenv: str, came: float) -> Tuple[str, bytes]:
        entries, folders = self._walk(saltenv, came)
        own = self._overlay(minion) if saltenv == "base" else {}
        if own:
            made = self._with_overlay(entries, folders, own)
        else:
            made = self._common(saltenv, entries, folders)
        self._blobs[minion, saltenv] = made
        self._blobs.move_to_end((minion, saltenv))
        while len(self._blobs) > KEPT_LISTS:
            self._blobs.popitem(last=False)
        return made

    def _walk(self, saltenv: str, came: float) -> Tuple[List[FileEntry], List[str]]:
        """Return what a walk found that began after *came*."""
        kept = self._walks.get(saltenv)
        if kept is None or kept[0] <= came:
            began = self._monotonic()
            files, folders = self._roots.walk(saltenv)
            entries = [entry for entry in map(self._entry, files) if entry is not None]
            if kept is not None and (entries, folders) == kept[1:]:
                entries, folders = kept[1:]
            kept = (began, entries, folders)
            if entries or saltenv in self._roots.environments():
                # Cache only existing environments: minions could fill the memory with names.
                self._walks[saltenv] = kept
        return kept[1], kept[2]

    def _entry(self, found: Found) -> Optional[FileEntry]:
        try:
            return self._roots.entry(found)
        except OSError:
            # The file was removed since the walk, or is not readable.
            return None

    def _common(
        self, saltenv: str, entries: List[FileEntry], folders: List[str]
    ) -> Tuple[str, bytes]:
        """Return the list of a minion that has no files of its own."""
        kept = self._shared.get(saltenv)
        if kept is None or kept[0][0] is not entries:
            blob = manifests.pack(entries, folders, self._roots.environments())
            kept = ((entries, folders), manifests.digest(blob), blob)
            if saltenv in self._walks:
                self._shared[saltenv] = kept
        return kept[1], kept[2]

    def _with_overlay(
        self, entries: List[FileEntry], folders: List[str], own: Mapping[str, Path]
    ) -> Tuple[str, bytes]:
        merged = manifests.by_path(entries)
        seen = set(folders)
        for path, file in own.items():
            found = _found(path, file)
            entry = self._entry(found) if found is not None else None
            if entry is None:
                continue
            merged[path] = entry
            parts = path.split("/")[:-1]
            seen.update("/".join(parts[: n + 1]) for n in range(len(parts)))
        rows = [merged[path] for path in sorted(merged)]
        blob = manifests.pack(rows, sorted(seen), self._roots.environments())
        return manifests.digest(blob), blob


def _found(path: str, file: Path) -> Optional[Found]:
    """Return a file of an overlay; None when its chain was removed meanwhile."""
    try:
        status = file.stat()
    except OSError:
        return None
    return Found(path, file, status.st_size, status.st_mode & 0o7777)


def _sends() -> None:
    failpoints.hit("master.chunk.send")
