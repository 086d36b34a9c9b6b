"""Bytes under a checksum: what a power cut left torn or filled with zeros is not taken for whole.

A seal is the CRC-32 of the body and its length, four bytes each, before the body.
"""

from __future__ import annotations

import struct
import zlib
from typing import List, NamedTuple, Tuple

#: CRC-32 of the body, and its length.
SEAL = struct.Struct(">II")
#: What a seal adds to a body.
SEAL_BYTES = SEAL.size
#: How far the next whole body is looked for behind damage, bytes: a search costs 0.2 s per MiB.
SEARCH_BYTES = 8 * 1024 * 1024
#: Zeros at the end of a file that say that its last append did not reach the disk.
ZEROS = 16


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


class Found(NamedTuple):
    """What the bytes of a file of sealed bodies hold."""

    #: Each whole body, with where its seal begins and where it ends.
    bodies: List[Tuple[bytes, int, int]]
    #: How many stretches of the file are damaged; whole bodies around them are found all the same.
    damaged: int
    #: Bytes at the end that a power failure may have torn; they were never promised to anybody.
    torn: int


def salvage(data: bytes, follows: bool = False) -> Found:
    """Return every whole body of *data*, also behind and between damaged stretches.

    Args:
        data: the file, or what of it follows a whole body.
        follows: whether it is the latter.

    A seal that does not fit its body is looked at byte by byte until the next one that fits. What
    is left at the end counts as torn where an append that a power failure cut short looks like
    that: less than its seal announces, or zeros at its end. Anything else there is damage, as is
    a file without a whole body.
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
            return Found(bodies, damaged, len(data) - at)
        damaged += 1
        if following == len(data) and zlib.crc32(data[at + SEAL_BYTES :]) == _checksum(data, at):
            # Only the length is wrong: the body has its checksum.
            bodies.append((data[at + SEAL_BYTES :], at, len(data)))
        at = following
    return Found(bodies, damaged, 0)


def _end_of(data: bytes, at: int) -> int:
    """Return where the whole body ends whose seal begins at *at*; 0 where there is none."""
    if at + SEAL_BYTES >= len(data):
        return 0
    checksum, length = SEAL.unpack_from(data, at)
    end: int = at + SEAL_BYTES + length
    if not length or end > len(data):
        return 0
    return end if zlib.crc32(data[at + SEAL_BYTES : end]) == checksum else 0


def _next_whole(data: bytes, at: int) -> int:
    """Return where the next whole body begins behind *at*; the size of *data* without one."""
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
    """Return the checksum of the seal at *at*; -1 where there is no room for one."""
    if at + SEAL_BYTES >= len(data):
        return -1
    checksum, _ = SEAL.unpack_from(data, at)
    return int(checksum)
