"""Jobs on disk: one folder per jid, from the receipt of the order until its return is stored.

    cache_dir/jobs/<jid>/
        spec       the order and its number of receipt (MessagePack)
        process    pid, start time and boot of the job process (JSON), created once by that process
        output     output of the job process and its children that no function captured
        aside      what the agent needs in addition to the return (JSON), written before it
        return     the outcome: body of a JobReturned, sealed

A folder with a `return` belongs to the outbox; it is removed when the master has stored the
return. `process` is a symbolic link, which is created with its text in one step. So only one
process can claim an attempt, whoever started it.

Processes exchange these files without waiting for the disk. What must survive a power failure is
also in the daemon's log (`log`), durable before it is confirmed or reported; `JobStore.scan`
repairs the folders from the log.

A job that the daemon sends to a warm process over their socket pair (`lines`) has no folder while
both live. The first of them that sees the other's end creates one.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path
from typing import Any, Dict, List, Optional

from catena.core import ids, records
from catena.core.errors import CatenaError
from catena.core.files import (
    no_room,
    read_limited,
    size_of,
    sync_folder,
    tail_of,
    write_all,
    write_whole,
)
from catena.core.frozen import dataclass, field
from catena.core.job import JobReturn, JobSpec
from catena.minion.jobs.processes import ProcessRef
from catena.minion.records.sealed import SEAL_BYTES, seal, unseal
from catena.transport import wire
from catena.transport.messages import JobReturned

#: Maximum bytes of an order; a frame on the control socket is smaller anyway.
SPEC_LIMIT = 2 * 1024 * 1024
#: Bytes that an outcome may need in addition to its value, which the order limits.
RETURN_SLACK = 1024 * 1024
#: Minimum free bytes for a chain's job to begin.
ROOM_BYTES = 64 * 1024
#: Files of a folder in the order of their removal. Without an order, a folder is ignored.
_NAMES = ("return", "aside", "output", "process", "postponed", "spec")

#: Errors of the system that later attempts to read a file meet again.
_LOST = frozenset([errno.ENOENT, errno.EIO, errno.ELOOP, errno.EISDIR, errno.EBADMSG])


class JobFolderError(CatenaError):
    """A job's folder cannot be read."""


class ReturnLostError(JobFolderError):
    """The outcome of a job is damaged or gone, and no later attempt can read it."""


@dataclass(frozen=True)
class StoredSpec:
    """An order with its number of receipt."""

    spec: JobSpec
    #: Counts all orders of this minion.
    received: int


@dataclass(frozen=True)
class Claim:
    """The process that works on a job."""

    process: ProcessRef
    #: The process's systemd scope; "" if it has none.
    scope: str = ""
    #: Monotonic time at which it took the job; 0.0: at its start (it ran no job before).
    since: float = 0.0


@dataclass(frozen=True)
class ReturnExtras:
    """What a job process leaves in addition to its return."""

    #: What to do once the return is safe (`runtime.host.After` as data); {}: nothing.
    after: Dict[str, Any] = field(default_factory=dict)
    #: Chain that has begun on this host and not ended after this job; 0: none.
    open_chain: int = 0
    #: Result of mgractionchains.get_pending_resume after this job.
    pending_resume: Dict[str, Any] = field(default_factory=dict)


#: The usual case.
_NOTHING_ASIDE = ReturnExtras()


