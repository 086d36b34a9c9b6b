"""One job at a time in a process of its own, forked from the template.

The process claims the job, runs it, writes the outcome into the job's folder and ends. It needs
the daemon only for files, pillar and events. If the daemon is killed meanwhile, its successor
finds the outcome there. Making the outcome durable is up to the daemon (`jobs`).

Only a process that its job left unchanged is reused for another job. Its function must be marked
as clean. It must not have loaded a custom file, used a scope, left a child process or output, or
grown. Reuse saves a fork, which copies a thousand pages although a job needs a dozen. Further jobs
arrive over the socket to the daemon, and their outcomes are sent back there (`life`).
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from typing import Callable, Optional, Protocol, Tuple

from catena.core import failpoints, records
from catena.core.chain_calls import is_chain_call
from catena.core.clock import Clock, read_boot_id
from catena.core.errors import CatenaError
from catena.core.frozen import dataclass, field
from catena.core.job import JobReturn, JobSpec
from catena.core.marks import is_resumable
from catena.core.plugins import FunctionMark
from catena.core.redact import hide_arguments
from catena.fileserver.remote import CachingClient, ChunkSource
from catena.minion.jobs.folder import Claim, JobFolder, ReturnExtras
from catena.minion.jobs.inline import chainless
from catena.minion.start.blob import StartData
from catena.minion.worker import scope
from catena.minion.worker.kept_pillar import KeptPillar
from catena.minion.worker.service import SocketService
from catena.runtime import chain_run
from catena.runtime.executor import FinishedJob, execute, passes
from catena.runtime.host import AgentHome, AgentService
from catena.runtime.processes import reference
from catena.runtime.session import JobSession, remote_session
from catena.transport import wire
from catena.transport.messages import JobReturned


class Service(AgentService, ChunkSource, Protocol):
    """What a job requests from its daemon."""

    def close(self) -> None:
        """Close the connection."""


@dataclass(frozen=True)
class Answer:
    """The outcome of a job that arrived over the socket."""

    #: Body of a JobReturned.
    body: bytes
    aside: ReturnExtras
    #: Whether the function leaves nothing behind in this process, according to its mark.
    clean: bool


@dataclass(frozen=True)
class _Task:
    """What one job runs with, as far as it could be prepared."""

    place: AgentHome
    began: float
    files: Optional[CachingClient] = None
    session: Optional[JobSession] = None
    mark: FunctionMark = field(default_factory=FunctionMark)
    #: Traceback that explains a missing session. If only the function is missing, the executor
    #: reports that.
    fault: str = ""


#: Claims a job for this process, with True in a new scope as the job may change the host.
ClaimAs = Callable[[bool], Optional[Claim]]


@dataclass(frozen=True)
class Worker:
    """Runs jobs in this process."""

    start: StartData
    #: `place_of(start)`, made once for all jobs of a process.
    place: AgentHome
    service: Service
    claim: ClaimAs
    clock: Clock

    def run(self, folder: JobFolder) -> bool:
        """Claim a job, run it, and store its outcome; do nothing if it is claimed already.

        Returns:
            Whether the function leaves nothing behind in this process.
        """
        spec = folder.read_spec().spec
        try:
            return self._run(folder, spec)
        except (OSError, CatenaError) as error:
            if not (is_resumable(spec.fun) and passes(error)):
                raise
            # Its journal has its state; the agent starts it again once the obstacle is gone.
            folder.give_back()
            return False

    def _run(self, folder: JobFolder, spec: JobSpec) -> bool:
        task = self._task(spec)
        claim = None if folder.has_return() else self.claim(not task.mark.reads)
        if claim is None or not folder.claim(claim):
            return False
        outcome = self._attempt(task, spec)
        body, aside = self._packed(task.place, spec, outcome)
        folder.finish(body, aside)
        failpoints.hit("worker.returned")
        if isinstance(self.service, KeptPillar) and not aside.pending_resume:
            self.service.forget()
        self._close(task)
        return self._is_clean(task, claim.scope) and folder.has_return()

    def answer(self, folder: JobFolder, spec: JobSpec) -> Answer:
        """Run a job that arrived over the socket; the caller sends or stores its outcome.

        The job has no folder; whatever needs one creates it.
        """
        task = self._task(spec)
        name = ""
        if not task.mark.reads and scope.is_there():
            claim = self.claim(True)
            if claim is not None and claim.scope:
                folder.make()
                folder.claim(claim)
                name = claim.scope
        outcome = self._attempt(task, spec)
        body, aside = self._packed(task.place, spec, outcome)
        self._close(task)
        return Answer(body, aside, self._is_clean(task, name))

    def _task(self, spec: JobSpec) -> _Task:
        """Return what *spec* runs with."""
        place, began = self.place, self._now()
        files: Optional[CachingClient] = None
        try:
            files = CachingClient(self.service, self.start.files_dir)
            session = remote_session(place, spec, self.service, files, self.clock)
            files.report = session.context.host.progress
            return _Task(place, began, files, session, _mark_of(session, spec.fun))
        except Exception:  # noqa: BLE001  # the process's edge: a job ends with a return
            return _Task(place, began, files, fault=traceback.format_exc())

    def _close(self, task: _Task) -> None:
        self.service.close()
        if task.files:
            # The outcome is stored already, so a full disk loses nothing here.
            with contextlib.suppress(OSError):
                task.files.prune_daily()

    def _is_clean(self, task: _Task, scope_name: str) -> bool:
        """Return whether the job, as far as known, has left this process unchanged."""
        if not task.mark.clean or scope_name or task.session is None:
            return False
        return task.session.own_code_only

    def _attempt(self, task: _Task, spec: JobSpec) -> FinishedJob:
        failpoints.hit("worker.claimed")
        outcome = self._outcome(task, spec)
        failpoints.hit("worker.executed")
        return outcome

    def _outcome(self, task: _Task, spec: JobSpec) -> FinishedJob:
        began = self._now()
        if task.session is None:
            return FinishedJob(_failed(spec, task.began, task.fault))
        try:
            return execute(task.session, spec)
        except (Exception, SystemExit) as error:  # custom code may call sys.exit
            if is_resumable(spec.fun) and passes(error):
                raise
            lasted = max(0.0, self._now() - began)
            return FinishedJob(_failed(spec, began, traceback.format_exc(), lasted))

    def _packed(
        self, place: AgentHome, spec: JobSpec, outcome: FinishedJob
    ) -> Tuple[bytes, ReturnExtras]:
        """Return the encoded outcome, and its additional data."""
        sys.stdout.flush()
        aside = aside_of(place, outcome)
        try:
            return wire.pack_body(JobReturned(outcome.ret)), aside
        except CatenaError as error:
            text = f"The value of {spec.fun} cannot be sent: {error}"
            return wire.pack_body(JobReturned(_failed(spec, outcome.ret.started, text))), aside

    def _now(self) -> float:
        return self.clock.now().timestamp()


def _mark_of(session: JobSession, fun: str) -> FunctionMark:
    """Return a function's mark, or the most restrictive one if it cannot be loaded."""
    try:
        mark: FunctionMark = session.context.functions[fun].mark
    except CatenaError:
        return FunctionMark()
    return mark


