"""The detached processes of a run: a runner that supervises, and a worker that works.

The runner is forked from the serving process, leaves its session, and closes all its descriptors,
so it depends on nothing. It claims the run, forks the worker, and enforces the deadline, the limit
of the output and a cancellation. It kills the worker with its descendants if necessary, and
ensures that the run has a result. The worker runs the job and makes its return durable.

If both have ended without a result (killed, or the host rebooted), the next call of `look` writes
one from the journal: rows of completed states are kept, and the state in progress fails with the
remark that its outcome is unknown.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import sys
import time
from typing import Callable, Iterator, Optional

from catena.core import failpoints
from catena.core.clock import read_boot_id
from catena.core.errors import CatenaError
from catena.core.files import read_limited
from catena.core.records import decode
from catena.runtime import processes
from catena.runtime.host import After, AfterKind, AgentHome
from catena.runtime.processes import ProcessRef
from catena.runtime.push.host_folder import Room
from catena.runtime.push.outcome import boot_id, failed, lost
from catena.runtime.push.protocol import (
    JOB_LIMIT,
    ProgramError,
    PushedJob,
    RunPhase,
    Trouble,
    unpack_result,
)
from catena.runtime.push.runs import RunFolder

#: Seconds between the runner's checks of what no descriptor reports.
LOOK_SECONDS = 0.25
#: Minimum limit in bytes of a run's output besides its functions' captured output.
OUTPUT_FLOOR = 1024 * 1024
#: Seconds between the result and a requested reboot, for the master to collect the result.
COLLECT_SECONDS = 5.0

_TOO_LATE = "it came too late: it may not start any more"


def begin(room: Room, run: RunFolder) -> None:
    """Start a detached runner; return when it has claimed the run, or could not.

    It may be called for a run that has a runner: the second one finds the claim and exits.

    Raises:
        OSError: no process can be created.
    """
    heard, said = os.pipe()
    try:
        child = os.fork()
        if child == 0:
            _become_runner(room, run, said)
    finally:
        os.close(said)
    with os.fdopen(heard, "rb") as stream:
        stream.read()
    os.waitpid(child, 0)


def _become_runner(room: Room, run: RunFolder, said: int) -> None:
    """Run as the forked process, without the serving process's exit handlers."""
    code = 1
    try:
        os.setsid()
        if os.fork() == 0:
            _detach(run, said)
            _Runner(room, run).run(lambda: os.close(3))
        code = 0
    except BaseException:  # noqa: BLE001  # never returns to the serving process's loop
        _print_fault()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _detach(run: RunFolder, said: int) -> None:
    """Close the channel: only the output file and *said*, as 3, stay open."""
    os.chdir("/")
    # Files made by jobs have the usual modes; our own files set theirs explicitly.
    os.umask(0o022)
    for each in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    nothing, written = os.open(os.devnull, os.O_RDONLY), os.open(run.output, flags, 0o600)
    os.dup2(said, 3, inheritable=False)
    for target, source in ((0, nothing), (1, written), (2, written)):
        os.dup2(source, target)
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208
        if number > 3:
            with contextlib.suppress(OSError):
                os.close(number)


class _Runner:
    """Supervises one run from a process of its own."""

    def __init__(self, room: Room, run: RunFolder) -> None:
        self._room = room
        self._run = run
        self._boot_id = boot_id()
        self._job: Optional[PushedJob] = None

    def run(self, claimed: Callable[[], None]) -> None:
        me = processes.reference(os.getpid(), self._boot_id)
        if me is None or not self._run.claim(me):
            return
        failpoints.hit("ssh.run.claimed")
        claimed()
        processes.become_subreaper()
        try:
            self._job = self._run.read_job()
        except (CatenaError, OSError) as error:
            self._run.finish(failed(self._run, None, f"the job can't be read: {error}"))
            return
        if 0 < self._job.spec.not_after < time.time():
            self._run.finish(failed(self._run, self._job.spec, _TOO_LATE))
            return
        worker = os.fork()
        if worker == 0:
            _become_worker(self._room, self._run, self._job)
        why = self._watch(worker)
        if not self._run.is_done():
            self._run.finish(lost(self._run, why or self._reason(math.inf)))
        _afterwards(self._room, self._run, self._job)

    def _watch(self, worker: int) -> str:
        """Wait for the worker's end; return why it was killed, or ""."""
        assert self._job is not None
        ends = time.monotonic() + self._job.spec.deadline_seconds
        why = ""
        with _ended(worker) as wait:
            while not wait(LOOK_SECONDS):
                why = why or self._reason(ends)
                if why:
                    _kill(worker, self._boot_id)
        # What a killed worker had started has come to this process; a daemon that a run started
        # on purpose outlives it.
        if not self._run.is_done():
            for pid in processes.descendants(os.getpid()):
                _kill(pid, self._boot_id)
        return why

    def _reason(self, ends: float) -> str:
        assert self._job is not None
        reason = self._run.cancelled()
        if reason is not None:
            return f"cancelled: {reason}" if reason else "cancelled"
        if time.monotonic() > ends:
            return f"killed: not done after {self._job.spec.deadline_seconds} seconds"
        if self._run.output_size() > max(self._job.spec.output_limit, OUTPUT_FLOOR):
            return f"killed: it printed more than {self._job.spec.output_limit} bytes"
        return ""


