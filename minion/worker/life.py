"""The life of a job process, from its fork to the end of its last job."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import sys
import traceback
from typing import Callable, Optional

from catena.core.clock import SystemClock
from catena.core.frozen import dataclass
from catena.core.job import JobSpec
from catena.core.privileges import JOB_UMASK
from catena.minion.jobs.folder import JobFolder, ReturnExtras, job_folder, unpacked_order
from catena.minion.jobs.lines import DONE, FREE, GIVEN_BYTES, GO
from catena.minion.start.blob import StartData
from catena.minion.start.place import place_of
from catena.minion.worker.process import Worker, claim_of, service_of
from catena.minion.worker.service import SocketService
from catena.runtime.garbage import collect_rarely
from catena.runtime.host import AgentHome
from catena.runtime.processes import become_subreaper, has_children

#: Maximum number of jobs of one process, which bounds the effect of slow leaks.
JOBS_LIMIT = 100
#: Maximum memory in KiB of a process that is reused; a large output may have enlarged it.
SIZE_LIMIT_KIB = 64 * 1024
_STDOUT = 1


def run(start: StartData, jid: str, line: socket.socket) -> int:
    """Run job *jid* of the store in this process, and further jobs as long as it is unchanged.

    Args:
        start: the agent's start record.
        jid: the first job.
        line: socket to the daemon, which learns when this process is free and sends it jobs.

    Returns:
        The process's exit code.
    """
    collect_rarely()
    detach()
    become_subreaper()
    folder = job_folder(start.cache_dir, jid)
    redirect(str(folder.output))
    place, service = place_of(start), service_of(start, folder)
    worker = Worker(start, place, service, claim_of(start, jid), SystemClock())
    if worker.run(folder) and is_as_before():
        _serve(start, place, line)
    return 0


@dataclass(frozen=True)
class _Outcome:
    """An outcome that exists only in this process until the daemon has stored it."""

    folder: JobFolder
    body: bytes

    def leave(self) -> None:
        """Write it into the job's folder, where the next daemon finds it."""
        self.folder.make()
        self.folder.finish(self.body)


def _serve(start: StartData, place: AgentHome, line: socket.socket) -> None:
    """Run the jobs that arrive over *line*."""
    said, outcome = FREE, None
    for _ in range(JOBS_LIMIT):
        order = _exchange(line, said)
        if order == GO:
            return
        if not order:
            break
        outcome = _answer(start, place, unpacked_order(order).spec)
        if outcome is None:
            return
        said = DONE + outcome.body
    if outcome is not None:
        # The daemon has not confirmed that it stored this outcome.
        outcome.leave()


def _exchange(line: socket.socket, said: bytes) -> bytes:
    """Send the last outcome and return the next message; b"" if the daemon is gone."""
    try:
        line.send(said)
        return line.recv(GIVEN_BYTES)
    except OSError:
        return b""


def _answer(start: StartData, place: AgentHome, spec: JobSpec) -> Optional[_Outcome]:
    """Run a job; return None if its outcome is in its folder and this process must end."""
    folder = job_folder(start.cache_dir, spec.jid)
    service, claim = SocketService(start.run_dir), claim_of(start, spec.jid)
    worker = Worker(start, place, service, claim, SystemClock())
    try:
        answer = worker.answer(folder, spec)
    except BaseException:
        # The traceback becomes the end of the job's output: this process ends without an outcome.
        traceback.print_exc()
        _keep_output(folder)
        raise
    fits = len(answer.body) <= GIVEN_BYTES and answer.aside == ReturnExtras()
    if answer.clean and fits and is_as_before():
        return _Outcome(folder, answer.body)
    _keep_output(folder)
    folder.finish(answer.body, answer.aside)
    return None


def is_as_before() -> bool:
    """Return whether the job has left no memory, child process or output in this process."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size < SIZE_LIMIT_KIB and not has_children() and not os.fstat(_STDOUT).st_size


def _keep_output(folder: JobFolder) -> None:
    """Write the job's output into its folder, which is created for it."""
    folder.make()
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fstat(_STDOUT).st_size:
        shutil.copyfile(f"/proc/self/fd/{_STDOUT}", folder.output)


def detach() -> None:
    """Detach from the template: own session, default signals."""
    os.setsid()
    os.umask(JOB_UMASK)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def redirect(output: str) -> None:
    """Redirect stdout and stderr to a file."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    written = os.open(output, flags, 0o600)
    os.dup2(nothing, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.close(nothing)
    os.close(written)


def exit_after(work: Callable[[], int]) -> None:
    """Run *work* as the rest of this forked process, without the template's exit handlers."""
    code = 1
    try:
        code = work()
    except BaseException:  # noqa: BLE001  # a forked child never returns to its template's loop
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
