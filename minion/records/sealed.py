"""Bytes under a checksum: what a power cut left torn or filled with zeros is not taken for whole.

A seal is the CRC-32 of the body and its length, four bytes each, before the body.
"""

from __future__ import annotations

import struct
import zlib
from typing import Iterator, Tuple

#: CRC-32 of the body, and its length.
SEAL = struct.Struct(">II")
#: What a seal adds to a body.
SEAL_BYTES = SEAL.size


def seal(body: bytes) -> bytes:
    """Return *body* under its seal."""
    return SEAL.pack(zlib.crc32(body), len(body)) + body


def unseal(data: bytes) -> bytes:
    """Return the body of *data*.

    Raises:
        ValueError: it is not whole.
    """
    body = data[SEAL_BYTES:]
    if data[:SEAL_BYTES] != SEAL.pack(zlib.crc32(body), len(body)) or not body:
        raise ValueError("torn or damaged")
    return body


def unseal_all(data: bytes) -> Iterator[Tuple[bytes, int]]:
    """Yield each body of bodies in a row, and where it ends, up to the first that is not whole."""
    start = 0
    while start + SEAL_BYTES < len(data):
        checksum, length = SEAL.unpack_from(data, start)
        end = start + SEAL_BYTES + length
        body = data[start + SEAL_BYTES : end]
        if not body or len(body) != length or zlib.crc32(body) != checksum:
            return
        yield body, end
        start = end
