"""Starts queued jobs in processes."""

from __future__ import annotations

from typing import Callable

from catena.core.job import JobSpec
from catena.minion.jobs import decide
from catena.minion.jobs.folder import Claim, JobFolderError
from catena.minion.jobs.lifecycle import JobEvent, Stage
from catena.minion.jobs.outcomes import Outcomes
from catena.minion.jobs.record import Job, Parts, Reserved
from catena.minion.jobs.supervisor import Supervisor, lacks_space, work_of
from catena.minion.start.blob import StartData


class Starter:
    """Begins jobs that the queue has chosen.

    Args:
        parts: see Parts.
        outcomes: receives the return of a job that cannot begin.
        supervisor: takes over once there is a process.
        start: returns the agent's start record with the newest grains.
    """

    def __init__(
        self,
        parts: Parts,
        outcomes: Outcomes,
        supervisor: Supervisor,
        start: Callable[[], StartData],
    ) -> None:
        self._parts, self._outcomes = parts, outcomes
        self._supervisor, self._start = supervisor, start

    def keep(self, job: Job, spec: JobSpec, begins: bool) -> None:
        """Make an order durable, together with whether it *begins* and in which process.

        Raises:
            OSError: nothing is stored.
        """
        parts = self._parts
        # A claim is valid within one boot: without the boot's id nobody can check it later.
        process = parts.processes.free(spec.fun) if begins and parts.boot_id else None
        if process is None:
            # After a kill even a job that begins at once may be left to the next agent of this
            # boot.
            parts.store.add(spec, begins, begin_by=job.begin_by or 0.0)
        else:
            claim = Claim(process, since=parts.clock.monotonic())
            job.reserved = Reserved(process, parts.store.add(spec, begins, claim))
        job.begin_kept = begins
        job.order = spec if begins else None

    def begin(self, jid: str) -> None:
        """Begin a job that the queue has chosen."""
        job = self._parts.jobs.of(jid)
        job.position = None
        self._parts.jobs.move(job, JobEvent.start)
        self._begin(job)

    def retry(self) -> bool:
        """Retry postponed jobs for which there is space; return whether one left the queue."""
        left = False
        for job in self._parts.jobs.attended(Stage.postponed):
            if self._parts.store.folder(job.jid).has_room():
                self._parts.jobs.move(job, JobEvent.retry)
                self._begin(job)
                left = left or job.jid not in self._parts.queue.running()
        return left

    def _begin(self, job: Job) -> None:
        if self._assign(job) or not self._has_folder(job):
            return
        parts, folder = self._parts, self._parts.store.folder(job.jid)
        try:
            spec = self._order(job)
        except JobFolderError as error:
            parts.log.error(f"job {job.jid}: {error}")
            parts.queue.drop(job.jid)
            return
        if self._is_too_late(job, spec):
            why = "it was queued too long: it may no longer start"
            self._outcomes.fail(job, spec, why)
        elif lacks_space(spec, folder) or not self._keep_begin(job):
            self._supervisor.postpone(job)
        else:
            self._fork(job, spec)

    def _assign(self, job: Job) -> bool:
        """Send a new job to its reserved warm process; return False if it needs a new process."""
        reserved, job.reserved = job.reserved, None
        if reserved is None:
            return False
        parts, spec, process = self._parts, self._order(job), reserved.process
        now = parts.clock.monotonic()
        ended = self._supervisor.ended
        if parts.processes.give(process, job.jid, reserved.order, lambda: ended(job.jid)):
            job.work = work_of(spec, now)
            job.work.process, job.work.watched = process, True
            job.begin_kept = False
            parts.jobs.move(job, JobEvent.assign)
            return True
        try:
            parts.store.withdraw(job.jid)
        except JobFolderError as error:
            self._outcomes.fail(job, spec, f"it could not begin: {error}")
            return True
        return False

    def _has_folder(self, job: Job) -> bool:
        """Create the folder of a job that is only in the log; return whether the job may begin."""
        store = self._parts.store
        if not store.is_given(job.jid):
            return True
        try:
            store.mend(job.jid)
        except OSError:
            self._supervisor.postpone(job)
            return False
        folder = store.folder(job.jid)
        if not folder.is_claimed():
            return True
        # The job began in an earlier boot; its journal tells where to continue.
        self._supervisor.died(job, store.spec(job.jid), folder)
        return False

    def _order(self, job: Job) -> JobSpec:
        order, job.order = job.order, None
        return order or self._parts.store.spec(job.jid)

    def _is_too_late(self, job: Job, spec: JobSpec) -> bool:
        now, wall = self._parts.clock.monotonic(), self._parts.wall()
        late = decide.is_too_late(job.begin_by, spec.not_after, now, wall)
        return late and not self._parts.store.goes_on(spec)

    def _keep_begin(self, job: Job) -> bool:
        """Record durably that a job begins; return False if the disk is full."""
        store = self._parts.store
        try:
            if not job.begin_kept:
                store.begin(job.jid)
            store.folder(job.jid).take_up()
        except OSError:
            return False
        job.begin_kept = False
        return True

    def _fork(self, job: Job, spec: JobSpec) -> None:
        parts, now = self._parts, self._parts.clock.monotonic()
        job.work = work_of(spec, now)
        parts.jobs.move(job, JobEvent.fork)
        try:
            parts.processes.fork(job.jid, spec.fun, self._start(), now)
        except OSError as error:
            parts.log.error(f"job {job.jid}: cannot create a process: {error}")
            self._supervisor.ended(job.jid)
