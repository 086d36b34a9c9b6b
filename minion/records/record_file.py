"""A file of records, which are appended and read by their position.

Each record is sealed. Whatever follows the last intact record was being written during a power
failure and was never confirmed.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Iterable, Iterator, List, NamedTuple, Sequence, Tuple

from catena.core.errors import CatenaError
from catena.core.files import append, is_misplaced, sync_folder, write_all
from catena.minion.records.sealed import SEAL, SEAL_BYTES, salvage, seal, unseal

#: Bytes held in memory while a file is rewritten.
_PIECE_BYTES = 1024 * 1024
#: Maximum bytes searched for intact records after the first damaged one.
_SALVAGE_BYTES = 64 * 1024 * 1024


class RecordDamagedError(CatenaError):
    """A record is damaged."""


class RecordSpan(NamedTuple):
    """Position of a record, its seal included."""

    at: int
    size: int


class RecordFile:
    """A record file. It exists from the first record until `drop`.

    Args:
        path: the file.
        limit: maximum bytes of a record.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self._path, self._limit = path, limit
        self._handle = -1
        #: Size of the intact part in bytes.
        self.size = 0
        #: Whether other data follows the intact part; nothing is appended to such a file.
        self._torn = False
        #: Whether the file's name is durable.
        self._named = False
        #: Number of damaged records, which intact ones may follow.
        self.damaged = 0

    def load(self) -> Iterator[Tuple[RecordSpan, bytes]]:
        """Yield the records of the file; exhaust the iterator before any other call.

        Damaged records are omitted; intact ones after them are found nevertheless. A folder or
        a pipe contains no records.

        Raises:
            OSError: it cannot be read.
        """
        if is_misplaced(self._path):
            return
        try:
            stream = self._path.open("rb")
        except FileNotFoundError:
            return
        with stream:
            while True:
                head = stream.read(SEAL_BYTES)
                length = SEAL.unpack(head)[1] if len(head) == SEAL_BYTES else 0
                data = stream.read(length) if 0 < length <= self._limit else b""
                try:
                    record = unseal(head + data)
                except ValueError:
                    break
                place = RecordSpan(self.size, SEAL_BYTES + length)
                self.size += place.size
                yield place, record
            stream.seek(self.size)
            rest = stream.read(_SALVAGE_BYTES)
            # The file is removed when nothing waits, so it must begin with a record.
            self.damaged = int(not (self.size or rest))
            yield from self._salvaged(rest, bool(self.size))
            self._torn = self.size < os.fstat(stream.fileno()).st_size

    def _salvaged(self, rest: bytes, follows: bool) -> Iterator[Tuple[RecordSpan, bytes]]:
        """Yield the intact records of data that begins with a damaged one.

        Args:
            rest: the data.
            follows: whether intact records precede it.
        """
        start, found = self.size, salvage(rest, follows)
        self.damaged += found.damaged
        for record, at, end in found.bodies:
            self.size = start + end
            yield RecordSpan(start + at, end - at), record

    def exists(self) -> bool:
        """Return whether the file exists."""
        return self._path.exists()

    def add(self, records: Sequence[bytes]) -> List[RecordSpan]:
        """Append *records*; return their positions once they and all before them are durable.

        Raises:
            OSError: none of them is in the file, now or later.
        """
        if self._torn:
            self.rewrite([RecordSpan(0, self.size)])
        data = [seal(record) for record in records]
        places: List[RecordSpan] = []
        at = self.size
        for sealed in data:
            places.append(RecordSpan(at, len(sealed)))
            at += len(sealed)
        try:
            handle = self._opened()
            append(handle, b"".join(data))
            os.fdatasync(handle)
            if not self._named:
                sync_folder(self._path.parent)
        except OSError:
            self._take_back()
            raise
        self.size, self._named = at, True
        return places

    def read(self, place: RecordSpan) -> bytes:
        """Return one record.

        Raises:
            RecordDamagedError: it is damaged.
            OSError: it cannot be read.
        """
        whole = os.pread(self._opened(), place.size, place.at)
        try:
            return unseal(whole)
        except ValueError:
            text = f"{self._path}: the record at {place.at} is damaged"
            raise RecordDamagedError(text) from None

    def rewrite(self, keep: Iterable[RecordSpan]) -> List[RecordSpan]:
        """Keep only the records at *keep*; return their new positions.

        After a power failure the file is either completely old or completely new. It is new for
        certain once its folder was synced, which `add` does.

        Raises:
            OSError: the file is unchanged.
        """
        fresh = self._path.with_name(f".{self._path.name}.new")
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(fresh, flags, 0o600)
        places, size = [], 0
        try:
            for place in keep:
                self._copy(place, handle)
                places.append(RecordSpan(size, place.size))
                size += place.size
            os.fsync(handle)
            fresh.rename(self._path)
        except OSError:
            os.close(handle)
            fresh.unlink(missing_ok=True)
            raise
        self.close()
        self._handle, self.size, self._torn, self._named = handle, size, False, False
        return places

    def drop(self) -> None:
        """Remove the file; this is durable once its folder is synced."""
        self.close()
        self._path.unlink(missing_ok=True)
        self.size, self._torn, self._named = 0, False, False

    def close(self) -> None:
        """Close the file."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def _opened(self) -> int:
        if self._handle < 0:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._handle = os.open(self._path, flags, 0o600)
        return self._handle

    def _take_back(self) -> None:
        """Truncate records that could not be written, so that they do not join the next ones."""
        self._torn = True
        if self._handle >= 0:
            with contextlib.suppress(OSError):  # otherwise the file is rewritten first
                os.ftruncate(self._handle, self.size)
                self._torn = False

    def _copy(self, place: RecordSpan, handle: int) -> None:
        at, end = place.at, place.at + place.size
        while at < end:
            piece = os.pread(self._opened(), min(_PIECE_BYTES, end - at), at)
            if not piece:
                raise OSError(f"{self._path}: ends at {at}, not at {end}")
            write_all(handle, piece)
            at += len(piece)
