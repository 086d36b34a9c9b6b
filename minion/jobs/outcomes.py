"""The outcome of a job, from its arrival until the return is durable."""

from __future__ import annotations

import contextlib
from typing import Optional

from catena.core.errors import CatenaError
from catena.core.files import no_room
from catena.core.job import JobReturn, JobSpec
from catena.core.redact import hide_arguments
from catena.minion.jobs.folder import JobFolderError, ReturnExtras, ReturnLostError
from catena.minion.jobs.lifecycle import JobEvent, Stage
from catena.minion.jobs.queue import entry_of
from catena.minion.jobs.record import Job, Parts
from catena.minion.jobs.store import JobStore
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
        self._parts.log.warning(f"job {spec.jid}: {text.splitlines()[0]}")
        self._settle(job, JobEvent.fail, self._failure(spec, text, lasted))

    def _failure(self, spec: JobSpec, text: str, lasted: float = 0.0) -> bytes:
        began = self._parts.wall() - lasted
        return failed_return(spec, text, began, lasted, self._parts.boot_id)

    def take(self, job: Job, body: Optional[bytes] = None) -> None:
        """Store the return that a job's process has made.

        Args:
            job: its record.
            body: of a JobReturned; None: the return is in the job's folder.
        """
        self._settle(job, JobEvent.outcome, body)

    def _settle(self, job: Job, cause: JobEvent, body: Optional[bytes]) -> None:
        """Store a job's outcome and free its place in the queue."""
        parts = self._parts
        parts.jobs.move(job, cause)
        job.outcome, job.work, job.order = body, None, None
        job.position = job.begin_by = job.reserved = None
        job.begin_kept, job.unclaimed = False, 0
        parts.queue.drop(job.jid)
        error = self._keep(job)
        if error is not None:
            # Only a lack of space passes: other chains would wait for ever for a damaged return.
            if cause is JobEvent.outcome and no_room(error):
                self._hold_others(job.jid)
            parts.log.error(f"job {job.jid}: its return cannot be stored yet: {error}")

    def _hold_others(self, jid: str) -> None:
        """Let no other chain begin: what this job reported decides whether its chain goes on.

        The start of another chain would fail if this one waits for a reboot.
        """
        with contextlib.suppress(JobFolderError):  # without its order it reports of no chain
            self._parts.queue.hold_others(entry_of(self._parts.store.spec(jid)))

    def retry(self) -> bool:
        """Retry the returns that could not be stored; return whether one is durable now."""
        owed = self._parts.jobs.attended(Stage.owed)
        return any([self._keep(job) is None for job in owed])

    def _keep(self, job: Job) -> Optional[Exception]:
        """Make a return durable and report it; return the error if that must be retried."""
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
            if body is None and isinstance(error, (ReturnLostError, FileNotFoundError)):
                self._replace(job, error)
            return error
        job.outcome = None
        self._parts.jobs.move(job, JobEvent.keep)
        self._parts.queue.drop(jid)
        self._parts.listener.on_done(jid, aside)
        return None

    def _replace(self, job: Job, error: Exception) -> None:
        """Let the next attempt store a failure in place of an outcome that cannot be read."""
        store, jid = self._parts.store, job.jid
        store.has_intact_return(store.folder(jid))
        job.outcome = self._failure(order_or_stub(store, jid), lost_text(error))


def failed_return(
    spec: JobSpec, text: str, began: float, lasted: float = 0.0, boot_id: str = ""
) -> bytes:
    """Return the body of a JobReturned that gives the reason why a job has no other outcome.

    Args:
        spec: the order.
        text: the reason.
        began: when the job began, seconds since the epoch.
        lasted: how long it ran, seconds.
        boot_id: id of the running boot; "" if unknown.
    """
    args = tuple(hide_arguments(spec.args))
    ret = JobReturn(spec.jid, spec.fun, args, False, 1, text, began, lasted, boot_id=boot_id)
    return wire.pack_body(JobReturned(ret))


def lost_text(error: Exception) -> str:
    """Return the value of a job whose outcome is damaged, with the reason."""
    return f"the job has ended, but its return was lost on this minion: {error}"


def order_or_stub(store: JobStore, jid: str) -> JobSpec:
    """Return the order of *jid*, or one of an unknown function if damage has taken it."""
    try:
        return store.spec(jid)
    except CatenaError:
        return JobSpec(jid, "unknown")
