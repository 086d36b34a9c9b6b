"""The pieces of a file that a minion pushes to the master."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Iterator

from catena.transport.messages import CHUNK_BYTES, FilePush


def pieces(path: str, source: Path) -> Iterator[FilePush]:
    """Yield the pieces of *source*; an empty file has one.

    Args:
        path: of the file on the master, below this minion's folder.
        source: the file; if it changes meanwhile, the master refuses it.

    Raises:
        OSError: it can't be read.
    """
    with source.open("rb") as handle:
        digest, size = hashlib.sha256(), 0
        for data in iter(lambda: handle.read(CHUNK_BYTES), b""):
            digest.update(data)
            size += len(data)
        count = max(1, -(-size // CHUNK_BYTES))
        handle.seek(0)
        for index in range(count):
            data = handle.read(CHUNK_BYTES)
            yield FilePush(path, digest.hexdigest(), index, count, data)