@contextlib.contextmanager
def _ended(pid: int) -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits for the end of a child, and reaps it; True when it has ended.

    A descriptor reports the end at once; a kernel without pidfds (older than 5.3) is polled.
    """
    handle = -1
    with contextlib.suppress(OSError, AttributeError):
        handle = os.pidfd_open(pid)

    def wait(seconds: float) -> bool:
        if handle >= 0:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll(seconds * 1000)
        else:
            time.sleep(min(seconds, 0.02))
        # Orphans of the run have become children of this process, too.
        with contextlib.suppress(ChildProcessError):
            while True:
                found, _ = os.waitpid(-1, os.WNOHANG)
                if found == pid:
                    return True
                if found == 0:
                    return False
        return True

    try:
        yield wait
    finally:
        if handle >= 0:
            os.close(handle)


def _print_fault() -> None:
    import traceback

    traceback.print_exc()


def _kill(pid: int, boot: str) -> None:
    found = processes.reference(pid, boot)
    if found is not None:
        processes.kill_tree(found, boot)


def _become_worker(room: Room, run: RunFolder, job: PushedJob) -> None:
    code = 1
    try:
        os.setsid()
        processes.become_subreaper()
        me = processes.reference(os.getpid(), boot_id())
        if me is not None:
            run.name_worker(me)
        failpoints.hit("ssh.run.named")
        # Whoever finds this run without processes cancels it before it looks for this name.
        if run.cancelled() is None and not run.is_done():
            # Imported here: who only serves the channel has no use for the compiler of states.
            from catena.runtime.push import worker

            worker.work(room, run, job)
        code = 0
    except BaseException:  # noqa: BLE001  # never returns to the runner's loop
        _print_fault()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def look(room: Room, run: RunFolder, *, asked_for: bool = True) -> RunPhase:
    """Return the state of a run; ensure that it has a runner or a result.

    Args:
        room: the folder.
        run: the run.
        asked_for: whether the run's own master asks; nobody else may start a run.

    Raises:
        ProgramError: a runner could not start.
        OSError: no runner can be started, or the result of a dead one cannot be written.
    """
    if run.is_done():
        return RunPhase.done
    boot = boot_id()
    if not run.is_claimed():
        if not asked_for:
            return RunPhase.running
        begin(room, run)
        if not run.is_claimed():
            last = (run.output_tail() or "it said nothing").splitlines()[-1]
            raise ProgramError(Trouble.fault, f"the runner ended before it began: {last}")
        return RunPhase.done if run.is_done() else RunPhase.running
    if _lives(run.process("runner"), boot):
        return RunPhase.running
    worker = run.process("worker")
    if _lives(worker, boot):
        if run.cancelled() is None and not _is_overdue(run):
            return RunPhase.running
        assert worker is not None
        processes.kill_tree(worker, boot)
    _settle(run, boot)
    return RunPhase.done


def is_read(run: RunFolder) -> bool:
    """Return whether a run's runner no longer needs its result, or is gone."""
    return run.is_let_go() or not _lives(run.process("runner"), boot_id())


def _lives(process: Optional[ProcessRef], boot: str) -> bool:
    return process is not None and processes.is_alive(process, boot)


def _is_overdue(run: RunFolder) -> bool:
    """Enforce the deadline of a run whose runner was killed while its worker is alive."""
    with contextlib.suppress(CatenaError, OSError):
        seconds = run.read_job().spec.deadline_seconds
        if time.time() - (run.path / "runner").stat().st_mtime > seconds:
            run.cancel(f"not done after {seconds} seconds")
            return True
    return False


def _settle(run: RunFolder, boot: str) -> None:
    """Write a result for a run whose processes are gone."""
    if run.is_done():
        return
    reason = run.cancelled()
    if reason is None:
        # A worker without a recorded name will see this, or its name is visible here.
        run.cancel("")
        worker = run.process("worker")
        if _lives(worker, boot):
            assert worker is not None
            processes.kill_tree(worker, boot)
    run.finish(lost(run, f"cancelled: {reason}" if reason else ""))


def _afterwards(room: Room, run: RunFolder, job: PushedJob) -> None:
    """Reboot the host if the run requested it; its result is durable."""
    after = _after(run)
    run.let_go()
    if after is None or after.kind is not AfterKind.reboot or not after.command:
        return
    failpoints.hit("reboot.before")
    ends = time.monotonic() + COLLECT_SECONDS
    while run.exists() and time.monotonic() < ends:
        time.sleep(0.1)
    time.sleep(after.delay_seconds)
    place = room.place(job.identity)
    if after.boot_id in ("", _boot_of(place)) and not _is_given_up(place, after.chain_id):
        failpoints.hit("reboot.now")
        os.execvp(after.command[0], list(after.command))


def _boot_of(place: AgentHome) -> str:
    """Return the boot id that chains on this host see."""
    try:
        return read_boot_id(place.settings.boot_id_file)
    except OSError:
        return ""


def _is_given_up(place: AgentHome, chain_id: int) -> bool:
    """Return whether a chain was cancelled, or failed, after it requested its reboot."""
    from catena.runtime.chain_run import chain_state

    found = chain_state(place, chain_id)
    return found is not None and found.state in ("cancelled", "failed")


def _after(run: RunFolder) -> Optional[After]:
    try:
        found = unpack_result(read_limited(run.result, JOB_LIMIT)).after
        return decode(After, found, "after") if found else None
    except (CatenaError, OSError):
        return None
