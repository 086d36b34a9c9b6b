"""One job at a time in a process of its own, forked from the template.

It takes the job (once), runs it, leaves the outcome in the job's folder and ends. It needs the
daemon for files, pillar and events only: a daemon that is killed meanwhile changes nothing, its
successor finds the outcome there. To make it durable is the daemon's affair (`jobs`).

Only a process that is as it was before its job lives on for another one: a function that says so
of itself, no custom file loaded, no scope, nothing left running or printed, no memory left
behind. A fork copies a thousand pages for a job that needs a dozen. Its next jobs come by its line
to the daemon, and their outcomes go back there (`life`).
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
from catena.minion.jobs.folder import Aside, Claim, JobFolder
from catena.minion.jobs.inline import chainless
from catena.minion.start.blob import Start
from catena.minion.worker import scope
from catena.minion.worker.kept_pillar import KeptPillar
from catena.minion.worker.service import SocketService
from catena.runtime import chain_run
from catena.runtime.executor import Outcome, execute, passes
from catena.runtime.host import AgentService, Place
from catena.runtime.processes import reference
from catena.runtime.session import Session, remote_session
from catena.transport import wire
from catena.transport.messages import JobReturned


class Service(AgentService, ChunkSource, Protocol):
    """What a job asks its daemon for."""

    def close(self) -> None:
        """Hang up."""


@dataclass(frozen=True)
class Answer:
    """The outcome of a job that came by the line."""

    #: Of a JobReturned.
    body: bytes
    aside: Aside
    #: Whether the function, by its own word, leaves nothing behind in this process.
    clean: bool


@dataclass(frozen=True)
class _Task:
    """What one job is run with, as far as that could be made."""

    place: Place
    began: float
    files: Optional[CachingClient] = None
    session: Optional[Session] = None
    mark: FunctionMark = field(default_factory=FunctionMark)
    #: Why there is no session: a traceback. A function that can't be had is the executor's to
    #: report, in its own words.
    fault: str = ""


#: Names this process, in a scope of its own if the job may change the host; None: it can't work.
ClaimAs = Callable[[bool], Optional[Claim]]


@dataclass(frozen=True)
class Worker:
    """What one job is run with."""

    start: Start
    #: Where the agent lives: `place_of(start)`, made once for all jobs of a process.
    place: Place
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
            if not (is_resumable(spec.fun) and passes(error)):
                raise
            # Its journal says where it stands; the agent begins it again until that has passed.
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
        """Run a job that came by the line; its outcome is the caller's to hand over or to keep.

        Its folder is not there: who needs it makes it.
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
            # The outcome is there already: a full disk here takes nothing with it.
            with contextlib.suppress(OSError):
                task.files.prune_daily()

    def _is_clean(self, task: _Task, scope_name: str) -> bool:
        """Return whether this process, as far as it can be told from the job, is as before it."""
        if not task.mark.clean or scope_name or task.session is None:
            return False
        return task.session.own_code_only

    def _attempt(self, task: _Task, spec: JobSpec) -> Outcome:
        failpoints.hit("worker.claimed")
        outcome = self._outcome(task, spec)
        failpoints.hit("worker.executed")
        return outcome

    def _outcome(self, task: _Task, spec: JobSpec) -> Outcome:
        began = self._now()
        if task.session is None:
            return Outcome(_failed(spec, task.began, task.fault))
        try:
            return execute(task.session, spec)
        except (Exception, SystemExit) as error:  # custom code may call sys.exit
            if is_resumable(spec.fun) and passes(error):
                raise
            lasted = max(0.0, self._now() - began)
            return Outcome(_failed(spec, began, traceback.format_exc(), lasted))

    def _packed(self, place: Place, spec: JobSpec, outcome: Outcome) -> Tuple[bytes, Aside]:
        """Return the outcome as it travels, and what belongs to it."""
        sys.stdout.flush()
        aside = aside_of(place, outcome)
        try:
            return wire.pack_body(JobReturned(outcome.ret)), aside
        except CatenaError as error:
            text = f"The value of {spec.fun} can't be sent: {error}"
            return wire.pack_body(JobReturned(_failed(spec, outcome.ret.started, text))), aside

    def _now(self) -> float:
        return self.clock.now().timestamp()


def _mark_of(session: Session, fun: str) -> FunctionMark:
    """Return what a function says of itself; of one that can't be had, what holds for any."""
    try:
        mark: FunctionMark = session.context.functions[fun].mark
    except CatenaError:
        return FunctionMark()
    return mark


def service_of(start: Start, folder: JobFolder) -> SocketService:
    """Return what the job of *folder* asks its daemon by."""
    if start.settings.resume == "local":
        if is_chain_call(folder.read_spec().spec.fun):
            return KeptPillar(start.run_dir, start.cache_dir / "chain_pillar", folder.attempts)
    return SocketService(start.run_dir, attempts=folder.attempts)


def claim_of(start: Start, jid: str) -> ClaimAs:
    """Return what names this process for job *jid*."""

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


def aside_of(place: Place, outcome: Optional[Outcome] = None) -> Aside:
    """Return what the daemon must know of chains on this host, and what it must do now."""
    after = outcome.after if outcome else chain_run.pending_after(place)
    if after is None and chainless(place.conf_dir, place.cache_dir):
        return Aside()
    chain = chain_run.open_chain(place)
    return Aside(
        after=records.encode(after) if after else {},
        open_chain=chain.chain_id if chain and chain.state == "waiting" else 0,
        pending_resume=chain_run.pending_resume(place),
    )
