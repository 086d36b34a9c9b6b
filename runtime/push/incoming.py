"""Incoming parts: written to temporary files, and named once they are complete and correct."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Dict, Optional, Sequence, Set

from catena.core import failpoints
from catena.core.files import write_all
from catena.core.frozen import dataclass
from catena.fileserver.remote import WrongContentError
from catena.runtime.push.host_folder import Room
from catena.runtime.push.protocol import (
    JOB_HEAD,
    PART_LIMIT,
    ProgramError,
    Slice,
    Trouble,
)
from catena.runtime.push.protocol import sha256 as checked
from catena.runtime.push.runs import is_orphan


@dataclass
class _Partial:
    """A part whose beginning has arrived."""

    path: Path
    #: None: the part exists already, and further data is ignored.
    handle: Optional[int]
    size: int
    #: Number of bytes that have arrived.
    length: int = 0


class Incoming:
    """What one channel brings.

    Args:
        room: the folder.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._partial: Dict[str, _Partial] = {}
        self._jobs: Set[str] = set()

    def put(self, slices: Sequence[Slice], data: bytes) -> None:
        """Store the slices, whose bytes follow each other in *data*.

        Raises:
            ProgramError: they do not fit, or a content has another hash; nothing of it is stored.
            OSError: it cannot be written; nothing of it is stored.
        """
        if sum(one.length for one in slices) != len(data):
            raise ProgramError(Trouble.refused, "the bytes are not those of the slices")
        at = 0
        for one in slices:
            try:
                self._take(one, data[at : at + one.length])
            except BaseException:
                self._forget(one.sha256)
                raise
            at += one.length

    def _take(self, one: Slice, data: bytes) -> None:
        partial = self._begin(one) if one.offset == 0 else self._partial.get(one.sha256)
        if partial is None or partial.length != one.offset or partial.size != one.size:
            raise ProgramError(Trouble.refused, f"a slice of {one.sha256} is out of order")
        if one.offset + one.length > one.size or one.length < 0:
            raise ProgramError(Trouble.refused, f"a slice of {one.sha256} is longer than its part")
        if partial.handle is not None:
            write_all(partial.handle, data)
        partial.length += one.length
        if one.offset == 0 and data.startswith(JOB_HEAD):
            self._jobs.add(one.sha256)
        if partial.length == one.size:
            self._end(one.sha256, partial)

    def _begin(self, one: Slice) -> _Partial:
        checked(one.sha256)
        self._forget(one.sha256)
        if not 0 <= one.size <= PART_LIMIT:
            raise ProgramError(Trouble.refused, f"a part of {one.size} bytes, limit {PART_LIMIT}")
        path = self._room.incoming / f"{one.sha256}.{os.getpid()}"
        handle = None
        if self._room.parts.find(one.sha256) is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(path, flags, 0o600)
        self._partial[one.sha256] = _Partial(path, handle, one.size)
        return self._partial[one.sha256]

    def _end(self, sha256: str, partial: _Partial) -> None:
        if partial.handle is not None:
            failpoints.hit("ssh.put.whole")
            try:
                self._room.parts.take(sha256, partial.path)
            except WrongContentError as error:
                raise ProgramError(Trouble.content, str(error)) from None
        self._forget(sha256)

    def _forget(self, sha256: str) -> None:
        partial = self._partial.pop(sha256, None)
        if partial is not None and partial.handle is not None:
            os.close(partial.handle)
            partial.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove incomplete parts, and jobs that were not started."""
        for sha256 in self._jobs:
            with contextlib.suppress(OSError):
                self._room.parts.drop(sha256)
        for sha256 in list(self._partial):
            with contextlib.suppress(OSError):
                self._forget(sha256)

    def sweep(self) -> None:
        """Remove the files of killed processes."""
        for path in self._room.incoming.iterdir():
            if is_orphan(path):
                path.unlink(missing_ok=True)
