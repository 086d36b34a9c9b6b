"""All jobs of a minion, from the order to the return that the master has stored.

One record per job (`record`) moves through one literal life cycle (`lifecycle`). `decide` chooses
what follows, `starter` brings a job into a process, `supervisor` watches it, `outcomes` makes its
return durable; this class is what the agent calls.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, List, Optional

from catena.core.clock import Clock
from catena.core.errors import CatenaError
from catena.core.job import JobSpec
from catena.core.marks import is_resumable
from catena.core.redact import hide_arguments
from catena.minion.jobs import decide
from catena.minion.jobs.calls import QueuedCalls, Turn
from catena.minion.jobs.decide import Leftover, Next
from catena.minion.jobs.lifecycle import MACHINE, OPEN, Cause, Stage
from catena.minion.jobs.outcomes import Outcomes
from catena.minion.jobs.ports import Listener, MakeProcesses
from catena.minion.jobs.queue import Entry, JobQueue, Work, entry_of
from catena.minion.jobs.record import Job, JobTable, Parts
from catena.minion.jobs.seen import REFUSALS, SeenJobs, expiry
from catena.minion.jobs.starter import Starter
from catena.minion.jobs.store import JobStore
from catena.minion.jobs.supervisor import AT_WORK, LOOK_SECONDS, Supervisor
from catena.minion.log import Log
from catena.minion.start.blob import Start

#: What signal 9 is, which no process can catch.
_SIGKILL = 9


class JobRunner:
    """All jobs of a minion.

    Args:
        processes: makes what jobs run in.
        start: gives the agent's start record with the newest grains.
        clock: the time.
        log: the agent's log.
        listener: see Listener.
    """

    def __init__(
        self,
        processes: MakeProcesses,
        start: Callable[[], Start],
        clock: Clock,
        log: Log,
        listener: Listener,
    ) -> None:
        self._clock, self._log, self._listener = clock, log, listener
        first = start()
        self.boot_id = first.running_boot()
        self.processes = processes(self.boot_id, self)
        self.store = JobStore(first.cache_dir, self.boot_id)
        self.queue = JobQueue()
        #: Work that waits on this host, as a chain for its boot or resume; None: none.
        self.held_by: Optional[Work] = None
        self._jobs, self._calls = JobTable(), QueuedCalls()
        self._parts = Parts(
            self._jobs, self.queue, self.store, self.processes, listener, clock, log, self.boot_id
        )
        self.seen = SeenJobs(first.cache_dir / "seen", self._parts.wall())
        self._outcomes = Outcomes(self._parts)
        self._supervisor = Supervisor(self._parts, self._outcomes, self.start_next)
        self._starter = Starter(self._parts, self._outcomes, self._supervisor, start)
        self._next_look = 0.0

    # -- the agent's start ----------------------------------------------------------------------

    def recover(self) -> None:
        """Take up what an earlier agent process left: returns, running jobs, the queue."""
        for jid, until in self.store.ended().items():
            self.seen.note(jid, until)
        found, bad = self.store.scan()
        for jid in bad:
            self._log.error(f"job {jid}: its folder is damaged; moved to jobs/bad-{jid}")
        for stored in found:
            self._take_up(stored.spec)
        self.start_next()

    def _leftover(self, spec: JobSpec) -> Leftover:
        """Return what is left of a job; the first fact that decides is the last one read."""
        jid, folder = spec.jid, self.store.folder(spec.jid)
        if jid in self.seen:
            return Leftover(seen=True)
        if folder.has_return():
            return Leftover(has_return=True)
        if self.store.has_return(jid):
            return Leftover(has_logged_return=True)
        if folder.is_postponed():
            return Leftover(postponed=True)
        if not (folder.is_claimed() or self.store.has_begun(jid)):
            return Leftover()
        claim = self._supervisor.claim(jid)
        return Leftover(
            begun=True,
            claimed=claim is not None,
            alive=claim is not None and self.processes.alive(claim.process),
            resumable=is_resumable(spec.fun),
            is_logged_only=self.store.is_given(jid),
        )

    def _take_up(self, spec: JobSpec) -> None:
        chosen, jid = decide.recovered(self._leftover(spec)), spec.jid
        if chosen is Next.forget:
            self.store.folder(jid).remove()
            return
        job = self._jobs.add(Job(jid))
        job.begin_by = self.store.begin_by.get(jid)
        if chosen is Next.take_return:
            self._outcomes.take(job)
        elif chosen is Next.report_return:
            self._jobs.move(job, Cause.outcome)
            self._jobs.move(job, Cause.keep)
            self._listener.on_done(jid, self.store.aside(jid))
        elif chosen is Next.queue_first:
            self.queue.put_back(entry_of(spec))
        elif chosen is Next.queue:
            self.queue.add(entry_of(spec))
        else:
            self._take_over(job, spec)

    def _take_over(self, job: Job, spec: JobSpec) -> None:
        """Take over a job that a process has begun with, which may be alive."""
        claim = self._supervisor.claim(job.jid)
        if claim is not None and self.processes.alive(claim.process):
            self._log.info(f"job {job.jid} still runs as process {claim.process.pid}")
            self.queue.attach(entry_of(spec))
            self._supervisor.watch(job, spec, claim)
        else:
            self._supervisor.died(job, spec, self.store.folder(job.jid))

    def open_jobs(self) -> List[str]:
        """Return the jids that were received and whose return the master has not stored."""
        found, _ = self.store.scan()
        return [stored.spec.jid for stored in found if stored.spec.jid not in self.seen]

    # -- orders ---------------------------------------------------------------------------------

    def order(self, spec: JobSpec) -> str:
        """Take an order; return "" or why it is refused. One that is still open is taken again.

        Raises:
            OSError: it could not be kept; it must not be confirmed.
        """
        why = self.seen.why(spec.jid)
        if why:
            return REFUSALS[why]
        if self.store.knows(spec.jid):
            return ""
        left = spec.not_after - self._parts.wall()
        if spec.not_after and left < 0:
            return "it came too late: it may not start any more"
        entry, job = entry_of(spec), Job(spec.jid)
        job.begin_by = self._clock.monotonic() + left if spec.not_after else None
        job.not_after = spec.not_after
        self._starter.keep(job, spec, self.queue.starts(entry, self.held_by))
        self._jobs.add(job)
        self.queue.add(entry)
        # The receipt says the position; it is sent again only when it changes.
        job.position = self.position(spec.jid)
        self._log.info(f"job {spec.jid}: {spec.fun} for {spec.user}")
        return ""

    def is_given(self, jid: str) -> bool:
        """Return whether a new job is reserved for a warm process, and begins at once."""
        job = self._jobs.get(jid)
        return job is not None and job.reserved is not None

    def position(self, jid: str) -> int:
        """Return how many jobs come before *jid*; 0 when it runs or is done."""
        return self.queue.position(jid, self.held_by)

    def behind(self, jid: str) -> str:
        """Return what *jid* waits for, in words; "" when it runs or is done."""
        return self.queue.behind(jid, self.held_by)

    def start_next(self) -> None:
        """Start whatever may start now, and report new positions in the queue."""
        chosen = self.queue.start(self.held_by)
        while chosen:
            for key in chosen:
                if key in self._calls:
                    self._calls.start(key)
                else:
                    self._starter.begin(key)
            # A job that could not begin has left its place to the next one.
            chosen = self.queue.start(self.held_by)
        for key in self.queue.waiting():
            self._report_position(key, self.position(key))

    def _report_position(self, key: str, position: int) -> None:
        if key in self._calls:
            self._calls.move(key, position)
            return
        job = self._jobs.of(key)
        if job.position != position:
            job.position = position
            self._listener.on_position(key, position)

    def enter_line(self, key: str, turn: Turn) -> None:
        """Queue a `catena call`; *turn* receives its position, 0 when it may run."""
        self._calls.add(key, turn)
        self.queue.add(Entry(key, serial=True))
        self.start_next()

    def leave_line(self, key: str) -> None:
        """Take a `catena call` out of the queue: it is done, or gone."""
        if self._calls.remove(key):
            self.queue.drop(key)
            self.start_next()

    # -- open jobs ------------------------------------------------------------------------------

    def cancel(self, jid: str, reason: str) -> None:
        """Stop a job and its process tree, or drop it from the queue; it returns as failed.

        A job whose order has not come yet is refused when it comes.
        """
        if not self.store.knows(jid):
            if jid not in self.seen:
                self.seen.add(jid, 0, self._parts.wall(), "cancelled")
            return
        if self.store.has_return(jid):
            return
        text = f"cancelled: {reason}" if reason else "cancelled"
        job = self._jobs.of(jid)
        if job.stage in AT_WORK:
            self._supervisor.kill(job, text)
        elif job.stage in OPEN:
            self._outcomes.fail(job, self.store.spec(jid), text)
            self.start_next()

    def signal(self, jid: str, number: int) -> str:
        """Send a signal to a job's process tree, or drop it from the queue; return a sentence."""
        job = self._jobs.get(jid)
        process = job.work.process if job is not None and job.work is not None else None
        if job is not None and process is not None:
            if number == _SIGKILL:
                self._supervisor.kill(job, "killed")
            else:
                self.processes.signal(process, number)
            return f"Signal {number} sent to job {jid} at pid {process.pid}"
        if self.queue.is_waiting(jid) and jid not in self._calls:
            self.cancel(jid, "dropped from the queue")
            return f"Job {jid} was waiting and is dropped"
        return f"no job {jid} runs here"

    def stored(self, jid: str) -> None:
        """Forget a job whose return the master has.

        Raises:
            OSError: it can't be remembered as done; it is still here.
        """
        job = self._jobs.get(jid)
        if job is not None and not MACHINE.allows(job.stage, Cause.store):
            self._log.warning(f"job {jid}: the master has a return; the job is {job.stage.value}")
            return
        not_after = job.not_after if job is not None else None
        if not_after is None:
            not_after = self.store.spec(jid).not_after if self.store.knows(jid) else 0.0
        until = expiry(not_after, self._parts.wall())
        self.store.end(jid, until)
        if job is not None:
            self._jobs.move(job, Cause.store)
        self.seen.note(jid, until)
        if self.store.is_long:
            with contextlib.suppress(OSError):  # a full disk: the log stays as it is
                self.seen.save()
                self.store.shrink()

    def describe(self) -> List[Dict[str, Any]]:
        """Return running and waiting jobs as saltutil.running prints them."""
        keys = [*self.queue.running(), *self.queue.waiting()]
        return [row for key in keys if key not in self._calls for row in self._described(key)]

    def _described(self, jid: str) -> List[Dict[str, Any]]:
        try:
            spec = self.store.spec(jid)
        except CatenaError:
            return []
        job = self._jobs.get(jid)
        work = job.work if job is not None else None
        row = {
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
            "position": self.position(jid),
            "behind": self.behind(jid),
        }
        return [row]

    def _state(self, jid: str, job: Optional[Job]) -> str:
        if job is not None and job.stage is Stage.postponed:
            return "postponed"
        return "queued" if self.queue.is_waiting(jid) else "running"

    # -- time -----------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Look after jobs: limits, postponed starts, and ends that no descriptor reported."""
        self.processes.tick(now)
        self.store.tick(now)
        if now < self._next_look or not self._jobs.needs_attention:
            return
        self._next_look = now + LOOK_SECONDS
        if self._starter.retry():
            self.start_next()
        if self._outcomes.retry():
            self.start_next()
        self._supervisor.look(now)

    def next_due(self) -> Optional[float]:
        """Return when `tick` has something to do; None: no job needs it."""
        due = self.processes.next_due()
        if not self._jobs.needs_attention:
            return due
        return self._next_look if due is None else min(due, self._next_look)

    def close(self) -> None:
        """Let go of everything; running jobs go on."""
        self.store.leave()
        self._jobs.clear()
        self.processes.close()

    # -- processes (ports.ForkListener) ---------------------------------------------------------

    def forked(self, jid: str, pid: int, start: Optional[int]) -> None:
        """As ForkListener."""
        self._supervisor.forked(jid, pid, start)

    def finished(self, jid: str) -> None:
        """As ForkListener."""
        self._supervisor.ended(jid)

    def handed(self, jid: str, body: bytes) -> bool:
        """As ForkListener."""
        return self._supervisor.handed(jid, body)

    def unforked(self, jids: List[str]) -> None:
        """As ForkListener."""
        if jids:
            self._log.warning(f"the template process died with {len(jids)} jobs to fork")
        for jid in jids:
            self._supervisor.ended(jid)
