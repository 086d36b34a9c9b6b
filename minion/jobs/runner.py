"""All jobs of a minion, from the order until the master has stored the return.

The agent calls this class. While no job is open, the store, the queue and the seen jobs suffice;
`open_jobs` is imported for the first open job, since most agents are idle most of the time.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from catena.core import payloads
from catena.core.clock import Clock
from catena.core.job import JobSpec
from catena.minion.jobs.calls import QueuedCalls, Turn
from catena.minion.jobs.ports import Listener, MakeProcesses
from catena.minion.jobs.queue import JobQueue, QueueEntry, Work, entry_of
from catena.minion.jobs.seen import REFUSALS, SeenJobs, expiry
from catena.minion.jobs.store import JobStore
from catena.minion.log import Log
from catena.minion.start.blob import StartData

if TYPE_CHECKING:
    from catena.minion.jobs.open_jobs import OpenJobs


class JobRunner:
    """All jobs of a minion.

    Args:
        processes: makes the `Processes` in which jobs run.
        start: returns the agent's start record with the newest grains.
        clock: the time.
        log: the agent's log.
        listener: see Listener.
    """

    def __init__(
        self,
        processes: MakeProcesses,
        start: Callable[[], StartData],
        clock: Clock,
        log: Log,
        listener: Listener,
    ) -> None:
        self._start, self._clock, self._log, self._listener = start, clock, log, listener
        first = start()
        self.boot_id = first.running_boot()
        self.processes = processes(self.boot_id, self)
        self.store = JobStore(first.cache_dir, self.boot_id)
        self.queue = JobQueue()
        #: Work that waits on this host, such as a chain for its boot or resume; None: none.
        self.held_by: Optional[Work] = None
        self.seen = SeenJobs(first.cache_dir / "seen", self._wall())
        self._calls = QueuedCalls()
        #: None until this agent process has its first job.
        self._opened: Optional[OpenJobs] = None

    def _wall(self) -> float:
        """Return the wall clock's time, seconds since the epoch."""
        return self._clock.now().timestamp()

    @property
    def _open(self) -> OpenJobs:
        """Return the handler of open jobs, made at first use."""
        if self._opened is None:
            from catena.minion.jobs.open_jobs import OpenJobs
            from catena.minion.jobs.record import JobTable, Parts

            parts = Parts(
                JobTable(), self.queue, self.store, self.processes, self._listener, self._clock,
                self._log, self.boot_id,
            )  # fmt: skip
            self._opened = OpenJobs(parts, self.seen, self._start, self.start_next)
        return self._opened

    # -- the agent's start ----------------------------------------------------------------------

    def recover(self) -> None:
        """Load what an earlier agent process left: returns, running jobs, the queue."""
        for jid, until in self.store.ended().items():
            self.seen.note(jid, until)
        found, bad = self.store.scan()
        for jid in bad:
            self._log.error(f"job {jid}: its folder is damaged; moved to jobs/bad-{jid}")
        unlogged = [jid for jid in self.store.unlogged if jid not in self.seen]
        if unlogged:
            self.store.report_unlogged(unlogged)
        for stored in found:
            self._open.take_up(stored.spec)
        self.start_next()

    def open_jobs(self) -> List[str]:
        """Return the jids that were received and whose return the master has not stored."""
        found, _ = self.store.scan()
        return [stored.spec.jid for stored in found if stored.spec.jid not in self.seen]

    # -- orders ---------------------------------------------------------------------------------

    def order(self, spec: JobSpec) -> str:
        """Accept an order; return "" or why it is refused. An open job's order is accepted again.

        Raises:
            OSError: it could not be stored and must not be confirmed.
        """
        why = self.seen.why(spec.jid)
        if why:
            return REFUSALS[why]
        if self.store.knows(spec.jid):
            return ""
        left = spec.not_after - self._wall()
        if spec.not_after and left < 0:
            return "it arrived too late: it may no longer start"
        odd = payloads.why_not(spec.payload) if spec.payload else ""
        if odd:
            return f"malformed: {odd}"
        entry = entry_of(spec)
        self._open.add(spec, left, self.queue.starts(entry, self.held_by))
        self.queue.add(entry)
        # The receipt contains the position; it is sent again only when it changes.
        self._open.sent_position(spec.jid, self.position(spec.jid))
        self._log.info(f"job {spec.jid}: {spec.fun} for {spec.user}")
        return ""

    def is_given(self, jid: str) -> bool:
        """Return whether a new job is reserved for a warm process, and so begins at once."""
        return self._open.is_reserved(jid)

    def position(self, jid: str) -> int:
        """Return how many jobs are ahead of *jid*; 0 if it is running or done."""
        return self.queue.position(jid, self.held_by)

    def behind(self, jid: str) -> str:
        """Return a description of what *jid* waits for; "" if it is running or done."""
        return self.queue.behind(jid, self.held_by)

    def start_next(self) -> None:
        """Start all jobs that may start now, and report new positions in the queue."""
        chosen = self.queue.start(self.held_by)
        while chosen:
            for key in chosen:
                if key in self._calls:
                    self._calls.start(key)
                else:
                    self._open.begin(key)
            # A job that could not begin has left its place to the next one.
            chosen = self.queue.start(self.held_by)
        for key in self.queue.waiting():
            self._report_position(key, self.position(key))

    def _report_position(self, key: str, position: int) -> None:
        if key in self._calls:
            self._calls.move(key, position)
        elif self._open.sent_position(key, position):
            self._listener.on_position(key, position)

    def enter_line(self, key: str, turn: Turn) -> None:
        """Queue a `catena call`; *turn* receives its position, 0 when it may run."""
        self._calls.add(key, turn)
        self.queue.add(QueueEntry(key, serial=True))
        self.start_next()

    def leave_line(self, key: str) -> None:
        """Remove a `catena call` from the queue: it is done, or has disconnected."""
        if self._calls.remove(key):
            self.queue.drop(key)
            self.start_next()

    # -- open jobs ------------------------------------------------------------------------------

    def cancel(self, jid: str, reason: str) -> None:
        """Stop a job and its process tree, or remove it from the queue; it returns as failed.

        If its order has not arrived yet, the order will be refused.
        """
        if not self.store.knows(jid):
            if jid not in self.seen:
                self.seen.add(jid, 0, self._wall(), "cancelled")
            return
        if self.store.has_return(jid):
            return
        self._open.cancel(jid, f"cancelled: {reason}" if reason else "cancelled")

    def signal(self, jid: str, number: int) -> str:
        """Signal a job's process tree, or remove the job from the queue; return a sentence."""
        sent = self._open.signal(jid, number)
        if sent:
            return sent
        if self.queue.is_waiting(jid) and jid not in self._calls:
            self.cancel(jid, "removed from the queue")
            return f"Job {jid} was queued and is removed"
        return f"no job {jid} runs here"

    def stored(self, jid: str) -> None:
        """Remove a job whose return the master has stored.

        Raises:
            OSError: its end could not be recorded; the job is still here.
        """
        if not self._open.may_end(jid):
            return
        until = expiry(self._open.not_after(jid), self._wall())
        self.store.end(jid, until)
        self._open.end(jid)
        self.seen.note(jid, until)
        if self.store.is_long:
            with contextlib.suppress(OSError):  # a full disk: the log is unchanged
                self.seen.save()
                self.store.shrink()

    def describe(self) -> List[Dict[str, Any]]:
        """Return running and queued jobs in the form of saltutil.running."""
        keys = [*self.queue.running(), *self.queue.waiting()]
        jids = [key for key in keys if key not in self._calls]
        rows = ((jid, self._open.describe(jid)) for jid in jids)
        return [
            {**row, "position": self.position(jid), "behind": self.behind(jid)}
            for jid, row in rows
            if row is not None
        ]

    # -- time -----------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Check jobs: limits, postponed starts, and ends that no descriptor reported."""
        self.processes.tick(now)
        self.store.tick(now)
        if self._opened is not None:
            self._opened.tick(now)

    def next_due(self) -> Optional[float]:
        """Return when `tick` next has something to do; None: no job needs it."""
        due = self.processes.next_due()
        look = self._opened.next_due() if self._opened is not None else None
        return min((moment for moment in (due, look) if moment is not None), default=None)

    def close(self) -> None:
        """Release everything; running jobs continue."""
        self.store.leave()
        if self._opened is not None:
            self._opened.clear()
        self.processes.close()

    # -- processes (ports.ForkListener) ---------------------------------------------------------

    def forked(self, jid: str, pid: int, start: Optional[int]) -> None:
        """Implement ForkListener."""
        self._open.supervisor.forked(jid, pid, start)

    def finished(self, jid: str) -> None:
        """Implement ForkListener."""
        self._open.supervisor.ended(jid)

    def handed(self, jid: str, body: bytes) -> bool:
        """Implement ForkListener."""
        return self._open.supervisor.handed(jid, body)

    def unforked(self, jids: List[str]) -> None:
        """Implement ForkListener."""
        if jids:
            self._log.warning(f"the template process died with {len(jids)} jobs to fork")
        for jid in jids:
            self._open.supervisor.ended(jid)
