"""The list of an environment's files, as it travels: compressed JSON, named by its hash."""

from __future__ import annotations

import json
import zlib
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from catena.core.context import FileEntry
from catena.core.digest import hex_of
from catena.core.errors import PeerError
from catena.core.frozen import dataclass, field
from catena.fileserver.index import BadPathError, check_path

#: Maximum unpacked size of a list, bytes: about 500 000 files.
UNPACKED_LIMIT = 128 * 1024 * 1024
_HEX = frozenset("0123456789abcdef")


class ManifestError(PeerError):
    """A list of files is not what it must be."""


@dataclass(frozen=True)
class Manifest:
    """The files and folders of one environment, as one minion sees it."""

    entries: Mapping[str, FileEntry] = field(default_factory=dict)
    folders: Tuple[str, ...] = ()
    environments: Tuple[str, ...] = ()


def pack(
    entries: Iterable[FileEntry], folders: Sequence[str], environments: Sequence[str]
) -> bytes:
    """Return a list of files as the bytes of the bulk socket's path ""."""
    rows = [[e.path, e.sha256, e.size, e.mode, e.link] for e in entries]
    data = {"files": rows, "folders": list(folders), "environments": list(environments)}
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return zlib.compress(text.encode("utf-8", "surrogateescape"), 1)


def unpack(blob: bytes) -> Manifest:
    """Return the list that `pack` made.

    Raises:
        ManifestError: not such a list, too large, or a path that leaves the roots.
    """
    unzip = zlib.decompressobj()
    try:
        text = unzip.decompress(blob, UNPACKED_LIMIT)
        if not unzip.eof:
            raise ManifestError("the list of files is truncated or too large")
        data = json.loads(text.decode("utf-8", "surrogateescape"))
        entries = {row[0]: _entry(row) for row in data["files"]}
        folders = tuple(check_path(folder) for folder in data["folders"])
        return Manifest(entries, folders, tuple(map(str, data["environments"])))
    except BadPathError as error:
        raise ManifestError(str(error)) from None
    except (zlib.error, ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise ManifestError(f"the list of files can't be read: {error}") from None


def digest(blob: bytes) -> str:
    """Return the SHA-256 of *blob*, hex."""
    return hex_of(blob)


def is_digest(text: object) -> bool:
    """Return whether *text* is a SHA-256 in lower-case hex."""
    return isinstance(text, str) and len(text) == 64 and _HEX.issuperset(text)


def _entry(row: List[Any]) -> FileEntry:
    path, sha256, size, mode, link = row
    sized = isinstance(size, int) and size >= 0 and isinstance(mode, int)
    if not (isinstance(path, str) and is_digest(sha256) and sized and isinstance(link, str)):
        raise ManifestError("the list of files has a malformed row")
    if check_path(path) != path:
        raise ManifestError(f"{path[:80]!r} is not a path of the file server")
    return FileEntry(path, sha256, size, mode & 0o7777, link)


def by_path(entries: Iterable[FileEntry]) -> Dict[str, FileEntry]:
    """Return *entries* by their paths."""
    return {entry.path: entry for entry in entries}
