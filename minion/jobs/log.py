"""What of jobs outlives a power cut: the daemon's own log, one line for each thing it must know.

    cache_dir/jobs.log

A job's folder (`jobs`) is what its processes share. It outlives each of them, but none waits there
for the disk: of what lies in it, a cut may take any part. What the daemon confirms or tells is on
disk here first, by one append and one sync. After a cut the folders are mended from it.

A line is sealed (`minion.records.sealed`): one that a cut tore, the last, is known for what it is.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from catena.core import frozen, records
from catena.core.errors import CatenaError
from catena.core.files import append, read_limited, sync_folder, write_durable
from catena.core.frozen import dataclass, field
from catena.minion.records.sealed import Found, salvage, seal, unseal
from catena.runtime import damage
from catena.transport import wire

#: How long it grows before what is done is taken out of it.
SHRINK_BYTES = 128 * 1024
_LIMIT = 1024 * 1024 * 1024
#: So many lines are noted at most before they are written.
NOTES = 64


@dataclass(frozen=True)
class Line:
    """What became known of a job, or all that is known of it."""

    jid: str
    #: id of the boot in which this was written.
    boot: str
    #: Its process may have begun in that boot.
    begun: bool = False
    #: The order as the folder holds it; b"": not in this line. So are the next two.
    order: bytes = b""
    #: Body of its JobReturned.
    ret: bytes = b""
    aside: bytes = b""
    #: Until when, in seconds since the epoch, its order may come again, though the master has its
    #: return: nothing is left to do. 0: it is open.
    until: int = 0
    #: Who works on it (a `folder.Claim` as data), where the agent has given it to a process that
    #: was there. {}: its folder knows, and does so from a later line on that says `begun` alone.
    claim: Dict[str, Any] = field(default_factory=dict)
    #: Until when it may begin, by the clock of that boot that nobody can set. 0.0: by its order.
    begin_by: float = 0.0


class JobLog:
    """The log of one minion; only the daemon has one.

    Args:
        path: the file; its folder is there.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._is_there = path.exists()
        #: Whether what the file said of some jobs is lost.
        self.is_damaged = False
        self._shrink_at = SHRINK_BYTES
        self._size = self._last = self._settle() if self._is_there else 0
        #: Where the lines lie that have a return: beginning and size of each.
        self._returns: Dict[str, Tuple[int, int]] = {}
        #: What was noted and is not in the file yet.
        self._noted: List[bytes] = []

    def add(self, line: Line, durable: bool = True) -> None:
        """Keep *line*, for good; one that is not *durable* as long as the power stays.

        Args:
            line: the line.
            durable: whether it must outlive a power cut.

        Raises:
            OSError: nothing of it is kept.
        """
        more, data = _apart(line)
        self._write(b"".join([*self._noted, more, data]), durable)
        self._noted.clear()
        self._last = self._size - len(more) - len(data)
        self._index(line, self._size - len(data), len(data))

    def note(self, line: Line) -> None:
        """Keep *line* with the next one, or at `flush`: a kill of this process may take it.

        Raises:
            OSError: so much was noted that it had to be written, and could not be.
        """
        self._noted.append(_sealed(line))
        self._index(line, 0, 0)
        if len(self._noted) >= NOTES:
            self.flush()

    @property
    def has_notes(self) -> bool:
        """Whether something was noted that is not in the file yet."""
        return bool(self._noted)

    def flush(self) -> None:
        """Write what was noted.

        Raises:
            OSError: nothing of it is in the file.
        """
        if self._noted:
            self._write(b"".join(self._noted), durable=False)
            self._last = self._size
            self._noted.clear()

    def has_return(self, jid: str) -> bool:
        """Whether the return of an open job is here."""
        return jid in self._returns

    def read_return(self, jid: str) -> bytes:
        """Return the body of a return that is here.

        Raises:
            OSError: it can't be read.
            ValueError: it is not what was written.
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
            # What a full disk took in part would hide the next line.
            os.ftruncate(handle, self._size)
            raise
        finally:
            os.close(handle)
        if not self._is_there:
            sync_folder(os.path.dirname(self._path))  # noqa: PTH120
            self._is_there = True
        self._size += len(data)

    def _index(self, line: Line, at: int, size: int) -> None:
        if line.until:
            self._returns.pop(line.jid, None)
        elif line.ret:
            self._returns[line.jid] = (at, size)

    def take_back(self) -> None:
        """Remove the line that was added last, durably: what it says was not done after all."""
        handle = self._open()
        try:
            os.ftruncate(handle, self._last)
            os.fdatasync(handle)
        finally:
            os.close(handle)
        self._size = self._last

    def read(self) -> Dict[str, Line]:
        """Return what is known of each job, oldest first."""
        known: Dict[str, Line] = {}
        if not self._is_there:
            return known
        for line, at, size in _lines(b"".join([read_limited(self._path, _LIMIT), *self._noted])):
            known[line.jid] = _joined(known.get(line.jid), line)
            self._index(line, at, size)
        return known

    @property
    def is_long(self) -> bool:
        """Whether it is time to `shrink`."""
        return self._size >= self._shrink_at

    def shrink(self) -> None:
        """Take out the jobs that are done; that they are must be durable elsewhere.

        Raises:
            OSError: no room: it stays as it was.
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
        """Cut off a torn tail, make the rest and the file's name durable; return its size.

        Of a damaged file the whole lines are kept.

        The previous daemon may have been killed before it synced the file or its folder. The new
        daemon confirms jobs that it finds here, so they must survive a power failure from now on.
        """
        data = read_limited(self._path, _LIMIT)
        found = salvage(data)
        if found.damaged:
            self.is_damaged = True
            _report(self._path, found, data)
            with contextlib.suppress(OSError):  # a full disk: the file is read as it is
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


