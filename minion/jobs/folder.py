"""Jobs on disk: one folder per jid, from the order's receipt until the master has its return.

    cache_dir/jobs/<jid>/
        spec       the order and its place in line (MessagePack)
        process    the worker's pid, start time and boot (JSON), made by the worker itself, once
        output     what the worker and its children printed past the capture of functions
        aside      what the agent must do and know beside the return (JSON), there before it
        return     the outcome: body of a JobReturned as it travels, under a seal

A job whose folder holds `return` is the outbox's; the folder goes when the master has stored it.
`process` is a symbolic link, whose name and text come into being in one step: only one worker can
ever claim an attempt, whoever started it.

Processes come and go over these files, and none of them waits for the disk. What must outlive a
power cut is in the daemon's log too (`log`), durable before it is confirmed or told; from there
`JobStore.scan` mends the folders.

A job that a process has from the daemon itself, by their line (`lines`), has no folder as long as
both live: the first that meets the other's end makes one.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Dict, Optional

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

#: Largest order; a frame on the control socket is smaller anyway.
SPEC_LIMIT = 2 * 1024 * 1024
#: What an outcome may need beside the value, whose own limit the order gives.
RETURN_SLACK = 1024 * 1024
#: What a chain's job needs at least to begin.
ROOM_BYTES = 64 * 1024
#: What a folder may hold, in the order of removal: one without an order is none.
_NAMES = ("return", "aside", "output", "process", "postponed", "spec")


class JobFolderError(CatenaError):
    """A job's folder can't be read."""


@dataclass(frozen=True)
class StoredSpec:
    """An order with its place in line."""

    spec: JobSpec
    #: Counts up over all orders of this minion.
    received: int


@dataclass(frozen=True)
class Claim:
    """Which process works on a job."""

    process: ProcessRef
    #: systemd scope that it lives in; "" without.
    scope: str = ""
    #: When it took the job, monotonic; it may have run others before. 0.0: it began with it.
    since: float = 0.0


@dataclass(frozen=True)
class Aside:
    """What a worker leaves behind beside its return."""

    #: What must be done once the return is safe (`runtime.host.After` as data); {}: nothing.
    after: Dict[str, Any] = field(default_factory=dict)
    #: Chain that has begun on this host and not ended, after this job; 0: none.
    open_chain: int = 0
    #: What mgractionchains.get_pending_resume says after this job.
    pending_resume: Dict[str, Any] = field(default_factory=dict)


#: Most workers leave nothing.
_NOTHING_ASIDE = Aside()


class JobFolder:
    """One job's files. Nothing is kept in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def jid(self) -> str:
        """The job's id."""
        return self.path.name

    @property
    def output(self) -> Path:
        """Where the worker's stdout and stderr go."""
        return self.path / "output"

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
        """Make the folder with its order (a packed `StoredSpec`).

        Half an order is mended from the log: no second name is needed.

        Raises:
            OSError: there is no room; `remove` leaves nothing.
        """
        self.make()
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self.path / "spec", flags, 0o600)
        try:
            write_all(handle, order)
        finally:
            os.close(handle)

    def make(self) -> None:
        """Make the folder, where it is not there."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o700)  # noqa: PTH102  # no Path needed

    def claim(self, claim: Claim) -> bool:
        """Take the job for one process; False when another one has it."""
        text = json.dumps(records.encode(claim))
        try:
            os.symlink(text, self.path / "process")  # noqa: PTH211  # Path has it the other way
        except FileExistsError:
            return False
        return True

    def is_claimed(self) -> bool:
        """Return whether a process took the job, living or dead."""
        return os.path.lexists(self.path / "process")

    def claimed_by(self) -> Optional[Claim]:
        """Return who has the job, or None.

        Raises:
            JobFolderError: its name is no claim.
        """
        try:
            data = json.loads(os.readlink(self.path / "process"))  # noqa: PTH115  # no Path of it
            return records.decode(Claim, data)
        except FileNotFoundError:
            return None
        except (ValueError, CatenaError, OSError) as error:
            raise JobFolderError(f"{self.path}/process: {error}") from None

    def attempts(self) -> int:
        """Return how many claims were given up."""
        return len(list(self.path.glob("process.*")))

    def release(self) -> None:
        """Give up the claim of a dead worker, so that the job can be run again."""
        target = self.path / f"process.{self.attempts() + 1}"
        (self.path / "process").rename(target)
        self._sync()

    def give_back(self) -> None:
        """Let another process take the job later: this one met what passes (see `executor`)."""
        if self.is_claimed():
            (self.path / "process").rename(self.path / "postponed")
            self._sync()

    def _sync(self) -> None:
        """Make what this folder names durable."""
        sync_folder(self.path)
        sync_folder(self.path.parent)

    def is_postponed(self) -> bool:
        """Return whether a process gave the job back."""
        return os.path.lexists(self.path / "postponed")

    def take_up(self) -> None:
        """Begin a job that was given back, for the count."""
        (self.path / "postponed").unlink(missing_ok=True)

    def has_room(self, size: int = ROOM_BYTES) -> bool:
        """Return whether the disk takes *size* bytes more, and this folder."""
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
            # Any other fault of the disk is the job's to report.
            return not no_room(error)
        return True

    def hindrance(self) -> str:
        """Return what holds up a job that is put off, in words."""
        full = not self.has_room()
        return "the disk is full" if full else "the disk was full, or the master is away"

    def finish(self, body: bytes, aside: Aside = _NOTHING_ASIDE) -> bool:
        """Leave the outcome here; False when there is one already: the first one counts.

        Args:
            body: `wire.pack_body(JobReturned(...))`.
            aside: what belongs to it.

        Raises:
            OSError: there is no room; nothing is left.
        """
        if self.has_return():
            return False
        if aside != _NOTHING_ASIDE:
            self.write("aside", json.dumps(records.encode(aside)).encode("utf-8"))
        self.write("return", seal(body))
        return True

    def write(self, name: str, data: bytes) -> None:
        """Make a file that is wholly there or not at all, as long as the power stays."""
        write_whole(self.path / name, data)

    def has_return(self) -> bool:
        """Return whether the outcome is there."""
        return self.return_path.exists()

    @property
    def return_path(self) -> Path:
        """File of the outcome, sealed: its body begins after SEAL_BYTES."""
        return self.path / "return"

    def read_return(self, limit: int) -> JobReturn:
        """Return the outcome of at most *limit* bytes.

        Raises:
            JobFolderError: there is none, or it is damaged or too large.
        """
        try:
            body = unseal(read_limited(self.return_path, limit + SEAL_BYTES))
            message = records.decode(JobReturned, _unpacked(body, limit))
        except (ValueError, CatenaError, OSError) as error:
            raise JobFolderError(f"{self.return_path}: {error}") from None
        return message.ret

    def read_aside(self) -> Aside:
        """Return what belongs to the outcome; nothing where there is no file, or a damaged one."""
        try:
            return unpacked_aside(read_limited(self.path / "aside", RETURN_SLACK))
        except (CatenaError, OSError):
            return Aside()

    def output_size(self) -> int:
        """Return how much the worker printed, in bytes."""
        return size_of(self.output)

    def output_tail(self, size: int = 2048) -> str:
        """Return the last *size* bytes of what the worker printed."""
        return tail_of(self.output, size)

    def remove(self) -> None:
        """Remove the folder. What could not be removed is found again at the next start."""
        try:
            for name in _NAMES:
                unlink(self.path / name)
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                # What was given up: claims of other attempts, a file that was never renamed.
                for path in self.path.iterdir():
                    path.unlink()
                self.path.rmdir()
        except OSError:
            return


def unlink(path: Path) -> None:
    """Remove a file that most likely is there."""
    try:
        os.unlink(path)  # noqa: PTH108  # no question first
    except FileNotFoundError:
        return


def unpacked_order(order: bytes) -> StoredSpec:
    """Return an order as it lies in a folder, in the log, or comes by a line.

    Raises:
        CatenaError: it is none.
    """
    return records.decode(StoredSpec, _unpacked(order, SPEC_LIMIT))


def unpacked_aside(data: bytes) -> Aside:
    """Return what belongs to an outcome, as it lies beside it; nothing where it is damaged."""
    try:
        return records.decode(Aside, json.loads(data))
    except (ValueError, CatenaError):
        return Aside()


def _unpacked(body: bytes, limit: int) -> Any:
    return wire.unpack_body(body, wire.Limit(limit, nodes=limit))


def job_folder(cache_dir: Path, jid: str) -> JobFolder:
    """Return the folder of *jid*, whether it exists or not; for who has no `JobStore`."""
    return JobFolder(cache_dir / "jobs" / ids.jid(jid))
