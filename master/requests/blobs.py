"""Files that clients send in pieces before a request names them by their SHA-256."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from pathlib import Path

from catena.client.requests.blobs import BlobPut
from catena.core.errors import LimitError, UsageError
from catena.core.files import private_folder, rename_durable

#: Largest file that a client may send (agent packages are the largest of them).
BLOB_LIMIT = 256 * 1024 * 1024
PIECE_LIMIT = 8 * 1024 * 1024
#: A file, or pieces of one, that nobody sent for this long is dropped: a request that names a
#: file takes a copy of its own.
KEEP_SECONDS = 24 * 3600
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class BadBlobError(UsageError):
    """The pieces do not make the file that they name."""


class Blobs:
    """Content-addressed files below one private folder. Its methods block: call them in a thread.

    Args:
        folder: made with mode 0700.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = private_folder(folder)
        self._partial = private_folder(folder / "partial")

    def path(self, sha256: str) -> Path | None:
        """Return where the file of that hash lies, or None when it was not sent."""
        if not _SHA256.match(sha256):
            return None
        found = self._folder / sha256
        return found if found.is_file() else None

    def put(self, piece: BlobPut) -> bool:
        """Keep one piece; return whether the file is whole now. Pieces may come twice.

        Raises:
            BadBlobError: index, count or hash make no sense, or the whole has another hash.
            LimitError: a piece or the whole is too large.
        """
        if not _SHA256.match(piece.sha256) or not 0 <= piece.index < piece.count <= 4096:
            raise BadBlobError("sha256, index or count of a piece make no sense")
        if len(piece.data) > PIECE_LIMIT:
            raise LimitError(f"a piece has at most {PIECE_LIMIT} bytes")
        held = self.path(piece.sha256)
        if held is not None:
            # Sent again means wanted again.
            os.utime(held)
            return True
        folder = private_folder(self._partial / f"{piece.sha256}.{piece.count}")
        # Not durable: only the joined file is, and the hash says whether it is right.
        (folder / str(piece.index)).write_bytes(piece.data)
        names = [folder / str(index) for index in range(piece.count)]
        sizes = [name.stat().st_size for name in names if name.exists()]
        if sum(sizes) > BLOB_LIMIT:
            shutil.rmtree(folder)
            raise LimitError(f"a file has at most {BLOB_LIMIT} bytes")
        if len(sizes) < piece.count:
            return False
        self._join(piece.sha256, names)
        shutil.rmtree(folder)
        return True

    def _join(self, sha256: str, names: list[Path]) -> None:
        digest = hashlib.sha256()
        whole = names[0].parent / "whole"
        with whole.open("wb") as stream:
            for name in names:
                data = name.read_bytes()
                digest.update(data)
                stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if digest.hexdigest() != sha256:
            shutil.rmtree(names[0].parent)
            raise BadBlobError("the pieces do not have the hash that they name")
        whole.chmod(0o600)
        rename_durable(whole, self._folder / sha256)

    def sweep(self) -> None:
        """Drop files that were taken or forgotten, and pieces that were never finished."""
        old = time.time() - KEEP_SECONDS
        for path in (*self._partial.iterdir(), *self._folder.iterdir()):
            if path == self._partial or path.stat().st_mtime >= old:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
