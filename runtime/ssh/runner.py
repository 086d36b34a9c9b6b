"""The detached processes of a run: a runner that watches, a worker that works.

The runner is forked from the serving process, leaves its session and every descriptor of it, and
needs nobody from then on. It takes the run (once), forks the worker, keeps the deadline, the limit
of the output and a cancellation, ends the worker with all that it started where it must, and sees
to it that the run has a result. The worker runs the job and makes its return durable.

Where both are gone without a result (killed, or the host rebooted), who looks next (`look`) writes
one from the journal: rows of states that ended are kept, the one that was under way is failed and
says that nobody knows.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import select
import signal
import sys
import time
import traceback
from dataclasses import replace
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from catena.core import failpoints
from catena.core.clock import SystemClock, read_boot_id
from catena.core.context import Context
from catena.core.errors import CatenaError
from catena.core.job import JobReturn, JobSpec
from catena.core.records import encode
from catena.runtime import processes
from catena.runtime.executor import execute
from catena.runtime.garbage import look_seldom
from catena.runtime.host import After, AfterKind
from catena.runtime.processes import ProcessRef
from catena.runtime.session import Session
from catena.runtime.ssh.host import session_of
from catena.runtime.ssh.protocol import (
    LowState,
    PushedJob,
    RunPhase,
    RunResult,
    TargetError,
    Trouble,
)
from catena.runtime.ssh.room import Room
from catena.runtime.ssh.runs import RunFolder, StepReader
from catena.states.compiler import api
from catena.states.compiler.faults import StateArgumentsError
from catena.states.compiler.model import TAG_SEPARATOR, Low, Row
from catena.states.compiler.run import ProgressHooks

#: How often the runner looks at what no descriptor tells.
LOOK_SECONDS = 0.25
#: How much a run may print past its functions' own capture, before it is killed.
OUTPUT_FLOOR = 1024 * 1024
#: From the result to a reboot that the run asked for, so that the master can collect it before.
COLLECT_SECONDS = 5.0

INTERRUPTED = (
    "Interrupted: {why} while this ran, and it may have happened in part, wholly or not at all. "
    "Look at the host before it is run again."
)
_DIED = "the process of this run was killed, or its host stopped,"
_NO_JOB = JobSpec("0" * 20, "")


def begin(room: Room, run: RunFolder) -> None:
    """Start a detached runner of a run; returns when it has taken the run, or could not.

    May be called for a run that has one: the second runner finds it taken and ends.

    Raises:
        OSError: no process can be made.
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
    """Be the rest of the forked process: nothing of the serving process's end is run here."""
    code = 1
    try:
        os.setsid()
        if os.fork() == 0:
            _detach(run, said)
            _Runner(room, run).run(lambda: os.close(3))
        code = 0
    except BaseException:  # noqa: BLE001  # never returns to the serving process's loop
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _detach(run: RunFolder, said: int) -> None:
    """Let go of the channel: what is left open is the output's file and, as 3, *said*."""
    os.chdir("/")
    # What jobs make has the modes that people know; our own files say theirs.
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
    """Watches one run from its own process."""

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
        worker = os.fork()
        if worker == 0:
            _become_worker(self._room, self._run, self._job)
        why = self._watch(worker)
        if not self._run.is_done():
            self._run.finish(lost(self._run, why or self._reason(math.inf)))
        _afterwards(self._run)

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
    """Yield what waits some seconds for the end of a child: True when it has ended, and reaps it.

    A descriptor tells at once; a kernel without one (older than 5.3) is asked again and again.
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
        # Other children come here too: orphans of the run.
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
            _work(room, run, job)
        code = 0
    except BaseException:  # noqa: BLE001  # never returns to the runner's loop
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _work(room: Room, run: RunFolder, job: PushedJob) -> None:
    look_seldom()
    try:
        session = session_of(room, run, job)
        with _turn(session, job):
            outcome = execute(session, job.spec, _states(job.low) if job.low is not None else None)
        after = encode(outcome.after) if outcome.after else None
        run.finish(RunResult(outcome.ret, after, outcome.raised))
    except (CatenaError, OSError) as error:
        run.finish(failed(run, job.spec, str(error) or type(error).__name__))
    except (Exception, SystemExit):  # noqa: BLE001  # custom code may raise what it likes
        run.finish(failed(run, job.spec, traceback.format_exc()))


@contextlib.contextmanager
def _turn(session: Session, job: PushedJob) -> Iterator[None]:
    """Hold the host's place for one state run; other functions need none."""
    functions = session.context.functions
    queued = job.spec.fun in functions and functions[job.spec.fun].mark.queued
    if not queued or job.spec.kwargs.get("concurrent") is True:
        yield
        return
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(session.host.cache_dir / "states.lock", flags, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            session.host.progress("note", {"text": "waits behind another state run"})
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class StepHooks(ProgressHooks):
    """Tells of the begin of every state too, so that an interruption can be told."""

    def before(self, low: Low) -> Optional[Row]:
        """Tell of the begin."""
        row = super().before(low)
        if row is None:
            self._host.progress("begin", {"key": low.key, "id": low.id, "sls": low.sls})
        return row


def _states(low: Tuple[LowState, ...]) -> Callable[[Context], Any]:
    def run(context: Context) -> Any:
        lows = [one.low() for one in low]
        try:
            return api.run(context, lows, StepHooks(context, len(lows)))
        except StateArgumentsError as error:
            return str(error).splitlines()

    return run


def look(room: Room, run: RunFolder) -> RunPhase:
    """Return where a run stands; see to it that it has a runner, or a result.

    Raises:
        TargetError: a runner could not begin.
        OSError: no runner can be started, or the result of a dead one can't be written.
    """
    if run.is_done():
        return RunPhase.done
    boot = boot_id()
    if not run.is_claimed():
        begin(room, run)
        if not run.is_claimed():
            last = (run.output_tail() or "it said nothing").splitlines()[-1]
            raise TargetError(Trouble.fault, f"the runner ended before it began: {last}")
        return RunPhase.done if run.is_done() else RunPhase.running
    if _lives(run.process("runner"), boot):
        return RunPhase.running
    worker = run.process("worker")
    if _lives(worker, boot):
        reason = run.cancelled()
        if reason is None:
            return RunPhase.running
        assert worker is not None
        processes.kill_tree(worker, boot)
    _settle(run, boot)
    return RunPhase.done


def _lives(process: Optional[ProcessRef], boot: str) -> bool:
    return process is not None and processes.is_alive(process, boot)


def _settle(run: RunFolder, boot: str) -> None:
    """Give a run whose processes are gone a result."""
    if run.is_done():
        return
    reason = run.cancelled()
    if reason is None:
        # A worker that has no name yet sees this, or we see its name.
        run.cancel("")
        worker = run.process("worker")
        if _lives(worker, boot):
            assert worker is not None
            processes.kill_tree(worker, boot)
    run.finish(lost(run, f"cancelled: {reason}" if reason else ""))


def lost(run: RunFolder, why: str = "") -> RunResult:
    """Return the result of a run that has none of its own, from its journal.

    Args:
        run: its processes are gone.
        why: it was killed on purpose; "": nobody knows why it ended.
    """
    spec = _spec(run)
    steps = StepReader(run.steps).all()
    rows: Dict[str, Any] = {}
    under_way: Dict[str, Any] = {}
    for step in steps:
        if step.kind == "state":
            rows[str(step.data.get("key"))] = step.data.get("ret")
            under_way = {}
        elif step.kind == "begin":
            under_way = step.data
    text = INTERRUPTED.format(why=f"this was {why}" if why else _DIED)
    if under_way:
        rows[str(under_way.get("key"))] = _row(under_way, len(rows), text)
    tail = run.output_tail()
    said = f"\nIts last words:\n{tail}" if tail and not why else ""
    value: Any = rows or (why or INTERRUPTED.format(why=_DIED)) + said
    interrupted = not why or bool(under_way)
    return replace(failed(run, spec, value), interrupted=interrupted)


def _row(under_way: Dict[str, Any], number: int, text: str) -> Dict[str, Any]:
    key = str(under_way.get("key"))
    parts = key.split(TAG_SEPARATOR)
    return {
        "name": parts[2] if len(parts) == 4 else key,
        "result": False,
        "changes": {},
        "comment": text,
        "__id__": under_way.get("id"),
        "__sls__": under_way.get("sls"),
        "__run_num__": number,
    }


def failed(run: RunFolder, spec: Optional[JobSpec], value: Any) -> RunResult:
    """Return the result of a run that failed as a whole."""
    spec = spec or _spec(run)
    began = _began(run)
    lasted = max(0.0, SystemClock().now().timestamp() - began)
    out = "highstate" if isinstance(value, dict) else ""
    ret = JobReturn(
        spec.jid, spec.fun, (), False, 1, value, began, lasted, out=out, boot_id=boot_id()
    )
    return RunResult(ret, raised=not isinstance(value, dict))


def _spec(run: RunFolder) -> JobSpec:
    try:
        return run.read_job().spec
    except (CatenaError, OSError):
        return _NO_JOB


def _began(run: RunFolder) -> float:
    try:
        return (run.path / "runner").stat().st_mtime
    except OSError:
        return SystemClock().now().timestamp()


def _afterwards(run: RunFolder) -> None:
    """Reboot the host where the run asked for it; its result is durable."""
    after = _after(run)
    if after is None or after.kind is not AfterKind.reboot or not after.command:
        return
    ends = time.monotonic() + COLLECT_SECONDS
    while run.exists() and time.monotonic() < ends:
        time.sleep(0.1)
    time.sleep(after.delay_seconds)
    if after.boot_id in ("", boot_id()):
        os.execvp(after.command[0], list(after.command))


def _after(run: RunFolder) -> Optional[After]:
    from catena.core.files import read_limited
    from catena.core.records import decode
    from catena.runtime.ssh.protocol import JOB_LIMIT, unpack_result

    try:
        found = unpack_result(read_limited(run.result, JOB_LIMIT)).after
        return decode(After, found, "after") if found else None
    except (CatenaError, OSError):
        return None


def boot_id() -> str:
    """Return the id of the running boot; "" where the host has none: nothing counts as alive."""
    try:
        return read_boot_id()
    except OSError:
        return ""
