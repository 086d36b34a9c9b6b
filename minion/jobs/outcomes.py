"""The outcome of a job, from its arrival until the return is durable."""

from __future__ import annotations

from typing import Optional

from catena.core.job import JobReturn, JobSpec
from catena.core.redact import hide_arguments
from catena.minion.jobs.folder import JobFolderError, ReturnExtras
from catena.minion.jobs.lifecycle import JobEvent, Stage
from catena.minion.jobs.queue import entry_of
from catena.minion.jobs.record import Job, Parts
from catena.transport import wire
from catena.transport.messages import JobReturned


class Outcomes:
    """Makes returns durable and reports them to the listener.

    Args:
        parts: see Parts.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def fail(self, job: Job, spec: JobSpec, text: str, lasted: float = 0.0) -> None:
        """Give *job* a return with the reason why it has no other one.

        Args:
            job: its record.
            spec: its order.
            text: the reason; lines after the first are for people only.
            lasted: how long it ran, seconds.
        """
        parts = self._parts
        began = parts.wall() - lasted
        args, boot = tuple(hide_arguments(spec.args)), parts.boot_id
        ret = JobReturn(spec.jid, spec.fun, args, False, 1, text, began, lasted, boot_id=boot)
        parts.log.warning(f"job {spec.jid}: {text.splitlines()[0]}")
        self._settle(job, JobEvent.fail, wire.pack_body(JobReturned(ret)))

    def take(self, job: Job, body: Optional[bytes] = None) -> None:
        """Store the return that a job's process has made.

        Args:
            job: its record.
            body: of a JobReturned; None: the return is in the job's folder.
        """
        self._settle(job, JobEvent.outcome, body)

    def _settle(self, job: Job, cause: JobEvent, body: Optional[bytes]) -> None:
        """Store a job's outcome, and free its place in the queue once it is durable."""
        parts = self._parts
        parts.jobs.move(job, cause)
        job.outcome, job.work, job.order = body, None, None
        job.position = job.begin_by = job.reserved = None
        job.begin_kept, job.unclaimed = False, 0
        why = self._keep(job)
        if why:
            parts.queue.drop(job.jid)
            if cause is JobEvent.outcome:
                self._hold_place(job.jid)
            parts.log.error(f"job {job.jid}: its return cannot be stored yet: {why}")

    def _hold_place(self, jid: str) -> None:
        """Let no other serial job begin: what this one reported decides which one may.

        The start of another chain would fail if this job's chain waits for a reboot.
        """
        try:
            entry = entry_of(self._parts.store.spec(jid))
        except JobFolderError:
            # Without its order the job is reported as damaged, and reports nothing about a chain.
            return
        if entry.serial:
            self._parts.queue.attach(entry)

    def retry(self) -> bool:
        """Retry the returns that could not be stored; return whether one is durable now."""
        owed = self._parts.jobs.attended(Stage.owed)
        return any([not self._keep(job) for job in owed])

    def _keep(self, job: Job) -> str:
        """Make a return durable and report it; return the reason if that must be retried."""
        store, jid, body = self._parts.store, job.jid, job.outcome
        aside = ReturnExtras()
        try:
            if body is not None and store.is_given(jid):
                store.keep_given(jid, body)
            else:
                folder = store.folder(jid)
                if body is not None:
                    folder.finish(body)
                store.keep_return(folder)
                aside = folder.read_aside()
        except (OSError, JobFolderError) as error:
            return str(error)
        job.outcome = None
        self._parts.jobs.move(job, JobEvent.keep)
        self._parts.queue.drop(jid)
        self._parts.listener.on_done(jid, aside)
        return ""