def service_of(start: StartData, folder: JobFolder) -> SocketService:
    """Return the connection to the daemon for the job of *folder*."""
    if start.settings.resume == "local":
        if is_chain_call(folder.read_spec().spec.fun):
            return KeptPillar(start.run_dir, start.cache_dir / "chain_pillar", folder.attempts)
    return SocketService(start.run_dir, attempts=folder.attempts)


def claim_of(start: StartData, jid: str) -> ClaimAs:
    """Return the function that claims job *jid* for this process."""

    def claim(changes: bool) -> Optional[Claim]:
        me = reference(os.getpid(), read_boot_id(start.settings.boot_id_file))
        if me is None:
            return None
        name = scope.enter(jid, start.settings.job_tasks_max) if changes else ""
        return Claim(me, name, time.monotonic())

    return claim


def _failed(spec: JobSpec, began: float, text: str, lasted: float = 0.0) -> JobReturn:
    args = tuple(hide_arguments(spec.args))
    return JobReturn(spec.jid, spec.fun, args, False, 1, text, began, lasted)


def aside_of(place: AgentHome, outcome: Optional[FinishedJob] = None) -> ReturnExtras:
    """Return what the daemon must know about chains on this host, and what it must do now."""
    after = outcome.after if outcome else chain_run.pending_after(place)
    if after is None and chainless(place.conf_dir, place.cache_dir):
        return ReturnExtras()
    chain = chain_run.open_chain(place)
    return ReturnExtras(
        after=records.encode(after) if after else {},
        open_chain=chain.chain_id if chain and chain.state == "waiting" else 0,
        pending_resume=chain_run.pending_resume(place),
    )
