"""Files that clients upload in pieces before a request refers to them by SHA-256."""

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

#: Maximum bytes of an uploaded file (agent packages are the largest).
BLOB_LIMIT = 256 * 1024 * 1024
PIECE_LIMIT = 8 * 1024 * 1024
#: Seconds without an upload after which a file, or pieces of one, are deleted. A request that uses
#: a file copies it.
KEEP_SECONDS = 24 * 3600
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class BadBlobError(UsageError):
    """The pieces do not match the SHA-256 of their file."""


class Blobs:
    """Content-addressed files below one private folder. Its methods block: call them in a thread.

    Args:
        folder: made with mode 0700.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = private_folder(folder)
        self._partial = private_folder(folder / "partial")

    def path(self, sha256: str) -> Path | None:
        """Return the path of the file with that hash, or None if it was not uploaded."""
        if not _SHA256.match(sha256):
            return None
        found = self._folder / sha256
        return found if found.is_file() else None

    def put(self, piece: BlobPut) -> bool:
        """Store one piece; return whether the file is now complete. Pieces may be repeated.

        Raises:
            BadBlobError: index, count or hash are invalid, or the complete file has another hash.
            LimitError: a piece or the file is too large.
        """
        if not _SHA256.match(piece.sha256) or not 0 <= piece.index < piece.count <= 4096:
            raise BadBlobError("sha256, index or count of a piece are invalid")
        if len(piece.data) > PIECE_LIMIT:
            raise LimitError(f"a piece of {len(piece.data)} bytes exceeds {PIECE_LIMIT}")
        held = self.path(piece.sha256)
        if held is not None:
            # Another upload means that the file is still needed.
            os.utime(held)
            return True
        folder = private_folder(self._partial / f"{piece.sha256}.{piece.count}")
        # Only the joined file is made durable; its hash shows if it is correct.
        (folder / str(piece.index)).write_bytes(piece.data)
        names = [folder / str(index) for index in range(piece.count)]
        sizes = [name.stat().st_size for name in names if name.exists()]
        if sum(sizes) > BLOB_LIMIT:
            shutil.rmtree(folder)
            raise LimitError(f"the file exceeds {BLOB_LIMIT} bytes")
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
            raise BadBlobError(f"the pieces do not have the SHA-256 {sha256}")
        whole.chmod(0o600)
        rename_durable(whole, self._folder / sha256)

    def sweep(self) -> None:
        """Delete files that are no longer needed, and incomplete uploads."""
        old = time.time() - KEEP_SECONDS
        for path in (*self._partial.iterdir(), *self._folder.iterdir()):
            if path == self._partial or path.stat().st_mtime >= old:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
