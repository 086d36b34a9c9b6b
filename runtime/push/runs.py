"""Runs on disk: one folder per run id, from `start` until the master has its return.

    job        what to run (`PushedJob`); it is there before the folder has its name
    runner     the runner's pid, start time and boot (JSON), made by the runner itself, once
    worker     the same of the process that does the work, made anew for each attempt
    steps      the journal: one line a step, in the form of `runtime.journal`
    output     what the runner and its children printed past the capture of functions
    cancel     why the run is called off
    supply-N   what the master answered to question N of the run
    result     the outcome (`RunResult`), made once, durable before anybody is told
    read       the runner knows whether the outcome asks it for a reboot
    reserve    room for the outcome on a disk that is full by then

The folder gets its name by one rename: whoever comes second with a run id finds the first one's.
`steps` is not synced line by line: it outlives every process, and after a power cut the result
says which states nobody can vouch for.
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
#: Of one step; larger ones are shortened.
STEP_LIMIT = 1024 * 1024
#: For the result of a run that fills the disk.
RESERVE_BYTES = 1024 * 1024
#: Begins the name of a folder that is being made or removed.
_NEW, _GONE = ".new-", ".gone-"


class RunFolder:
    """One run's files. Nothing is kept in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.path.name

    @property
    def output(self) -> Path:
        """Where the runner's stdout and stderr go."""
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
        """Return whether the run was ever started and not acked."""
        return (self.path / "job").exists()

    def read_job(self) -> protocol.PushedJob:
        """Return what to run.

        Raises:
            CatenaError: it is damaged.
            OSError: it can't be read.
        """
        return protocol.unpack_job(read_limited(self.path / "job", protocol.JOB_LIMIT))

    def claim(self, process: ProcessRef) -> bool:
        """Take the run for one runner; False when another one has it."""
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
        """Say which process does the work."""
        write_durable(self.path / "worker", _told(process))

    def process(self, name: str) -> Optional[ProcessRef]:
        """Return the `runner` or the `worker`; None: there is none yet, or its file is torn."""
        try:
            data = json.loads(read_limited(self.path / name, _SMALL))
            return decode(ProcessRef, data)
        except (ValueError, CatenaError, OSError):
            return None

    def is_claimed(self) -> bool:
        """Return whether a runner took the run, living or dead."""
        return (self.path / "runner").exists()

    def cancel(self, reason: str) -> None:
        """Call the run off; the first reason counts."""
        if not (self.path / "cancel").exists():
            write_durable(self.path / "cancel", reason.encode("utf-8", "replace")[:4000])

    def cancelled(self) -> Optional[str]:
        """Return why the run is called off; None: it is not."""
        try:
            return read_limited(self.path / "cancel", _SMALL).decode("utf-8", "replace")
        except OSError:
            return None

    def supply(self, number: int, blob: bytes) -> None:
        """Keep the master's answer to question *number*; the first one counts."""
        target = self.path / f"supply-{number}"
        if not target.exists():
            write_durable(target, blob)

    def supplied(self, number: int) -> Optional[bytes]:
        """Return the master's answer to question *number*; None: it is not here yet."""
        try:
            return read_limited(self.path / f"supply-{number}", protocol.JOB_LIMIT)
        except FileNotFoundError:
            return None

    def is_supplied(self, number: int) -> bool:
        """Return whether the answer to question *number* is here."""
        return (self.path / f"supply-{number}").exists()

    def finish(self, result: protocol.RunResult) -> bool:
        """Keep the outcome for good; False when there is one already: the first one counts."""
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
        """Write a result; on a full disk into the room kept for it, shortened to fit."""
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
        """Say that the runner has read the outcome: whether it has something to do after it."""
        with contextlib.suppress(OSError):
            (self.path / "read").touch(mode=0o600)

    def is_let_go(self) -> bool:
        """Return whether the runner has read the outcome."""
        return (self.path / "read").exists()

    def is_done(self) -> bool:
        """Return whether the outcome is there."""
        return self.result.exists()

    def output_size(self) -> int:
        """Return how much was printed, in bytes."""
        return size_of(self.output)

    def output_tail(self, size: int = 2048) -> str:
        """Return the last *size* bytes of what was printed."""
        return tail_of(self.output, size)

    def age(self) -> float:
        """Return how long ago something happened in the folder, seconds; 0 where it is gone."""
        try:
            return max(0.0, time.time() - self.path.stat().st_mtime)
        except OSError:
            return 0.0

    def remove(self) -> None:
        """Remove the folder, by one rename: half of a folder would look like a damaged run.

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
        # Fails where the name is taken: no run's folder is ever empty.
        fresh.rename(run.path)
    except OSError:
        _remove_tree(fresh)
        if not run.exists():
            raise
    try:
        sync_folder(folder)
        failpoints.hit("ssh.start.named")
    except OSError:
        # It was refused: nobody may begin it later.
        if not run.is_claimed():
            run.remove()
        raise
    return run


def _keep_reserve(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(handle, 0, RESERVE_BYTES)
    except OSError as error:
        # A file system that can't promise room (NFS under musl) is no reason not to run.
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
    finally:
        os.close(handle)


def _remove_tree(path: Path) -> None:
    """Remove a folder, if it is there, as far as that goes."""
    if path.exists():
        import shutil

        shutil.rmtree(path, ignore_errors=True)


def every(folder: Path) -> List[RunFolder]:
    """Return the runs of a folder, sorted by id; what is being made or removed is none."""
    return [
        RunFolder(path)
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".") and (path / "job").exists()
    ]


def sweep(folder: Path) -> int:
    """Remove what a killed process was making or removing; return how much."""
    removed = 0
    for path in folder.iterdir():
        made = path.name.startswith(_NEW) and is_orphan(path)
        if made or path.name.startswith(_GONE):
            _remove_tree(path)
            removed += 1
    return removed


def is_orphan(path: Path) -> bool:
    """Return whether the process whose pid a temporary name ends with is gone."""
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
        # Opened each time: a lock belongs to an opening, which forked processes would share.
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
    """Write *line* behind the good ones; a torn one of a killed process goes."""
    os.ftruncate(handle, at)
    os.lseek(handle, at, os.SEEK_SET)
    try:
        write_all(handle, line)
    except OSError:
        os.ftruncate(handle, at)
        raise


class StepReader:
    """Reads a journal as it grows, while another process writes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        #: Length of the whole lines read so far.
        self.good = 0
        self._seq = 0

    def all(self) -> List[protocol.Step]:
        """Return the steps from the start; a torn or damaged line ends them."""
        self.good = self._seq = 0
        return self._read()

    def catch_up(self) -> int:
        """Read on to the end; return the number of the last step, 0 without any."""
        self._read()
        return self._seq

    def after(self, seq: int, limit: int) -> List[protocol.Step]:
        """Return up to *limit* steps after number *seq*."""
        if seq != self._seq:
            self.good = self._seq = 0
            self._read(seq)
        return self._read(seq + limit)

    def _read(self, until: Optional[int] = None) -> List[protocol.Step]:
        found: List[protocol.Step] = []
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
                    found.append(decode(protocol.Step, record, "step"))
        except FileNotFoundError:
            return []
        return found


def _told(process: ProcessRef) -> bytes:
    return json.dumps(encode(process)).encode("ascii")
