"""Jobs on disk: one folder per jid, from the order's receipt until the master has its return.

    cache_dir/jobs/<jid>/
        spec       the order and its place in line (MessagePack), durable before it is confirmed
        process    the worker's pid, start time and boot (JSON), made by the worker itself, once
        output     what the worker and its children printed past the capture of functions
        aside      what the agent must do and know beside the return (JSON), durable before it
        return     the outcome: body of a JobReturned as it travels, durable before the worker ends

A job whose folder holds `return` is the outbox's; the folder goes when the master has stored it.
`process` is made by link(2), so only one worker can ever claim an attempt, whoever started it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from catena.core import ids, records
from catena.core.errors import CatenaError, RecordError
from catena.core.files import (
    no_room,
    private_folder,
    read_limited,
    size_of,
    sync_folder,
    tail_of,
    write_all,
    write_durable,
)
from catena.core.frozen import dataclass, field
from catena.core.job import JobReturn, JobSpec
from catena.minion.processes import ProcessRef
from catena.transport import wire
from catena.transport.messages import JobReturned

#: Largest order; a frame on the control socket is smaller anyway.
SPEC_LIMIT = 2 * 1024 * 1024
#: What an outcome may need beside the value, whose own limit the order gives.
RETURN_SLACK = 1024 * 1024
_SMALL = 64 * 1024
#: What a chain's job needs at least to begin.
ROOM_BYTES = 64 * 1024
#: Begins the name of a folder that is being removed.
_GONE = ".gone-"


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
        stored: StoredSpec = self._read("spec", StoredSpec, SPEC_LIMIT)
        return stored

    def claim(self, claim: Claim) -> bool:
        """Take the job for one process; False when another one has it."""
        text = json.dumps(records.encode(claim)).encode("ascii")
        temporary = self.path / f".process.{os.getpid()}"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(handle, text)
        finally:
            os.close(handle)
        try:
            os.link(temporary, self.path / "process")
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        sync_folder(self.path)
        return True

    def is_claimed(self) -> bool:
        """Return whether a process took the job, living or dead."""
        return (self.path / "process").exists()

    def claimed_by(self) -> Optional[Claim]:
        """Return who has the job, or None.

        Raises:
            JobFolderError: the file is damaged.
        """
        try:
            data = json.loads(read_limited(self.path / "process", _SMALL))
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
        sync_folder(self.path)

    def give_back(self) -> None:
        """Let another process take the job later: this one met what passes (see `executor`)."""
        if self.is_claimed():
            (self.path / "process").rename(self.path / "postponed")
            sync_folder(self.path)

    def is_postponed(self) -> bool:
        """Return whether a process gave the job back."""
        return (self.path / "postponed").exists()

    def take_up(self) -> None:
        """Begin a job that was given back, for the count."""
        (self.path / "postponed").unlink(missing_ok=True)

    def has_room(self, size: int = ROOM_BYTES) -> bool:
        """Return whether the disk takes *size* bytes more."""
        probe = self.path / ".room"
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
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

    def finish(self, body: bytes, aside: Aside = _NOTHING_ASIDE) -> bool:
        """Keep the outcome for good; False when there is one already: the first one counts.

        Args:
            body: `wire.pack_body(JobReturned(...))`.
            aside: what belongs to it.
        """
        if self.has_return():
            return False
        if aside != Aside():
            write_durable(self.path / "aside", json.dumps(records.encode(aside)).encode("utf-8"))
        write_durable(self.path / "return", body)
        return True

    def has_return(self) -> bool:
        """Return whether the outcome is there."""
        return self.return_path.exists()

    @property
    def return_path(self) -> Path:
        """File of the outcome."""
        return self.path / "return"

    def read_return(self, limit: int) -> JobReturn:
        """Return the outcome of at most *limit* bytes.

        Raises:
            JobFolderError: there is none, or it is damaged or too large.
        """
        message: JobReturned = self._read("return", JobReturned, limit)
        return message.ret

    def read_aside(self) -> Aside:
        """Return what belongs to the outcome; nothing where there is no file, or a damaged one."""
        try:
            data = json.loads(read_limited(self.path / "aside", RETURN_SLACK))
            return records.decode(Aside, data)
        except (ValueError, CatenaError, OSError):
            return Aside()

    def output_size(self) -> int:
        """Return how much the worker printed, in bytes."""
        return size_of(self.output)

    def output_tail(self, size: int = 2048) -> str:
        """Return the last *size* bytes of what the worker printed."""
        return tail_of(self.output, size)

    def remove(self) -> None:
        """Remove the folder. What could not be removed is found again at the next start.

        It goes by one rename: half of a folder would look like a damaged job.
        """
        gone = self.path if self.path.name.startswith(_GONE) else self._renamed()
        try:
            for path in gone.iterdir():
                path.unlink()
            gone.rmdir()
        except OSError:
            return

    def _renamed(self) -> Path:
        gone = self.path.with_name(f"{_GONE}{self.path.name}")
        try:
            return self.path.rename(gone)
        except OSError:
            return gone

    def _read(self, name: str, kind: Any, limit: int) -> Any:
        try:
            raw = read_limited(self.path / name, limit)
            return records.decode(kind, wire.unpack_body(raw, wire.Limit(limit, nodes=limit)))
        except (CatenaError, OSError) as error:
            raise JobFolderError(f"{self.path}/{name}: {error}") from None


class JobStore:
    """All job folders of a minion."""

    def __init__(self, cache_dir: Path) -> None:
        self._folder = private_folder(private_folder(cache_dir) / "jobs")
        self._received = 0

    def folder(self, jid: str) -> JobFolder:
        """Return the folder of *jid*, whether it exists or not."""
        return JobFolder(self._folder / ids.jid(jid))

    def add(self, spec: JobSpec) -> StoredSpec:
        """Keep an order for good and give it its place in line.

        Raises:
            OSError: disk full: nothing is kept, the order must not be confirmed.
        """
        stored = StoredSpec(spec, self._received + 1)
        folder = self.folder(spec.jid)
        folder.path.mkdir(mode=0o700)
        try:
            write_durable(folder.path / "spec", wire.pack_body(stored))
            sync_folder(self._folder)
        except OSError:
            folder.remove()
            raise
        self._received = stored.received
        return stored

    def scan(self) -> Tuple[List[StoredSpec], List[str]]:
        """Return the orders on disk in the order of their receipt, and the jids of damaged ones.

        A damaged folder is moved aside, as jobs/bad-<jid>: it must neither stop the daemon's
        start nor be run. One without an order was never confirmed: it goes.
        """
        found, bad = [], []
        for path in sorted(self._folder.iterdir()):
            if path.name.startswith("bad-"):
                continue
            if path.name.startswith(_GONE) or not (path / "spec").exists():
                JobFolder(path).remove()
                continue
            try:
                stored = JobFolder(path).read_spec()
                ids.jid(path.name)
                if stored.spec.jid != path.name:
                    raise JobFolderError(f"{path}: holds the order of {stored.spec.jid}")
            except (CatenaError, RecordError):
                JobFolder(self._folder / f"bad-{path.name}").remove()
                path.rename(self._folder / f"bad-{path.name}")
                bad.append(path.name)
                continue
            found.append(stored)
            self._received = max(self._received, stored.received)
        return sorted(found, key=lambda item: item.received), bad
