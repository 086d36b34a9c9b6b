"""The daemon's log of jobs: all that must survive a power failure, one record per event.

    cache_dir/jobs.log

A job's folder (`jobs`) is shared with its processes. It survives them, but nobody syncs it, so a
power failure may take any part of it. What the daemon confirms or reports is first written here,
by one append and one sync. After a power failure the folders are repaired from this log.

Records are sealed (`minion.records.sealed`), so that a torn last record is recognised.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from catena.core import frozen, records
from catena.core.errors import CatenaError
from catena.core.files import (
    append,
    is_misplaced,
    read_limited,
    size_of,
    sync_folder,
    write_durable,
)
from catena.core.frozen import dataclass, field
from catena.minion.records.sealed import UnsealedBodies, salvage, seal, unseal
from catena.transport import wire

#: Growth in bytes after which ended jobs are removed from the file.
SHRINK_BYTES = 128 * 1024
_LIMIT = 1024 * 1024 * 1024
#: Maximum number of buffered records before a write.
NOTES = 64
_LOST = "records of {} jobs: open jobs without a result return as interrupted"


@dataclass(frozen=True)
class JobLogRecord:
    """A fact about a job, or everything that is known about it."""

    jid: str
    #: id of the boot in which this was written.
    boot: str
    #: A process may have begun the job in that boot.
    begun: bool = False
    #: The order as stored in the folder; b"": not in this record. The same holds for `ret` and
    #: `aside`.
    order: bytes = b""
    #: Body of the job's JobReturned.
    ret: bytes = b""
    aside: bytes = b""
    #: Set if the master has stored the return: seconds since the epoch until which the order may
    #: arrive again. 0: the job is open.
    until: int = 0
    #: Process to which the agent sent the job (a `folder.Claim` as data). {}: see the job's
    #: folder; this holds from a later record on that only has `begun`.
    claim: Dict[str, Any] = field(default_factory=dict)
    #: Latest start on the monotonic clock of that boot. 0.0: as in the order.
    begin_by: float = 0.0


class JobLog:
    """The log of one minion; only the daemon opens it.

    Args:
        path: the file; its folder must exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        #: Whether the file has lost records of some jobs.
        self.is_damaged = is_misplaced(path) or size_of(path) > _LIMIT
        if self.is_damaged:
            _set_aside(path)
        self._is_there = path.exists()
        self._shrink_at = SHRINK_BYTES
        self._size = self._last = self._settle() if self._is_there else 0
        #: jid -> offset and size of the record with its return.
        self._returns: Dict[str, Tuple[int, int]] = {}
        #: Records that are not in the file yet.
        self._noted: List[bytes] = []

    def add(self, line: JobLogRecord, durable: bool = True) -> None:
        """Append *line*; fsync it if *durable*, otherwise it may be lost in a power failure.

        Args:
            line: the record.
            durable: whether it must survive a power failure.

        Raises:
            OSError: nothing of it is in the file.
        """
        more, data = _apart(line)
        self._write(b"".join([*self._noted, more, data]), durable)
        self._noted.clear()
        self._last = self._size - len(more) - len(data)
        self._index(line, self._size - len(data), len(data))

    def note(self, line: JobLogRecord) -> None:
        """Buffer *line* until the next `add` or `flush`; a kill of this process loses it.

        Raises:
            OSError: the buffer was full and could not be written.
        """
        self._noted.append(_sealed(line))
        self._index(line, 0, 0)
        if len(self._noted) >= NOTES:
            self.flush()

    @property
    def has_notes(self) -> bool:
        """Return whether there are records that are not in the file yet."""
        return bool(self._noted)

    def flush(self) -> None:
        """Write the buffered records.

        Raises:
            OSError: none of them is in the file.
        """
        if self._noted:
            self._write(b"".join(self._noted), durable=False)
            self._last = self._size
            self._noted.clear()

    def has_return(self, jid: str) -> bool:
        """Return whether the log has the return of an open job."""
        return jid in self._returns

    def read_return(self, jid: str) -> bytes:
        """Return the body of a return in the log.

        Raises:
            OSError: it cannot be read.
            ValueError: it is damaged.
        """
        at, size = self._returns[jid]
        handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            body = unseal(os.pread(handle, size, at))
        finally:
            os.close(handle)
        line = _decoded(body)
        if line is None or line.jid != jid or not line.ret:
            raise ValueError(f"{self._path}: no return of {jid} at {at}")
        return line.ret

    def _write(self, data: bytes, durable: bool) -> None:
        handle = self._open(os.O_CREAT | os.O_APPEND)
        try:
            append(handle, data)
            if durable:
                os.fdatasync(handle)
        except OSError:
            # Truncate a record that a full disk cut short; it would hide the next one.
            os.ftruncate(handle, self._size)
            raise
        finally:
            os.close(handle)
        if not self._is_there:
            sync_folder(os.path.dirname(self._path))  # noqa: PTH120
            self._is_there = True
        self._size += len(data)

    def _index(self, line: JobLogRecord, at: int, size: int) -> None:
        if line.until:
            self._returns.pop(line.jid, None)
        elif line.ret:
            self._returns[line.jid] = (at, size)

    def take_back(self) -> None:
        """Remove the record that was added last, durably: its event did not happen after all."""
        handle = self._open()
        try:
            os.ftruncate(handle, self._last)
            os.fdatasync(handle)
        finally:
            os.close(handle)
        self._size = self._last

    def read(self) -> Dict[str, JobLogRecord]:
        """Return what is known about each job, oldest first."""
        known: Dict[str, JobLogRecord] = {}
        if not self._is_there:
            return known
        for line, at, size in _lines(b"".join([read_limited(self._path, _LIMIT), *self._noted])):
            known[line.jid] = _joined(known.get(line.jid), line)
            self._index(line, at, size)
        return known

    def report_lost(self, jobs: int) -> None:
        """Report that records of *jobs* open jobs are missing, which no damaged part explains."""
        from catena.runtime import damage

        path = Path(self._path)
        what = f"it has no record of {jobs} open jobs"
        damage.report(path.parent, damage.Damage(self._path, what, "", _LOST.format("these")))

    @property
    def is_long(self) -> bool:
        """Return whether the file should be shrunk."""
        return self._size >= self._shrink_at

    def shrink(self) -> None:
        """Remove the ended jobs; their end must be durable elsewhere.

        Raises:
            OSError: the disk is full; the file is unchanged.
        """
        self.flush()
        lines = [line for line in self.read().values() if not line.until]
        data = [_apart(line) for line in lines]
        write_durable(self._path, b"".join(more + sealed for more, sealed in data))
        self._size = 0
        for line, (more, sealed) in zip(lines, data):
            self._index(line, self._size + len(more), len(sealed))
            self._size += len(more) + len(sealed)
        self._last = self._size
        self._shrink_at = max(SHRINK_BYTES, 2 * self._size)

    def _settle(self) -> int:
        """Truncate a torn tail, make the rest and the file's name durable; return the size.

        Intact records of a damaged file are kept.

        The previous daemon may have been killed before it synced the file or its folder. The new
        daemon confirms jobs that it finds here, so they must survive a power failure from now on.
        """
        data = read_limited(self._path, _LIMIT)
        found = salvage(data)
        if found.damaged:
            self.is_damaged = True
            _report(self._path, found, data)
            with contextlib.suppress(OSError):  # a full disk: the file is used unchanged
                data = b"".join(seal(body) for body, _, _ in found.bodies)
                write_durable(self._path, data)
                return len(data)
        good = len(data) - found.torn
        handle = self._open()
        try:
            if good < len(data):
                os.ftruncate(handle, good)
            os.fdatasync(handle)
        finally:
            os.close(handle)
        sync_folder(os.path.dirname(self._path))  # noqa: PTH120
        return good

    def _open(self, more: int = 0) -> int:
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | more
        return os.open(self._path, flags, 0o600)


