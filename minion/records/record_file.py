"""A file to which records are added, and out of which they are read by their place.

Each record is sealed. What stands behind the last whole one, or is not whole, was on its way at a
power cut and never promised to anybody.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Iterable, Iterator, List, NamedTuple, Sequence, Tuple

from catena.core.errors import CatenaError
from catena.core.files import append, sync_folder, write_all
from catena.minion.records.sealed import SEAL, SEAL_BYTES, salvage, seal, unseal

#: What is held in memory while a file is written anew.
_PIECE_BYTES = 1024 * 1024
#: How much is looked through behind the first record that is not whole.
_SALVAGE_BYTES = 64 * 1024 * 1024


class RecordDamagedError(CatenaError):
    """A record is not what was written."""


class Place(NamedTuple):
    """Where a record lies, its seal included."""

    at: int
    size: int


class RecordFile:
    """One such file. It is there from the first record on, until it is dropped.

    Args:
        path: the file.
        limit: longest record, bytes.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self._path, self._limit = path, limit
        self._handle = -1
        #: Up to where it is good.
        self.size = 0
        #: Whether something lies behind that: nothing is added to such a file.
        self._torn = False
        #: Whether its name is durable.
        self._named = False
        #: Records that were found not to be whole, with whole ones behind them perhaps.
        self.damaged = 0

    def load(self) -> Iterator[Tuple[Place, bytes]]:
        """Yield what the file holds; to be exhausted before anything else is done.

        Records that are not whole are left out; whole ones behind them are found all the same.

        Raises:
            OSError: it can't be read.
        """
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
                place = Place(self.size, SEAL_BYTES + length)
                self.size += place.size
                yield place, record
            stream.seek(self.size)
            rest = stream.read(_SALVAGE_BYTES)
            # A file goes when nothing waits, and begins with a record.
            self.damaged = int(not (self.size or rest))
            yield from self._salvaged(rest, bool(self.size))
            self._torn = self.size < os.fstat(stream.fileno()).st_size

    def _salvaged(self, rest: bytes, follows: bool) -> Iterator[Tuple[Place, bytes]]:
        """Yield the whole records of what begins with one that is not whole.

        Args:
            rest: the bytes.
            follows: whether whole records stand in front of it.
        """
        start, found = self.size, salvage(rest, follows)
        self.damaged += found.damaged
        for record, at, end in found.bodies:
            self.size = start + end
            yield Place(start + at, end - at), record

    def exists(self) -> bool:
        """Return whether there is such a file."""
        return self._path.exists()

    def add(self, records: Sequence[bytes]) -> List[Place]:
        """Add *records* and return their places when they, and all before them, are durable.

        Raises:
            OSError: none of them is in the file, nor will be found there later.
        """
        if self._torn:
            self.rewrite([Place(0, self.size)])
        data = [seal(record) for record in records]
        places: List[Place] = []
        at = self.size
        for sealed in data:
            places.append(Place(at, len(sealed)))
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

    def read(self, place: Place) -> bytes:
        """Return one record.

        Raises:
            RecordDamagedError: it is not what was written.
            OSError: it can't be read.
        """
        whole = os.pread(self._opened(), place.size, place.at)
        try:
            return unseal(whole)
        except ValueError:
            text = f"{self._path}: the record at {place.at} is damaged"
            raise RecordDamagedError(text) from None

    def rewrite(self, keep: Iterable[Place]) -> List[Place]:
        """Keep only what lies at *keep*; return where that is now.

        After a cut the file is wholly the old or the new one, and new once its folder was synced,
        which `add` does.

        Raises:
            OSError: the file is as it was.
        """
        fresh = self._path.with_name(f".{self._path.name}.new")
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(fresh, flags, 0o600)
        places, size = [], 0
        try:
            for place in keep:
                self._copy(place, handle)
                places.append(Place(size, place.size))
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
        """Remove the file, for good once its folder is synced."""
        self.close()
        self._path.unlink(missing_ok=True)
        self.size, self._torn, self._named = 0, False, False

    def close(self) -> None:
        """Let go of the file."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def _opened(self) -> int:
        if self._handle < 0:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._handle = os.open(self._path, flags, 0o600)
        return self._handle

    def _take_back(self) -> None:
        """Leave nothing of records that could not be kept: the next ones would join them."""
        self._torn = True
        if self._handle >= 0:
            with contextlib.suppress(OSError):  # else it is written anew before the next
                os.ftruncate(self._handle, self.size)
                self._torn = False

    def _copy(self, place: Place, handle: int) -> None:
        at, end = place.at, place.at + place.size
        while at < end:
            piece = os.pread(self._opened(), min(_PIECE_BYTES, end - at), at)
            if not piece:
                raise OSError(f"{self._path}: ends at {at}, not at {end}")
            write_all(handle, piece)
            at += len(piece)
