"""Files of the master in pieces (bulk socket), and files that minions push to it."""

from __future__ import annotations

from catena.core.frozen import dataclass


@dataclass(frozen=True)
class ManifestRequest:
    """Asks which files an environment has for this minion (bulk socket)."""

    saltenv: str


@dataclass(frozen=True)
class ManifestReply:
    """The size and hash of the file list, which ChunkRequest(path="") then fetches."""

    sha256: str
    size: int
    environments: tuple[str, ...]


@dataclass(frozen=True)
class ChunkRequest:
    """Asks for a piece of one file (bulk socket)."""

    saltenv: str
    #: Path below the root; "" for the manifest itself.
    path: str
    #: Hash of the expected content; if the file has changed since, the answer is a Failure.
    sha256: str
    offset: int
    #: Requested bytes; the answer has at most PIECE_BYTES.
    size: int = 512 * 1024


@dataclass(frozen=True)
class ChunkReply:
    """A piece of a file from *offset*: the requested size, or less at the end of the file."""

    sha256: str
    offset: int
    #: For a large piece after unpacking: a view into the received frame, not a copy.
    data: bytes


@dataclass(frozen=True)
class FilesRequest:
    """Asks for several small files at once (bulk socket)."""

    saltenv: str
    #: Paths below the root, at most FILES_AT_ONCE; together the contents fit into one message.
    paths: tuple[str, ...]
    #: Hash of each expected content; if a file has changed since, the answer is a Failure.
    hashes: tuple[str, ...]


@dataclass(frozen=True)
class FilesReply:
    """Whole files, in the order of the request."""

    contents: tuple[bytes, ...]


@dataclass(frozen=True)
class FilePush:
    """A piece of a file that a minion sends (cp.push), if the master accepts pushed files."""

    path: str
    sha256: str
    index: int
    count: int
    data: bytes


@dataclass(frozen=True)
class FileStored:
    """The master has stored a piece of a pushed file, and with *done* the whole file."""

    path: str
    sha256: str
    done: bool