def look(path: Path) -> Dict[str, JobLogRecord]:
    """Return what the log at *path* contains about each job, oldest first. Nothing is changed.

    Raises:
        OSError: it cannot be read.
    """
    known: Dict[str, JobLogRecord] = {}
    for line, _, _ in _lines(read_limited(path, _LIMIT)) if path.exists() else ():
        known[line.jid] = _joined(known.get(line.jid), line)
    return known


def _lines(data: bytes) -> Iterator[Tuple[JobLogRecord, int, int]]:
    """Yield each record of a log with its offset and size."""
    for body, at, end in salvage(data).bodies:
        line = _decoded(body)
        if line is not None:
            yield line, at, end - at


def _report(path: str, found: UnsealedBodies, data: bytes) -> None:
    from catena.runtime import damage

    what = f"{found.damaged} parts of it are damaged"
    saved = f"{len(found.bodies)} lines"
    told = damage.Damage(path, what, saved, _LOST.format("other"))
    damage.report(Path(path).parent, told, data)


def _set_aside(path: Path) -> None:
    from catena.runtime import damage

    damage.set_aside(path.parent, path, _LOST.format("all"))


def _joined(known: Optional[JobLogRecord], line: JobLogRecord) -> JobLogRecord:
    if known is None:
        return line
    return frozen.replace(
        line,
        boot=known.boot if known.claim and not line.boot else line.boot,
        order=line.order or known.order,
        begun=line.begun or known.begun,
        ret=line.ret or known.ret,
        aside=line.aside or known.aside,
        until=line.until or known.until,
        claim=line.claim or ({} if line.begun and not line.order else known.claim),
        begin_by=known.begin_by if line.boot == known.boot else 0.0,
    )


def _apart(line: JobLogRecord) -> Tuple[bytes, bytes]:
    """Return a job's record as two sealed ones: what older agents cannot read, and the rest.

    Older agents skip the first one. If there is a claim, the second one names no boot, so that
    they assume a start in another boot. Otherwise they would start the job again while its process
    is running.
    """
    if not (line.claim or line.begin_by):
        return b"", _sealed(line)
    beside = JobLogRecord(line.jid, line.boot, claim=line.claim, begin_by=line.begin_by)
    boot = "" if line.claim else line.boot
    return _sealed(beside), _sealed(frozen.replace(line, boot=boot, claim={}, begin_by=0.0))


def _sealed(line: JobLogRecord) -> bytes:
    """Return a record as stored in the file; unset fields are omitted."""
    said = {key: value for key, value in vars(line).items() if value or key == "boot"}
    return seal(wire.pack_body(said))


def _decoded(body: bytes) -> Optional[JobLogRecord]:
    try:
        limit = wire.Limit(len(body), nodes=len(body))
        return records.decode(JobLogRecord, wire.unpack_body(body, limit))
    except CatenaError:
        # A record of a later version: the job's folder contains the same.
        return None
