"""An append-only file of records that a power failure cannot falsify.

One record is one line: CRC-32 in hex, a space, JSON, a newline. `append` returns only when the
record is on disk. After a power failure the last line may be torn: it was never confirmed and is
truncated. A complete line with a wrong checksum, or a file that has become shorter, is damage that
no power failure causes: the journal is refused.

`journal.mark` beside it contains the last durable size. It is written without a sync after the
record was synced, so after a power failure it may be too small, but never too large.

`chain_record` defines the meaning of the records.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, Optional, Tuple, Type

from catena.core import failpoints
from catena.core.errors import CatenaError, LimitError
from catena.core.files import is_misplaced, read_limited, sync_folder, write_all

#: Maximum bytes of a journal. A chain writes a few records per action; larger files are damaged.
JOURNAL_LIMIT = 256 * 1024 * 1024
#: Maximum bytes of a record. Larger results are shortened before (`results.shorten`).
RECORD_LIMIT = 4 * 1024 * 1024
#: Reserved disk space, so that an `end` can be written even when the disk is full.
RESERVE_BYTES = 1024 * 1024
_MARK_LIMIT = 64

Record = Dict[str, Any]

_LINE_START = re.compile(rb"[0-9a-f]{8} \{")


class JournalDamagedError(CatenaError):
    """A journal has a bad record before good ones."""


def encode_line(record: Record) -> bytes:
    """Return *record* as the bytes of one line.

    Raises:
        LimitError: it is larger than RECORD_LIMIT.
    """
    body = json.dumps(record, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    if len(body) > RECORD_LIMIT:
        raise LimitError(f"journal record of {len(body)} bytes; {RECORD_LIMIT} are allowed")
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decode_line(line: bytes) -> Optional[Record]:
    """Return the record of one line without its newline, or None if it is damaged."""
    if len(line) < 10 or line[8:9] != b" ":
        return None
    body = line[9:]
    if line[:8] != b"%08x" % zlib.crc32(body):
        return None
    try:
        record = json.loads(body)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def decode_all(data: bytes) -> Tuple[List[Record], int]:
    """Return the intact records of *data* and the length of the intact part in bytes.

    Raises:
        JournalDamagedError: a bad line precedes a good one, or record numbers have a gap.
    """
    records: List[Record] = []
    good = 0
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        record = decode_line(data[start:end]) if end >= 0 else None
        if record is None and end < 0 and decode_line(data[start:]) is not None:
            # Only the newline is missing; `Journal` adds it.
            record, end = decode_line(data[start:]), len(data) - 1
        if record is None:
            _refuse_good_line_after(data[start:])
            _refuse_whole_line(data[start:])
            break
        if record.get("seq") != len(records) + 1:
            raise JournalDamagedError(
                f"record {len(records) + 1} has the number {record.get('seq')}"
            )
        records.append(record)
        good = start = end + 1
    return records, good


def _refuse_good_line_after(tail: bytes) -> None:
    # Search everywhere, not only at line starts: the newline itself may be damaged.
    for start in _LINE_START.finditer(tail, 1):
        line = tail[start.start() :].partition(b"\n")
        if line[1] and decode_line(line[0]) is not None:
            raise JournalDamagedError("a damaged record precedes intact ones")


def _refuse_whole_line(tail: bytes) -> None:
    """Refuse a last line that is complete, or was until its newline changed.

    A line torn by a power failure has no newline, or zeros where nothing was written; a single
    zero may be a flipped bit.
    """
    if b"\0\0" not in tail and (b"\n" in tail or decode_line(tail[:-1]) is not None):
        raise JournalDamagedError("its last record is damaged")


class Journal:
    """An open journal: its records so far, and durable appends.

    Args:
        path: the file; created (durably, with its space reserve beside it) if missing.

    Raises:
        JournalDamagedError: see `decode_all`; the message names the file.
        LimitError: it is larger than JOURNAL_LIMIT.
        OSError: it cannot be read or created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if is_misplaced(path):
            raise JournalDamagedError(f"{path}: not a regular file")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._handle = os.open(path, flags, 0o600)
        try:
            self.records, self._size = self._load()
        except BaseException:
            os.close(self._handle)
            raise

    def _load(self) -> Tuple[List[Record], int]:
        found = os.fstat(self._handle).st_size
        if found > JOURNAL_LIMIT:
            raise LimitError(f"{self.path}: larger than {JOURNAL_LIMIT} bytes")
        try:
            records, good = decode_all(_read_all(self._handle, found))
        except JournalDamagedError as error:
            raise JournalDamagedError(f"{self.path}: {error}") from None
        _refuse_shorter(self.path, good, _marked_size(self.path))
        if good < found:
            os.ftruncate(self._handle, good)
            os.fsync(self._handle)
        if good and os.pread(self._handle, 1, good - 1) != b"\n":
            os.pwrite(self._handle, b"\n", good)
            os.fsync(self._handle)
            good += 1
        if not records:
            self._keep_reserve()
            sync_folder(self.path.parent)
        return records, good

    def _keep_reserve(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(_reserve(self.path), flags, 0o600)
        try:
            os.posix_fallocate(handle, 0, RESERVE_BYTES)
            os.fsync(handle)
        finally:
            os.close(handle)

    def append(self, record: Record, use_reserve: bool = False) -> Record:
        """Append *record* with its number; it is durable when this returns.

        Args:
            record: plain data; "seq" is set here.
            use_reserve: on a full disk release the reserve instead of failing. Meant for an `end`,
                whose effect has already happened. A `begin` fails instead, before any effect.

        Raises:
            OSError: it is not on disk, now or later.
            LimitError: it is too large.
        """
        numbered = {**record, "seq": len(self.records) + 1}
        line = encode_line(numbered)
        try:
            self._write(line)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not use_reserve:
                raise
            self.release_reserve()
            self._write(line)
        self.records.append(numbered)
        self._size += len(line)
        self._mark_size()
        return numbered

    def _mark_size(self) -> None:
        """Store the durable size; a mark that cannot be written only lets less damage be found."""
        # O_NONBLOCK: a pipe in its place must not stop the chain.
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            handle = os.open(_mark(self.path), flags, 0o600)
            try:
                os.pwrite(handle, _mark_of(self._size), 0)
            finally:
                os.close(handle)

    def _write(self, line: bytes) -> None:
        os.lseek(self._handle, self._size, os.SEEK_SET)
        try:
            failpoints.hit("journal.write")
            write_all(self._handle, line)
            failpoints.hit("journal.written")
            os.fsync(self._handle)
            failpoints.hit("journal.synced")
        except OSError:
            # Truncate a part of the record, so that no reader takes it for a record.
            os.ftruncate(self._handle, self._size)
            raise

    def close(self) -> None:
        """Close the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def release_reserve(self) -> None:
        """Release the reserve; nothing more will be written."""
        drop_reserve(self.path)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


def drop_reserve(path: Path) -> None:
    """Release the disk space reserved beside a journal."""
    with contextlib.suppress(IsADirectoryError):  # it reserves nothing
        _reserve(path).unlink(missing_ok=True)


def _reserve(path: Path) -> Path:
    return path.with_name(path.name + ".reserve")


def _mark(path: Path) -> Path:
    return path.with_name(path.name + ".mark")


def _mark_of(size: int) -> bytes:
    body = b"%016x" % size
    return b"%08x %s\n" % (zlib.crc32(body), body)


def _marked_size(path: Path) -> int:
    """Return the size in the mark of a journal; 0 without an intact mark."""
    try:
        data = read_limited(_mark(path), _MARK_LIMIT)
        size = int(data[9:25], 16)
    except (OSError, ValueError, CatenaError):
        return 0
    return size if data == _mark_of(size) else 0


def _refuse_shorter(path: Path, good: int, size: int) -> None:
    """Refuse a journal with fewer intact bytes than its mark says."""
    if good < size:
        raise JournalDamagedError(f"{path}: {good} bytes of it are intact, {size} were written")


def read_records(path: Path) -> List[Record]:
    """Return the intact records of a journal without changing it; [] if there is none.

    Raises:
        JournalDamagedError: see `decode_all`.
        LimitError: it is larger than JOURNAL_LIMIT, or no regular file.
    """
    # Read the mark first: a job may append to its journal meanwhile, which only raises the mark.
    size = _marked_size(path)
    try:
        data = read_limited(path, JOURNAL_LIMIT)
    except FileNotFoundError:
        return []
    if len(data) < size != _marked_size(path):
        # Another run of the chain has replaced this folder between the two reads.
        return read_records(path)
    try:
        records, good = decode_all(data)
    except JournalDamagedError as error:
        raise JournalDamagedError(f"{path}: {error}") from None
    _refuse_shorter(path, good, size)
    return records


def _read_all(handle: int, size: int) -> bytes:
    parts = []
    os.lseek(handle, 0, os.SEEK_SET)
    while size > 0:
        part = os.read(handle, min(size, 1 << 20))
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
