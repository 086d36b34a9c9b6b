"""Bodies with a checksum, so that data torn or zeroed by a power failure is recognised.

A seal precedes the body: the CRC-32 of the body and its length, four bytes each.
"""

from __future__ import annotations

import struct
import zlib
from typing import List, NamedTuple, Tuple

#: CRC-32 of the body, and its length.
SEAL = struct.Struct(">II")
#: Bytes that a seal adds to a body.
SEAL_BYTES = SEAL.size
#: Maximum bytes searched for the next intact body after damage: a search takes 0.2 s per MiB.
SEARCH_BYTES = 8 * 1024 * 1024
#: Number of zeros at the end of a file from which its last append counts as lost.
ZEROS = 16


def seal(body: bytes) -> bytes:
    """Return *body* with its seal."""
    return SEAL.pack(zlib.crc32(body), len(body)) + body


def unseal(data: bytes) -> bytes:
    """Return the body of *data*.

    Raises:
        ValueError: it is torn or damaged.
    """
    body = data[SEAL_BYTES:]
    if data[:SEAL_BYTES] != SEAL.pack(zlib.crc32(body), len(body)) or not body:
        raise ValueError("torn or damaged")
    return body


class UnsealedBodies(NamedTuple):
    """Content of a file of sealed bodies."""

    #: Each intact body, with the offsets of the beginning of its seal and of its end.
    bodies: List[Tuple[bytes, int, int]]
    #: Number of damaged stretches; intact bodies around them are found nevertheless.
    damaged: int
    #: Bytes at the end that a power failure may have torn; they were never confirmed.
    torn: int


def salvage(data: bytes, follows: bool = False) -> UnsealedBodies:
    """Return every intact body of *data*, also after and between damaged stretches.

    Args:
        data: the file, or its part after an intact body.
        follows: whether it is such a part.

    After a seal that does not match its body, the next matching one is searched byte by byte. The
    rest at the end counts as torn if it looks like an append that a power failure cut short: less
    than its seal announces, or zeros at its end. Any other rest is damage, and so is a file
    without an intact body.
    """
    bodies, damaged, at = [], 0, 0
    while at < len(data):
        end = _end_of(data, at)
        if end:
            bodies.append((data[at + SEAL_BYTES : end], at, end))
            at = end
            continue
        following = _next_whole(data, at + 1)
        if following == len(data) and (at or follows) and _is_torn(data[at:]):
            return UnsealedBodies(bodies, damaged, len(data) - at)
        damaged += 1
        if following == len(data) and zlib.crc32(data[at + SEAL_BYTES :]) == _checksum(data, at):
            # Only the length is damaged: the body matches its checksum.
            bodies.append((data[at + SEAL_BYTES :], at, len(data)))
        at = following
    return UnsealedBodies(bodies, damaged, 0)


def _end_of(data: bytes, at: int) -> int:
    """Return the end of the intact body whose seal begins at *at*; 0 if there is none."""
    if at + SEAL_BYTES >= len(data):
        return 0
    checksum, length = SEAL.unpack_from(data, at)
    end: int = at + SEAL_BYTES + length
    if not length or end > len(data):
        return 0
    return end if zlib.crc32(data[at + SEAL_BYTES : end]) == checksum else 0


def _next_whole(data: bytes, at: int) -> int:
    """Return the offset of the next intact body after *at*; the size of *data* if none."""
    until = min(len(data), at + SEARCH_BYTES)
    while at + SEAL_BYTES < until:
        if _end_of(data, at):
            return at
        at += 1
    return len(data)


def _is_torn(tail: bytes) -> bool:
    if len(tail) <= SEAL_BYTES or not any(tail[-ZEROS:]):
        return True
    checksum, length = SEAL.unpack_from(tail)
    body = tail[SEAL_BYTES:]
    return bool(length > len(body)) and zlib.crc32(body) != checksum


def _checksum(data: bytes, at: int) -> int:
    """Return the checksum in the seal at *at*; -1 if the data is too short."""
    if at + SEAL_BYTES >= len(data):
        return -1
    checksum, _ = SEAL.unpack_from(data, at)
    return int(checksum)