class JobFolder:
    """Access to one job's files; it caches nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def jid(self) -> str:
        """Return the job's id."""
        return self.path.name

    @property
    def output(self) -> Path:
        """Return the file for the process's stdout and stderr."""
        return self.path / "output"

    def misplaced(self) -> List[Path]:
        """Return the entries named like a job's file that are not regular files.

        Whatever has the name of a claim is a claim, of an unknown process if it is no link.
        """
        with os.scandir(self.path) as entries:
            return [Path(entry.path) for entry in entries if _is_misplaced(entry)]

    def read_spec(self) -> StoredSpec:
        """Return the order.

        Raises:
            JobFolderError: there is none, or it is damaged.
        """
        path = self.path / "spec"
        try:
            return unpacked_order(read_limited(path, SPEC_LIMIT))
        except (CatenaError, OSError) as error:
            raise JobFolderError(f"{path}: {error}") from None

    def place(self, order: bytes) -> None:
        """Create the folder with its order (a packed `StoredSpec`).

        The file is not renamed into place: the log repairs an order that was written only in part.

        Raises:
            OSError: the disk is full; `remove` cleans up.
        """
        self.make()
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self.path / "spec", flags, 0o600)
        try:
            write_all(handle, order)
        finally:
            os.close(handle)

    def make(self) -> None:
        """Create the folder if it does not exist."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o700)  # noqa: PTH102  # no Path needed

    def claim(self, claim: Claim) -> bool:
        """Claim the job for a process; return False if another process has claimed it."""
        text = json.dumps(records.encode(claim))
        try:
            os.symlink(text, self.path / "process")  # noqa: PTH211  # Path has it the other way
        except FileExistsError:
            return False
        return True

    def is_claimed(self) -> bool:
        """Return whether a process, alive or dead, has claimed the job."""
        return os.path.lexists(self.path / "process")

    def claimed_by(self) -> Optional[Claim]:
        """Return the claim on the job, or None.

        Raises:
            JobFolderError: the claim cannot be parsed.
        """
        try:
            data = json.loads(os.readlink(self.path / "process"))  # noqa: PTH115  # no Path of it
            return records.decode(Claim, data)
        except FileNotFoundError:
            return None
        except (ValueError, CatenaError, OSError) as error:
            raise JobFolderError(f"{self.path}/process: {error}") from None

    def attempts(self) -> int:
        """Return the number of released claims."""
        return len(list(self.path.glob("process.*")))

    def release(self) -> None:
        """Release the claim of a dead process, so that the job can run again."""
        target = self.path / f"process.{self.attempts() + 1}"
        (self.path / "process").rename(target)
        self._sync()

    def give_back(self) -> None:
        """Postpone the job: this process met a temporary obstacle (see `executor`)."""
        if self.is_claimed():
            (self.path / "process").rename(self.path / "postponed")
            self._sync()

    def _sync(self) -> None:
        """Make the names in this folder durable."""
        sync_folder(self.path)
        sync_folder(self.path.parent)

    def is_postponed(self) -> bool:
        """Return whether a process has postponed the job."""
        return os.path.lexists(self.path / "postponed")

    def take_up(self) -> None:
        """Start a postponed job; this counts as an attempt."""
        (self.path / "postponed").unlink(missing_ok=True)

    def has_room(self, size: int = ROOM_BYTES) -> bool:
        """Return whether the disk has space for this folder and *size* more bytes."""
        probe = self.path / ".room"
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self.make()
            handle = os.open(probe, flags, 0o600)
            try:
                os.posix_fallocate(handle, 0, size)
            finally:
                os.close(handle)
                probe.unlink()
        except OSError as error:
            # The job itself reports any other disk error.
            return not no_room(error)
        return True

    def hindrance(self) -> str:
        """Return a description of what holds up a postponed job."""
        full = not self.has_room()
        return "the disk is full" if full else "the disk was full, or the master is away"

    def finish(self, body: bytes, aside: ReturnExtras = _NOTHING_ASIDE) -> bool:
        """Store the outcome; return False if there is one already, which stays.

        Args:
            body: `wire.pack_body(JobReturned(...))`.
            aside: the additional data.

        Raises:
            OSError: the disk is full; nothing is stored.
        """
        if self.has_return():
            return False
        if aside != _NOTHING_ASIDE:
            self.write("aside", json.dumps(records.encode(aside)).encode("utf-8"))
        self.write("return", seal(body))
        return True

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically, but not durably: a power failure may tear it."""
        write_whole(self.path / name, data)

    def has_return(self) -> bool:
        """Return whether the outcome is stored."""
        return self.return_path.exists()

    @property
    def return_path(self) -> Path:
        """Return the sealed file of the outcome; its body begins after SEAL_BYTES."""
        return self.path / "return"

    def read_return(self, limit: int) -> JobReturn:
        """Return the outcome, of at most *limit* bytes.

        Raises:
            ReturnLostError: there is none, or it is damaged or too large.
            JobFolderError: it cannot be read now.
        """
        try:
            body = unseal(read_limited(self.return_path, limit + SEAL_BYTES))
            message = records.decode(JobReturned, _unpacked(body, limit))
        except (ValueError, CatenaError, OSError) as error:
            raise return_error(str(self.return_path), error) from None
        return message.ret

    def read_aside(self) -> ReturnExtras:
        """Return the additional data of the outcome; empty if the file is missing or damaged."""
        try:
            return unpacked_aside(read_limited(self.path / "aside", RETURN_SLACK))
        except (CatenaError, OSError):
            return ReturnExtras()

    def output_size(self) -> int:
        """Return the size of the uncaptured output in bytes."""
        return size_of(self.output)

    def output_tail(self, size: int = 2048) -> str:
        """Return the last *size* bytes of the uncaptured output."""
        return tail_of(self.output, size)

    def remove(self) -> None:
        """Remove the folder. Files that cannot be removed are found again at the next start."""
        try:
            for name in _NAMES:
                _remove(self.path / name)
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                # Released claims of other attempts, and files that were never renamed.
                for path in self.path.iterdir():
                    _remove(path)
                self.path.rmdir()
        except (OSError, CatenaError):
            return


