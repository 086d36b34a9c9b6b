"""Finds damage in SQLite's write-ahead log that SQLite itself mistakes for the end of the log.

SQLite reads the log up to the first frame whose checksum is wrong, and silently drops the rest
(https://www.sqlite.org/fileformat2.html#the_write_ahead_log). That is right for the last
transaction, which a power failure may have torn. But a frame behind the next commit was written
after an fsync of everything before it: if there is such a frame, durable transactions are damaged.
"""

from __future__ import annotations

import struct
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path

_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
#: The magic number without its last bit, which means that checksums use big-endian words.
_MAGIC = 0x377F0682
_VERSION = 3007000
_MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class _Log:
    page_size: int
    salts: bytes
    big_endian: bool
    checksum: tuple[int, int]


def faults(database: Path) -> list[str]:
    """Return the errors in the log of a database that no process has open; [] if it is sound."""
    path = database.with_name(f"{database.name}-wal")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    if not data.strip(b"\0"):
        # Empty, or space that was allocated before the first commit.
        return []
    log = _header(data)
    if log is None:
        return [f"{path}: its header is damaged, so its transactions can't be read"]
    bad = _first_bad(data, log)
    size = _FRAME_HEADER_BYTES + log.page_size
    committed = False
    for number, start in enumerate(range(_HEADER_BYTES + bad * size, len(data), size), bad + 1):
        # Frames have the salts of the header; stale frames of an earlier round have others.
        salts = data[start + 8 : start + 12], data[start + 12 : start + 16]
        ours = [salts[0] == log.salts[:4], salts[1] == log.salts[4:]]
        if all(ours) and committed:
            text = f"frame {bad + 1} is damaged, but committed frames follow it ({number})"
            return [f"{path}: {text}"]
        # One flipped bit spoils one of the two; a new round of the log changes both.
        if all(ours) or (number == bad + 1 and any(ours)):
            committed |= data[start + 4 : start + 8] != b"\0\0\0\0"
    return []


def _header(data: bytes) -> _Log | None:
    if len(data) < _HEADER_BYTES:
        return None
    magic, version, page_size = struct.unpack(">III", data[:12])
    big_endian = bool(magic & 1)
    found = _checksum(data[:24], (0, 0), big_endian)
    if magic & ~1 != _MAGIC or version != _VERSION or found != struct.unpack(">II", data[24:32]):
        return None
    return _Log(page_size, data[16:24], big_endian, found)


def _first_bad(data: bytes, log: _Log) -> int:
    """Return the index of the first frame that SQLite considers the end of the log."""
    size = _FRAME_HEADER_BYTES + log.page_size
    found, number = log.checksum, 0
    for start in range(_HEADER_BYTES, len(data) - size + 1, size):
        if data[start + 8 : start + 16] != log.salts:
            break
        found = _checksum(data[start : start + 8], found, log.big_endian)
        page = data[start + _FRAME_HEADER_BYTES : start + size]
        found = _checksum(page, found, log.big_endian)
        if found != struct.unpack(">II", data[start + 16 : start + 24]):
            break
        number += 1
    return number


def _checksum(data: bytes, start: tuple[int, int], big_endian: bool) -> tuple[int, int]:
    words = array("I", data)
    if big_endian != (sys.byteorder == "big"):
        words.byteswap()
    first, second = start
    for index in range(0, len(words), 2):
        first = (first + words[index] + second) & _MASK
        second = (second + words[index + 1] + first) & _MASK
    return first, second