def look(path: Path) -> Dict[str, Line]:
    """Return what the log at *path* says of each job, oldest first. Nothing is changed.

    Raises:
        OSError: it can't be read.
    """
    known: Dict[str, Line] = {}
    for line, _, _ in _lines(read_limited(path, _LIMIT)) if path.exists() else ():
        known[line.jid] = _joined(known.get(line.jid), line)
    return known


def _lines(data: bytes) -> Iterator[Tuple[Line, int, int]]:
    """Yield each line of a log with where it begins and its size."""
    for body, at, end in salvage(data).bodies:
        line = _decoded(body)
        if line is not None:
            yield line, at, end - at


def _report(path: str, found: Found, data: bytes) -> None:
    what = f"{found.damaged} parts of it are not what was written"
    saved = f"{len(found.bodies)} lines"
    lost = "what the others said of jobs: open ones without a result return as interrupted"
    damage.report(Path(path).parent, damage.Damage(path, what, saved, lost), data)


def _joined(known: Optional[Line], line: Line) -> Line:
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


def _apart(line: Line) -> Tuple[bytes, bytes]:
    """Return, sealed, what older agents can't read of all that is known of a job, and the rest.

    They pass the first line over. The second says no boot where there is a claim: to them the job
    may have begun in another one. Otherwise they would give it, while its process works, to one
    of their own.
    """
    if not (line.claim or line.begin_by):
        return b"", _sealed(line)
    beside = Line(line.jid, line.boot, claim=line.claim, begin_by=line.begin_by)
    boot = "" if line.claim else line.boot
    return _sealed(beside), _sealed(frozen.replace(line, boot=boot, claim={}, begin_by=0.0))


def _sealed(line: Line) -> bytes:
    """Return a line as it lies in the file; what is not set is left out."""
    said = {key: value for key, value in vars(line).items() if value or key == "boot"}
    return seal(wire.pack_body(said))


def _decoded(body: bytes) -> Optional[Line]:
    try:
        limit = wire.Limit(len(body), nodes=len(body))
        return records.decode(Line, wire.unpack_body(body, limit))
    except CatenaError:
        # Of a version to come: what it says of a job, its folder says too.
        return None
