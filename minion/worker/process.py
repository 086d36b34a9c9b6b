"""One job at a time in a process of its own, forked from the template.

It takes the job (once), runs it, leaves the outcome in the job's folder and ends. It needs the
daemon for files, pillar and events only: a daemon that is killed meanwhile changes nothing, its
successor finds the outcome there. To make it durable is the daemon's affair (`jobs`).

Only a process that is as it was before its job lives on for another one: a function that says so
of itself, no custom files, no scope, nothing left running, no memory left behind. A fork copies a
thousand pages for a job that needs a dozen.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys
import time
import traceback
from typing import Callable, Optional, Protocol

from catena.core import failpoints, records
from catena.core.clock import Clock, SystemClock, read_boot_id
from catena.core.errors import CatenaError
from catena.core.frozen import dataclass
from catena.core.job import CHAIN_FUNCTIONS, JobReturn, JobSpec
from catena.core.plugins import FunctionMark
from catena.fileserver.remote import CachingClient, ChunkSource
from catena.minion.jobs.folder import Aside, Claim, JobFolder, job_folder
from catena.minion.start.blob import Start
from catena.minion.start.place import place_of
from catena.minion.worker import scope
from catena.minion.worker.kept_pillar import KeptPillar
from catena.minion.worker.service import SocketService
from catena.runtime import chain_run
from catena.runtime.executor import Outcome, execute, passes
from catena.runtime.garbage import look_seldom
from catena.runtime.host import AgentService, Place
from catena.runtime.processes import become_subreaper, has_children, reference
from catena.runtime.session import Session, remote_session
from catena.transport import wire
from catena.transport.messages import JobReturned

#: Said to the template by a process that may have another job.
FREE = b"free"
#: After so many jobs a process ends, however clean: what leaks slowly goes with it.
JOBS_LIMIT = 100
#: Nor does one live on that a large output has made larger than this.
SIZE_LIMIT_KIB = 64 * 1024
_MESSAGE_BYTES = 4096


def detach() -> None:
    """Leave the template: own session, default signals."""
    os.setsid()
    # What jobs make has the modes that people know; the daemon's own umask hides its own files.
    os.umask(0o022)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def redirect(output: str) -> None:
    """Let stdout and stderr go into a file."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    written = os.open(output, flags, 0o600)
    os.dup2(nothing, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.close(nothing)
    os.close(written)


class Service(AgentService, ChunkSource, Protocol):
    """What a job asks its daemon for."""

    def close(self) -> None:
        """Hang up."""


#: Names this process, in a scope of its own if the job may change the host; None: it can't work.
ClaimAs = Callable[[bool], Optional[Claim]]


@dataclass(frozen=True)
class Worker:
    """What one job is run with."""

    start: Start
    service: Service
    claim: ClaimAs
    clock: Clock

    def run(self, folder: JobFolder) -> bool:
        """Take a job, run it, make its outcome durable; nothing, where another process has it.

        Returns:
            Whether the function leaves nothing behind in this process.
        """
        spec = folder.read_spec().spec
        try:
            return self._run(folder, spec)
        except (OSError, CatenaError) as error:
            if not (spec.fun in CHAIN_FUNCTIONS and passes(error)):
                raise
            # Its journal says where it stands; the agent begins it again until that has passed.
            folder.give_back()
            return False

    def _run(self, folder: JobFolder, spec: JobSpec) -> bool:
        place = place_of(self.start)
        began = self._now()
        session: Optional[Session] = None
        mark, fault = FunctionMark(), ""
        try:
            files = CachingClient(self.service, self.start.cache_dir / "files")
            session = remote_session(place, spec, self.service, files, self.clock)
            mark = session.context.functions[spec.fun].mark
        except Exception:  # noqa: BLE001  # the process's edge: a job ends with a return
            fault = traceback.format_exc()
        claim = None if folder.has_return() else self.claim(not mark.reads)
        if claim is None or not folder.claim(claim):
            return False
        failpoints.hit("worker.claimed")
        # A function that is not known is the executor's to report, in its own words.
        outcome = self._attempt(session, spec) if session else Outcome(_failed(spec, began, fault))
        failpoints.hit("worker.executed")
        aside = self._keep(folder, place, spec, outcome)
        failpoints.hit("worker.returned")
        if isinstance(self.service, KeptPillar) and not aside.pending_resume:
            self.service.forget()
        self.service.close()
        if session:
            # The return is kept already: a full disk here takes nothing with it.
            with contextlib.suppress(OSError):
                files.prune_daily()
        custom = (self.start.cache_dir / "extmods").exists()
        return mark.clean and not claim.scope and not custom and folder.has_return()

    def _attempt(self, session: Session, spec: JobSpec) -> Outcome:
        began = self._now()
        try:
            return execute(session, spec)
        except (Exception, SystemExit) as error:  # custom code may call sys.exit
            if spec.fun in CHAIN_FUNCTIONS and passes(error):
                raise
            lasted = max(0.0, self._now() - began)
            return Outcome(_failed(spec, began, traceback.format_exc(), lasted))

    def _keep(self, folder: JobFolder, place: Place, spec: JobSpec, outcome: Outcome) -> Aside:
        sys.stdout.flush()
        aside = aside_of(place, outcome)
        try:
            body = wire.pack_body(JobReturned(outcome.ret))
        except CatenaError as error:
            text = f"The value of {spec.fun} can't be sent: {error}"
            body = wire.pack_body(JobReturned(_failed(spec, outcome.ret.started, text)))
        folder.finish(body, aside)
        return aside

    def _now(self) -> float:
        return self.clock.now().timestamp()


def run(start: Start, jid: str, line: socket.socket) -> int:
    """Run job *jid* of the store in this process, and others while it stays as it was.

    Args:
        start: the agent's start record.
        jid: the first job.
        line: to the template, which is told when this process is free, and gives the next jid.

    Returns:
        The process's exit code.
    """
    look_seldom()
    detach()
    become_subreaper()
    jobs = 0
    while jid and _work(start, jid) and jobs < JOBS_LIMIT:
        jobs += 1
        try:
            line.send(FREE)
            jid = line.recv(_MESSAGE_BYTES).decode("ascii")
        except OSError:  # the template has gone, and the agent perhaps
            break
    return 0


def _work(start: Start, jid: str) -> bool:
    """Run a job; return whether this process may run another one."""
    folder = job_folder(start.cache_dir, jid)
    redirect(str(folder.output))
    service = _service(start, folder)
    worker = Worker(start, service, lambda changes: _claim(start, jid, changes), SystemClock())
    clean = worker.run(folder)
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return clean and size < SIZE_LIMIT_KIB and not has_children()


def _service(start: Start, folder: JobFolder) -> SocketService:
    if start.settings.resume == "local":
        if folder.read_spec().spec.fun.startswith("mgractionchains."):
            return KeptPillar(start.run_dir, start.cache_dir / "chain_pillar")
    return SocketService(start.run_dir)


def _claim(start: Start, jid: str, changes: bool) -> Optional[Claim]:
    me = reference(os.getpid(), read_boot_id(start.settings.boot_id_file))
    if me is None:
        return None
    name = scope.enter(jid, start.settings.job_tasks_max) if changes else ""
    return Claim(me, name, time.monotonic())


def _failed(spec: JobSpec, began: float, text: str, lasted: float = 0.0) -> JobReturn:
    return JobReturn(spec.jid, spec.fun, spec.args, False, 1, text, began, lasted)


def aside_of(place: Place, outcome: Optional[Outcome] = None) -> Aside:
    """Return what the daemon must know of chains on this host, and what it must do now."""
    after = outcome.after if outcome else chain_run.pending_after(place)
    chain = chain_run.open_chain(place)
    return Aside(
        after=records.encode(after) if after else {},
        open_chain=chain.chain_id if chain and chain.state == "waiting" else 0,
        pending_resume=chain_run.pending_resume(place),
    )


def exit_after(work: Callable[[], int]) -> None:
    """Run *work* as the rest of this forked process: nothing of the template's end is run."""
    code = 1
    try:
        code = work()
    except BaseException:  # noqa: BLE001  # a forked child never returns to its template's loop
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