def return_error(where: str, error: Exception) -> JobFolderError:
    """Return the error for an outcome that *error* keeps from being read.

    A lack of memory or of descriptors passes; damage does not.
    """
    passes = isinstance(error, OSError) and error.errno not in _LOST
    text = f"{where}: {error}"
    return JobFolderError(text) if passes else ReturnLostError(text)


def _remove(path: Path) -> None:
    try:
        unlink(path)
    except IsADirectoryError:
        # Imported here: it imports `shutil`, which most agents never need.
        from catena.core.removal import remove_entry

        remove_entry(path)


def unlink(path: Path) -> None:
    """Remove a file that probably exists."""
    try:
        os.unlink(path)  # noqa: PTH108  # no question first
    except FileNotFoundError:
        return


def _is_misplaced(entry: os.DirEntry[str]) -> bool:
    if entry.name == "postponed":
        return not entry.is_symlink()
    is_file = entry.name in ("spec", "return", "aside", "output")
    return is_file and not entry.is_file(follow_symlinks=False)


def unpacked_order(order: bytes) -> StoredSpec:
    """Return an order as stored in a folder or the log, or as sent over a socket.

    Raises:
        CatenaError: *order* is invalid.
    """
    return records.decode(StoredSpec, _unpacked(order, SPEC_LIMIT))


def order_of(ret: bytes, received: int) -> StoredSpec:
    """Return an order for the body of a JobReturned whose own order is lost.

    Raises:
        CatenaError: *ret* is invalid.
    """
    done = records.decode(JobReturned, _unpacked(ret, len(ret))).ret
    return StoredSpec(JobSpec(done.jid, done.fun, done.fun_args), received)


def unpacked_aside(data: bytes) -> ReturnExtras:
    """Return the additional data of an outcome; empty if it is damaged."""
    try:
        return records.decode(ReturnExtras, json.loads(data))
    except (ValueError, CatenaError):
        return ReturnExtras()


def _unpacked(body: bytes, limit: int) -> Any:
    return wire.unpack_body(body, wire.Limit(limit, nodes=limit))


def job_folder(cache_dir: Path, jid: str) -> JobFolder:
    """Return the folder of *jid*, which need not exist, for code without a `JobStore`."""
    return JobFolder(cache_dir / "jobs" / ids.jid(jid))
