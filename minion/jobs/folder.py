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
power cut is in the daemon's log too (`job_log`), durable before it is confirmed or told; from
there `JobStore.scan` mends the folders.
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
    sync_file,
    sync_folder,
    tail_of,
    write_all,
    write_whole,
)
from catena.core.frozen import dataclass, field
from catena.core.job import JobReturn, JobSpec
from catena.minion.jobs.log import JobLog, Line
from catena.minion.jobs.processes import ProcessRef
from catena.minion.records.sealed import SEAL_BYTES, seal, unseal
from catena.transport import wire
from catena.transport.messages import JobReturned

#: Largest order; a frame on the control socket is smaller anyway.
SPEC_LIMIT = 2 * 1024 * 1024
#: What an outcome may need beside the value, whose own limit the order gives.
RETURN_SLACK = 1024 * 1024
#: A return up to this size is kept in the log; a larger one is synced where it lies.
LOGGED_BYTES = 64 * 1024
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
            return records.decode(
                StoredSpec, _unpacked(read_limited(path, SPEC_LIMIT), SPEC_LIMIT)
            )
        except (CatenaError, OSError) as error:
            raise JobFolderError(f"{path}: {error}") from None

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
        """Remove the folder. What could not be removed is found again at the next start."""
        try:
            for name in _NAMES:
                _unlink(self.path / name)
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


def _unlink(path: Path) -> None:
    try:
        os.unlink(path)  # noqa: PTH108  # most of them are there: no question first
    except FileNotFoundError:
        return


def _unpacked(body: bytes, limit: int) -> Any:
    return wire.unpack_body(body, wire.Limit(limit, nodes=limit))


def job_folder(cache_dir: Path, jid: str) -> JobFolder:
    """Return the folder of *jid*, whether it exists or not; for who has no `JobStore`."""
    return JobFolder(cache_dir / "jobs" / ids.jid(jid))


class JobStore:
    """All job folders of a minion, and the log that mends them after a power cut.

    Only the daemon has one: it alone writes the log.

    Args:
        cache_dir: the agent's.
        boot_id: id of the running boot; "" where it is unknown: what may have begun has.
    """

    def __init__(self, cache_dir: Path, boot_id: str = "") -> None:
        self._folder = private_folder(private_folder(cache_dir) / "jobs")
        self._boot_id = boot_id
        self._log = JobLog(cache_dir / "jobs.log")
        self._received = 0

    def folder(self, jid: str) -> JobFolder:
        """Return the folder of *jid*, whether it exists or not."""
        return JobFolder(self._folder / ids.jid(jid))

    def add(self, spec: JobSpec, begins: bool = False) -> StoredSpec:
        """Keep an order for good and give it its place in line.

        Args:
            spec: the order.
            begins: as `begin` was called with it, in the same moment.

        Raises:
            OSError: disk full: nothing is kept, the order must not be confirmed.
        """
        stored = StoredSpec(spec, self._received + 1)
        folder, order = self.folder(spec.jid), wire.pack_body(stored)
        self._log.add(Line(spec.jid, self._boot_id, begins, order))
        try:
            _place_order(folder, order)
        except OSError:
            folder.remove()
            self._log.take_back()
            raise
        self._received = stored.received
        return stored

    def begin(self, jid: str) -> None:
        """Keep for good that a process may begin with *jid*: after a cut it must not begin twice.

        Raises:
            OSError: disk full: it must not begin.
        """
        self._log.add(Line(jid, self._boot_id, begun=True))

    def keep_return(self, folder: JobFolder) -> None:
        """Make the outcome that lies in *folder* durable.

        Raises:
            OSError: disk full: it must not be told.
            JobFolderError: it is damaged.
        """
        path, aside = folder.return_path, folder.path / "aside"
        if size_of(path) > LOGGED_BYTES or size_of(aside) > LOGGED_BYTES:
            for file in (aside, path):
                if file.exists():
                    sync_file(file)
            sync_folder(folder.path)
            sync_folder(self._folder)
            return
        try:
            ret = unseal(read_limited(path, LOGGED_BYTES))
        except ValueError as error:
            raise JobFolderError(f"{path}: {error}") from None
        beside = read_limited(aside, LOGGED_BYTES) if aside.exists() else b""
        self._log.add(Line(folder.jid, self._boot_id, ret=ret, aside=beside))

    def end(self, jid: str, until: int) -> None:
        """Let a job go whose return the master has.

        A power cut may take this: the return is then there, and said once more.

        Args:
            jid: the job.
            until: when its order can come no more, seconds since the epoch; not 0.

        Raises:
            OSError: disk full: it is still here.
        """
        self._log.add(Line(jid, self._boot_id, until=until), durable=False)
        self.folder(jid).remove()

    def ended(self) -> Dict[str, int]:
        """Return the jobs that were let go and are in the log still, with their `until`."""
        return {jid: line.until for jid, line in self._log.read().items() if line.until}

    @property
    def is_long(self) -> bool:
        """Whether it is time to `shrink`."""
        return self._log.is_long

    def shrink(self) -> None:
        """Forget jobs that were let go; that they are done must be durable elsewhere.

        Raises:
            OSError: no room.
        """
        self._log.shrink()

    def scan(self) -> Tuple[List[StoredSpec], List[str]]:
        """Return the orders on disk in the order of their receipt, and the jids of damaged ones.

        What a power cut took is mended first. A folder that is damaged all the same is moved
        aside, as jobs/bad-<jid>: it must neither stop the daemon's start nor be run. One without
        an order was never confirmed: it goes.
        """
        for line in self._log.read().values():
            if line.until:
                self.folder(line.jid).remove()
            else:
                self._mend(self.folder(line.jid), line)
        found, bad = [], []
        for path in sorted(self._folder.iterdir()):
            if path.name.startswith("bad-"):
                continue
            if not (path / "spec").exists():
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

    def _mend(self, folder: JobFolder, line: Line) -> None:
        """Give a folder what a power cut took of it."""
        if line.order and _content(folder.path / "spec") != line.order:
            folder.path.mkdir(mode=0o700, exist_ok=True)
            folder.write("spec", line.order)
        if line.ret:
            if line.aside and _content(folder.path / "aside") != line.aside:
                folder.write("aside", line.aside)
            if _content(folder.return_path) != seal(line.ret):
                folder.write("return", seal(line.ret))
            return
        if self._boot_id and line.boot == self._boot_id:
            return
        if folder.has_return() and _is_whole(folder.return_path):
            # Its process ended after the daemon had; the host went down in good order.
            return
        _unlink(folder.return_path)
        if line.begun and not (folder.is_claimed() or folder.is_postponed()):
            # Its process may have done anything: the same as one that is known, and dead.
            folder.claim(Claim(ProcessRef(0, 0, line.boot)))


def _is_whole(path: Path) -> bool:
    try:
        return bool(unseal(_content(path)))
    except ValueError:
        return False


def _place_order(folder: JobFolder, order: bytes) -> None:
    """Make a job's folder. Half an order is mended from the log: no second name is needed."""
    os.mkdir(folder.path, 0o700)  # noqa: PTH102
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(folder.path / "spec", flags, 0o600)
    try:
        write_all(handle, order)
    finally:
        os.close(handle)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
