"""Runs on disk: one folder per run id, from `start` until the master has its return.

    job        what to run (`PushedJob`); present before the folder has its name
    runner     the runner's pid, start time and boot (JSON), created once by the runner itself
    worker     the same for the worker process, replaced at each attempt
    steps      the journal: one line per step, in the format of `runtime.journal`
    output     output of the runner and its children that no function captured
    cancel     why the run is cancelled
    supply-N   the master's answer to question N of the run
    result     the outcome (`RunResult`), created once, durable before it is reported
    read       present once the runner knows whether the outcome requests a reboot
    reserve    space for the outcome if the disk is full by then

The folder gets its name by one rename: a second start with a run id finds the existing folder.
`steps` is not synced line by line: it survives every process, and after a power failure the result
names the states whose outcome is unknown.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from catena.core import failpoints
from catena.core.clock import Clock
from catena.core.errors import CatenaError
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
from catena.core.frozen import replace
from catena.core.records import decode, encode
from catena.runtime.journal import RECORD_LIMIT, decode_line, encode_line
from catena.runtime.processes import ProcessRef, start_ticks
from catena.runtime.push import protocol
from catena.runtime.results import json_ready, plain, shorten

_SMALL = 64 * 1024
#: Maximum bytes of one step; larger ones are shortened.
STEP_LIMIT = 1024 * 1024
#: Bytes reserved so that a result can be written when the disk is full.
RESERVE_BYTES = 1024 * 1024
#: Prefixes of folders that are being created or removed.
_NEW, _GONE = ".new-", ".gone-"


class RunFolder:
    """Access to one run's files; it caches nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.path.name

    @property
    def output(self) -> Path:
        """Return the file for the runner's stdout and stderr."""
        return self.path / "output"

    @property
    def steps(self) -> Path:
        """The journal."""
        return self.path / "steps"

    @property
    def result(self) -> Path:
        """The outcome."""
        return self.path / "result"

    def exists(self) -> bool:
        """Return whether the run was started and not acked."""
        return (self.path / "job").exists()

    def read_job(self) -> protocol.PushedJob:
        """Return what to run.

        Raises:
            CatenaError: it is damaged.
            OSError: it can't be read.
        """
        return protocol.unpack_job(read_limited(self.path / "job", protocol.JOB_LIMIT))

    def claim(self, process: ProcessRef) -> bool:
        """Claim the run for a runner; return False if another one has it."""
        temporary = self.path / f".runner.{os.getpid()}"
        write_durable(temporary, _told(process))
        try:
            os.link(temporary, self.path / "runner")
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        sync_folder(self.path)
        return True

    def name_worker(self, process: ProcessRef) -> None:
        """Record the worker process."""
        write_durable(self.path / "worker", _told(process))

    def process(self, name: str) -> Optional[ProcessRef]:
        """Return the `runner` or the `worker`; None if there is none yet or its file is torn."""
        try:
            data = json.loads(read_limited(self.path / name, _SMALL))
            return decode(ProcessRef, data)
        except (ValueError, CatenaError, OSError):
            return None

    def is_claimed(self) -> bool:
        """Return whether a runner, alive or dead, has claimed the run."""
        return (self.path / "runner").exists()

    def cancel(self, reason: str) -> None:
        """Cancel the run; the first reason stays."""
        if not (self.path / "cancel").exists():
            write_durable(self.path / "cancel", reason.encode("utf-8", "replace")[:4000])

    def cancelled(self) -> Optional[str]:
        """Return why the run is cancelled; None if it is not."""
        try:
            return read_limited(self.path / "cancel", _SMALL).decode("utf-8", "replace")
        except OSError:
            return None

    def supply(self, number: int, blob: bytes) -> None:
        """Store the master's answer to question *number*; the first one stays."""
        target = self.path / f"supply-{number}"
        if not target.exists():
            write_durable(target, blob)

    def supplied(self, number: int) -> Optional[bytes]:
        """Return the master's answer to question *number*, or None."""
        try:
            return read_limited(self.path / f"supply-{number}", protocol.JOB_LIMIT)
        except FileNotFoundError:
            return None

    def is_supplied(self, number: int) -> bool:
        """Return whether the answer to question *number* is here."""
        return (self.path / f"supply-{number}").exists()

    def finish(self, result: protocol.RunResult) -> bool:
        """Store the outcome durably; return False if there is one already, which stays."""
        temporary = self.path / f".result.{os.getpid()}"
        failpoints.hit("ssh.result.before")
        self._write_result(temporary, result)
        try:
            os.link(temporary, self.result)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        sync_folder(self.path)
        failpoints.hit("ssh.result.after")
        return True

    def _write_result(self, target: Path, result: protocol.RunResult) -> None:
        """Write a result; on a full disk shorten it to fit the reserved space."""
        (self.path / "reserve").unlink(missing_ok=True)
        try:
            write_durable(target, protocol.pack_result(result))
        except OSError as error:
            if not no_room(error):
                raise
            value, _ = shorten(json_ready(plain(result.ret.value)), RESERVE_BYTES // 4)
            ret = replace(result.ret, value=value, truncated=True)
            write_durable(target, protocol.pack_result(replace(result, ret=ret)))

    def let_go(self) -> None:
        """Record that the runner has read the outcome and knows whether to reboot."""
        with contextlib.suppress(OSError):
            (self.path / "read").touch(mode=0o600)

    def is_let_go(self) -> bool:
        """Return whether the runner has read the outcome."""
        return (self.path / "read").exists()

    def is_done(self) -> bool:
        """Return whether the outcome is there."""
        return self.result.exists()

    def output_size(self) -> int:
        """Return the size of the uncaptured output in bytes."""
        return size_of(self.output)

    def output_tail(self, size: int = 2048) -> str:
        """Return the last *size* bytes of the uncaptured output."""
        return tail_of(self.output, size)

    def age(self) -> float:
        """Return the time since the last change in the folder, in seconds; 0 if it is gone."""
        try:
            return max(0.0, time.time() - self.path.stat().st_mtime)
        except OSError:
            return 0.0

    def remove(self) -> None:
        """Remove the folder, beginning with a rename: half a folder would look like a damaged run.

        Raises:
            OSError: it could not be renamed.
        """
        gone = self.path.with_name(f"{_GONE}{self.path.name}")
        try:
            self.path.rename(gone)
        except FileNotFoundError:
            return
        sync_folder(self.path.parent)
        _remove_tree(gone)


def create(folder: Path, run_id: str, job: Path) -> RunFolder:
    """Return the folder of a run, made with *job* in it unless it is there already.

    Args:
        folder: of all runs.
        run_id: checked.
        job: file of the job, on the same file system; it is linked.

    Raises:
        OSError: it can't be made; nothing is left behind.
    """
    run = RunFolder(folder / run_id)
    fresh = folder / f"{_NEW}{run_id}.{os.getpid()}"
    _remove_tree(fresh)
    try:
        private_folder(fresh)
        os.link(job, fresh / "job")
        with (fresh / "job").open("rb") as stream:
            os.fsync(stream.fileno())
        _keep_reserve(fresh / "reserve")
        sync_folder(fresh)
        failpoints.hit("ssh.start.staged")
        # Fails if the name exists, because a run's folder is never empty.
        fresh.rename(run.path)
    except OSError:
        _remove_tree(fresh)
        if not run.exists():
            raise
    try:
        sync_folder(folder)
        failpoints.hit("ssh.start.named")
    except OSError:
        # The start was refused, so nobody may begin the run later.
        if not run.is_claimed():
            run.remove()
        raise
    return run


def _keep_reserve(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(handle, 0, RESERVE_BYTES)
    except OSError as error:
        # A file system without preallocation (NFS under musl) must not prevent the run.
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
    finally:
        os.close(handle)


def _remove_tree(path: Path) -> None:
    """Remove a folder, if it exists, ignoring errors."""
    if path.exists():
        import shutil

        shutil.rmtree(path, ignore_errors=True)


def every(folder: Path) -> List[RunFolder]:
    """Return the runs of a folder, sorted by id, without those being created or removed."""
    return [
        RunFolder(path)
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".") and (path / "job").exists()
    ]


def sweep(folder: Path) -> int:
    """Remove folders that a killed process was creating or removing; return their number."""
    removed = 0
    for path in folder.iterdir():
        made = path.name.startswith(_NEW) and is_orphan(path)
        if made or path.name.startswith(_GONE):
            _remove_tree(path)
            removed += 1
    return removed


def is_orphan(path: Path) -> bool:
    """Return whether the process is gone whose pid ends a temporary name."""
    pid = path.name.rpartition(".")[2]
    return not pid.isdigit() or start_ticks(int(pid)) is None


class StepWriter:
    """Appends to a run's journal. States that run in processes of their own write there too.

    Args:
        path: the file; made when missing. A torn last line of a killed process is cut off.
        clock: the time of each step.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._reader = StepReader(path)

    def add(self, kind: str, data: Dict[str, Any], number: str = "") -> int:
        """Add one step; its longest texts are cut where it is too large. Return its number.

        Args:
            kind: of the step.
            data: of the step.
            number: key under which the step's own number stands in its data; "": nowhere.

        Raises:
            OSError: it could not be written; the journal is as before.
        """
        ready, _ = shorten(json_ready(plain(data)), STEP_LIMIT)
        kept = ready if isinstance(ready, dict) else {"text": ready}
        when = self._clock.now().timestamp()
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        # Opened each time, because forked processes would share the lock of one open file.
        handle = os.open(self._path, flags, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            seq = self._reader.catch_up() + 1
            step = {"kind": kind, "data": {**kept, **({number: seq} if number else {})}}
            _append(handle, self._reader.good, encode_line({"seq": seq, "when": when, **step}))
        finally:
            os.close(handle)
        return seq


def _append(handle: int, at: int, line: bytes) -> None:
    """Write *line* after the intact ones; truncate a torn one of a killed process."""
    os.ftruncate(handle, at)
    os.lseek(handle, at, os.SEEK_SET)
    try:
        write_all(handle, line)
    except OSError:
        os.ftruncate(handle, at)
        raise


class StepReader:
    """Reads a journal while another process writes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        #: Length of the complete lines read so far.
        self.good = 0
        self._seq = 0

    def all(self) -> List[protocol.RunStep]:
        """Return the steps from the start, up to a torn or damaged line."""
        self.good = self._seq = 0
        return self._read()

    def catch_up(self) -> int:
        """Read on to the end; return the number of the last step, 0 without any."""
        self._read()
        return self._seq

    def after(self, seq: int, limit: int) -> List[protocol.RunStep]:
        """Return up to *limit* steps after number *seq*."""
        if seq != self._seq:
            self.good = self._seq = 0
            self._read(seq)
        return self._read(seq + limit)

    def _read(self, until: Optional[int] = None) -> List[protocol.RunStep]:
        found: List[protocol.RunStep] = []
        try:
            with self._path.open("rb") as stream:
                stream.seek(self.good)
                while until is None or self._seq < until:
                    line = stream.readline(RECORD_LIMIT + 64)
                    record = decode_line(line[:-1]) if line.endswith(b"\n") else None
                    if record is None or record.get("seq") != self._seq + 1:
                        break
                    self._seq += 1
                    self.good += len(line)
                    found.append(decode(protocol.RunStep, record, "step"))
        except FileNotFoundError:
            return []
        return found


def _told(process: ProcessRef) -> bytes:
    return json.dumps(encode(process)).encode("ascii")
