"""Files of the master, in pieces (bulk socket), and files pushed to it."""

from __future__ import annotations

from catena.core.frozen import dataclass


@dataclass(frozen=True)
class ManifestRequest:
    """Which files does an environment have for me (bulk socket)."""

    saltenv: str


@dataclass(frozen=True)
class ManifestReply:
    """The file list, as a blob to be fetched with ChunkRequest(path="")."""

    sha256: str
    size: int
    environments: tuple[str, ...]


@dataclass(frozen=True)
class ChunkRequest:
    """A piece of one file (bulk socket)."""

    saltenv: str
    #: Path below the root; "" for the manifest itself.
    path: str
    #: The content that is wanted; if the file has changed since, the answer is a Failure.
    sha256: str
    offset: int
    #: How much of it, in bytes; PIECE_BYTES is the most that comes.
    size: int = 512 * 1024


@dataclass(frozen=True)
class ChunkReply:
    """A file from *offset*, as much of it as was asked for and there is."""

    sha256: str
    offset: int
    #: Of a large one that was unpacked: a view of the frame that it came in, no copy.
    data: bytes


@dataclass(frozen=True)
class FilesRequest:
    """Small files, all at once (bulk socket)."""

    saltenv: str
    #: Paths below the root, at most FILES_AT_ONCE; the contents fit one piece together.
    paths: tuple[str, ...]
    #: The content that is wanted of each; if one has changed since, the answer is a Failure.
    hashes: tuple[str, ...]


@dataclass(frozen=True)
class FilesReply:
    """Whole files, in the order asked."""

    contents: tuple[bytes, ...]


@dataclass(frozen=True)
class FilePush:
    """One piece of a file that a minion sends (cp.push), where the master takes any."""

    path: str
    sha256: str
    index: int
    count: int
    data: bytes
