"""The open jobs of one agent process, from the order to the stored return.

Each job has a record (`record`), which moves through one literal life cycle (`lifecycle`).
`decide` chooses the next step, `starter` starts a process, `supervisor` watches it, and `outcomes`
makes the return durable. `JobRunner` imports this module for the first open job.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from catena.core.errors import CatenaError
from catena.core.fsm import Actor
from catena.core.job import JobSpec
from catena.core.marks import is_resumable
from catena.core.redact import hide_arguments
from catena.minion.jobs import decide
from catena.minion.jobs.decide import Leftover, Next
from catena.minion.jobs.lifecycle import MACHINE, OPEN, JobEvent, Stage
from catena.minion.jobs.outcomes import Outcomes
from catena.minion.jobs.queue import entry_of
from catena.minion.jobs.record import Job, Parts
from catena.minion.jobs.seen import SeenJobs
from catena.minion.jobs.starter import Starter
from catena.minion.jobs.supervisor import AT_WORK, LOOK_SECONDS, Supervisor
from catena.minion.start.blob import StartData

#: Signal 9, which no process can catch.
_SIGKILL = 9


class OpenJobs:
    """Moves the open jobs of a minion through their life cycle.

    Args:
        parts: see Parts.
        seen: the jobs that have ended here.
        start: returns the agent's start record with the newest grains.
        freed: called when a place in the queue may have become free.
    """

    def __init__(
        self,
        parts: Parts,
        seen: SeenJobs,
        start: Callable[[], StartData],
        freed: Callable[[], None],
    ) -> None:
        self._parts, self._jobs, self._seen = parts, parts.jobs, seen
        self._freed = freed
        self._outcomes = Outcomes(parts)
        self.supervisor = Supervisor(parts, self._outcomes, freed)
        self._starter = Starter(parts, self._outcomes, self.supervisor, start)
        self._next_look = 0.0

    # -- the agent's start ----------------------------------------------------------------------

    def take_up(self, spec: JobSpec) -> None:
        """Continue a job that an earlier agent process left."""
        chosen, jid = decide.recovered(self._leftover(spec)), spec.jid
        store, queue = self._parts.store, self._parts.queue
        if chosen is Next.forget:
            store.folder(jid).remove()
            return
        job = self._jobs.add(Job(jid))
        job.begin_by = store.begin_by.get(jid)
        if chosen is Next.take_return:
            self._outcomes.take(job)
        elif chosen is Next.report_return:
            self._jobs.move(job, JobEvent.outcome)
            self._jobs.move(job, JobEvent.keep)
            self._parts.listener.on_done(jid, store.aside(jid))
        elif chosen is Next.queue_first:
            queue.put_back(entry_of(spec))
        elif chosen is Next.queue:
            queue.add(entry_of(spec))
        else:
            self._take_over(job, spec)

    def _leftover(self, spec: JobSpec) -> Leftover:
        """Return the state of a job; a deciding fact ends the reading."""
        jid, store = spec.jid, self._parts.store
        folder = store.folder(jid)
        if jid in self._seen:
            return Leftover(seen=True)
        if store.has_intact_return(folder):
            return Leftover(has_return=True)
        if store.has_return(jid):
            return Leftover(has_logged_return=True)
        if folder.is_postponed():
            return Leftover(postponed=True)
        if not (folder.is_claimed() or store.has_begun(jid)):
            return Leftover()
        claim = self.supervisor.claim(jid)
        return Leftover(
            begun=True,
            claimed=claim is not None,
            alive=claim is not None and self._parts.processes.alive(claim.process),
            resumable=is_resumable(spec.fun),
            is_logged_only=store.is_given(jid),
        )

    def _take_over(self, job: Job, spec: JobSpec) -> None:
        """Take over a job that a process, perhaps still alive, has begun."""
        parts, claim = self._parts, self.supervisor.claim(job.jid)
        if claim is not None and parts.processes.alive(claim.process):
            parts.log.info(f"job {job.jid} still runs as process {claim.process.pid}")
            parts.queue.attach(entry_of(spec))
            self.supervisor.watch(job, spec, claim)
        else:
            self.supervisor.died(job, spec, parts.store.folder(job.jid))

    # -- orders ---------------------------------------------------------------------------------

    def add(self, spec: JobSpec, left: float, begins: bool) -> None:
        """Make a new order durable and open its job.

        Args:
            spec: the order.
            left: seconds until its latest start, if it has one.
            begins: whether the queue will start it at once.

        Raises:
            OSError: nothing is stored.
        """
        job = Job(spec.jid)
        job.begin_by = self._parts.clock.monotonic() + left if spec.not_after else None
        job.not_after = spec.not_after
        self._starter.keep(job, spec, begins)
        self._jobs.add(job)

    def begin(self, jid: str) -> None:
        """Begin a job that the queue has chosen."""
        self._starter.begin(jid)

    def is_reserved(self, jid: str) -> bool:
        """Return whether a warm process is reserved for a new job."""
        job = self._jobs.get(jid)
        return job is not None and job.reserved is not None

    def sent_position(self, jid: str, position: int) -> bool:
        """Record the position sent to the master; return whether it has changed."""
        job = self._jobs.of(jid)
        changed, job.position = job.position != position, position
        return changed

    # -- open jobs ------------------------------------------------------------------------------

    def cancel(self, jid: str, text: str) -> None:
        """Stop a job and its process tree, or remove it from the queue; it returns *text*."""
        job = self._jobs.of(jid)
        if job.stage in AT_WORK:
            self.supervisor.kill(job, text)
        elif job.stage in OPEN:
            self._outcomes.fail(job, self._parts.store.spec(jid), text)
            self._freed()

    def signal(self, jid: str, number: int) -> str:
        """Send a signal to a job's process tree; return a sentence, or "" if it has no process."""
        job = self._jobs.get(jid)
        process = job.work.process if job is not None and job.work is not None else None
        if job is None or process is None:
            return ""
        if number == _SIGKILL:
            self.supervisor.kill(job, "killed")
        else:
            self._parts.processes.signal(process, number)
        return f"Signal {number} sent to job {jid} at pid {process.pid}"

    def may_end(self, jid: str) -> bool:
        """Return whether the life cycle permits a job to be stored; log it if not."""
        job = self._jobs.get(jid)
        if job is None or MACHINE.allows(job.stage, JobEvent.store):
            return True
        text = f"job {jid}: the master has a return; the job is {job.stage.value}"
        self._parts.log.warning(text)
        return False

    def not_after(self, jid: str) -> float:
        """Return until when an order may be resent, seconds since the epoch; 0.0: no limit."""
        job, store = self._jobs.get(jid), self._parts.store
        if job is not None and job.not_after is not None:
            return job.not_after
        return store.spec(jid).not_after if store.knows(jid) else 0.0

    def end(self, jid: str) -> None:
        """Remove a job whose return the master has stored."""
        job = self._jobs.get(jid)
        if job is not None:
            self._jobs.move(job, JobEvent.store, Actor.system)
            # While a job's return could not be stored here, starts of other chains waited for it.
            if self._parts.queue.drop(jid):
                self._freed()

    def describe(self, jid: str) -> Optional[Dict[str, Any]]:
        """Return a job in the form of saltutil.running; None if it is damaged."""
        try:
            spec = self._parts.store.spec(jid)
        except CatenaError:
            return None
        job = self._jobs.get(jid)
        work = job.work if job is not None else None
        return {
            "jid": jid,
            "fun": spec.fun,
            "arg": hide_arguments(spec.args),
            "kwargs": hide_arguments([spec.kwargs])[0],
            "tgt": spec.tgt,
            "tgt_type": spec.tgt_type,
            "user": spec.user,
            "ret": "",
            "pid": work.process.pid if work and work.process else 0,
            "state": self._state(jid, job),
        }

    def _state(self, jid: str, job: Optional[Job]) -> str:
        if job is not None and job.stage is Stage.postponed:
            return "postponed"
        return "queued" if self._parts.queue.is_waiting(jid) else "running"

    # -- time -----------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Check jobs: limits, postponed starts, and ends that no descriptor reported."""
        if now < self._next_look or not self._jobs.needs_attention:
            return
        self._next_look = now + LOOK_SECONDS
        if self._starter.retry():
            self._freed()
        if self._outcomes.retry():
            self._freed()
        self.supervisor.look(now)

    def next_due(self) -> Optional[float]:
        """Return when `tick` next has something to do; None: no job needs it."""
        return self._next_look if self._jobs.needs_attention else None

    def clear(self) -> None:
        """Remove all records; the jobs remain on disk."""
        self._jobs.clear()
