"""Supervision of job processes: watching, limits, kills, and what follows from their end."""

from __future__ import annotations

from typing import Callable, Optional

from catena.core.job import JobSpec
from catena.core.marks import is_resumable
from catena.minion.jobs import decide
from catena.minion.jobs.decide import Ended, Next
from catena.minion.jobs.folder import Claim, JobFolder, JobFolderError
from catena.minion.jobs.lifecycle import JobEvent, Stage
from catena.minion.jobs.outcomes import Outcomes
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.queue import entry_of
from catena.minion.jobs.record import Job, JobProcess, Parts

#: Seconds between two checks of what no descriptor reports.
LOOK_SECONDS = 1.0
#: Maximum number of lines of a job's own output repeated in the agent's log.
OUTPUT_LINES = 20
#: Why a job is postponed besides missing space and an absent master.
NOT_BEGUN = "its process ended before the job began"
DIED_AGAIN = "its process died again"
#: Stages in which a job has, or is about to have, a process.
AT_WORK = (Stage.forking, Stage.running, Stage.stopping)


class Supervisor:
    """Supervises the processes of jobs.

    Args:
        parts: see Parts.
        outcomes: receives the outcomes of jobs.
        freed: called when a place in the queue may have become free.
    """

    def __init__(self, parts: Parts, outcomes: Outcomes, freed: Callable[[], None]) -> None:
        self._parts, self._outcomes, self._freed = parts, outcomes, freed

    def claim(self, jid: str) -> Optional[Claim]:
        """Return the claim on a job; None if there is none or it cannot be read."""
        try:
            return self._parts.store.claimed_by(jid)
        except JobFolderError as error:
            # A power failure tore the claim, so its process belongs to an earlier boot.
            self._parts.log.warning(f"job {jid}: {error}")
            return None

    def watch(self, job: Job, spec: JobSpec, claim: Claim) -> None:
        """Watch the process that has claimed *job* in place of another one."""
        killed = job.work.killed if job.work else ""
        job.work = work_of(spec, claim.since)
        job.work.killed = killed
        self._attach(job, job.work, claim.process)

    def forked(self, jid: str, pid: int, start: Optional[int]) -> None:
        """Process the fork of a job's process; see `ports.ForkListener`."""
        job = self._at_work(jid)
        if job is None or job.work is None:
            return
        if start is None:
            self.ended(jid)
            return
        self._attach(job, job.work, ProcessRef(pid, start, self._parts.boot_id))

    def _attach(self, job: Job, work: JobProcess, process: ProcessRef) -> None:
        processes = self._parts.processes
        self._parts.jobs.move(job, JobEvent.attach)
        work.process = process
        work.watched = processes.watch(process, lambda: self.ended(job.jid))
        if work.killed:
            processes.kill(process, "")

    def handed(self, jid: str, body: bytes) -> bool:
        """Store an outcome that a process handed over; return False if it could not be stored."""
        job = self._at_work(jid)
        if job is None:
            return True
        self._forget(job)
        self._outcomes.take(job, body)
        self._freed()
        return job.stage is not Stage.owed

    def ended(self, jid: str) -> None:
        """Settle a job whose process has ended, or begin it again."""
        job = self._at_work(jid)
        if job is None:
            return
        self._forget(job)
        folder = self._parts.store.folder(jid)
        if self._parts.store.has_intact_return(folder):
            self._repeat_output(folder)
            self._outcomes.take(job)
        else:
            self._without_return(job, folder)
        self._freed()

    def _at_work(self, jid: str) -> Optional[Job]:
        job = self._parts.jobs.get(jid)
        return job if job is not None and job.stage in AT_WORK else None

    def _forget(self, job: Job) -> None:
        if job.work is not None and job.work.process is not None:
            self._parts.processes.forget(job.work.process)

    def _repeat_output(self, folder: JobFolder) -> None:
        """Log what a job printed besides its return, such as a warning of a custom module."""
        if folder.output_size():
            for line in folder.output_tail().splitlines()[-OUTPUT_LINES:]:
                self._parts.log.warning(f"job {folder.jid}: {line}")

    def _without_return(self, job: Job, folder: JobFolder) -> None:
        store, work = self._parts.store, job.work
        spec = store.spec(job.jid)
        claim = self.claim(job.jid)
        alive = claim is not None and self._parts.processes.alive(claim.process)
        killed = work.killed if work else ""
        logged, claimed = store.is_given(job.jid), folder.is_claimed()
        plain = not (alive or killed or logged or claimed)
        hindered = plain and (folder.is_postponed() or lacks_space(spec, folder))
        found = Ended(alive, bool(killed), logged, claimed, hindered, job.unclaimed)
        chosen = decide.after_end(found)
        if chosen is Next.attach and claim is not None:
            self.watch(job, spec, claim)
        elif chosen is Next.killed:
            now = self._parts.clock.monotonic()
            self._outcomes.fail(job, spec, killed, work.age(now) if work else 0.0)
        elif chosen is Next.postpone:
            self.postpone(job)
        elif chosen is Next.queue_first:
            job.unclaimed += 1
            self.requeue(job, spec)
        elif chosen is Next.pause:
            job.unclaimed += 1
            self._pause(job, NOT_BEGUN)
        elif chosen is Next.cannot_begin:
            text = f"it could not begin: each of {job.unclaimed + 1} processes ended before that"
            self._outcomes.fail(job, spec, text)
        else:
            self.died(job, spec, folder)

    def died(self, job: Job, spec: JobSpec, folder: JobFolder) -> None:
        """Settle a job whose process ended without a return: a crash, a kill, a power failure.

        A resumable job begins again and continues from its journal.
        """
        claim = self.claim(job.jid)
        if claim:
            self._parts.processes.kill(claim.process, claim.scope)
        claimed = folder.is_claimed()
        if decide.goes_on(is_resumable(spec.fun), claimed, folder.attempts()):
            self._parts.log.warning(f"job {job.jid}: its process died; continues from its journal")
            folder.release()
            if job.stage in AT_WORK and decide.continues_after_pause(folder.attempts()):
                self._pause(job, DIED_AGAIN)
            else:
                self.requeue(job, spec)
            return
        tail = folder.output_tail()
        text = "interrupted: the job's process ended without a result; its effect is unknown"
        self._outcomes.fail(job, spec, f"{text}\n{tail}" if tail else text)

    def requeue(self, job: Job, spec: JobSpec) -> None:
        """Put a job that had begun at the head of the queue, so that no other one passes it."""
        self._parts.jobs.move(job, JobEvent.requeue)
        job.work = None
        self._parts.queue.drop(job.jid)
        self._parts.queue.put_back(entry_of(spec))

    def postpone(self, job: Job) -> None:
        """Postpone a job until there is space, or the master; see `_pause`."""
        self._pause(job, self._parts.store.folder(job.jid).hindrance())

    def _pause(self, job: Job, why: str) -> None:
        """Postpone a job; it keeps its place in the queue, so that no other one passes it."""
        self._parts.jobs.move(job, JobEvent.postpone)
        job.work = None
        self._parts.log.error(f"job {job.jid} is postponed: {why}")
        self._parts.listener.on_postponed(job.jid, why)

    def kill(self, job: Job, why: str) -> None:
        """Kill all processes of a job; its return gives *why*."""
        work = job.work
        assert work is not None
        work.killed = work.killed or why
        self._parts.jobs.move(job, JobEvent.kill)
        if work.process is not None:
            claim = self.claim(job.jid)
            self._parts.processes.kill(work.process, claim.scope if claim else "")

    def look(self, now: float) -> None:
        """Check all processes once; *now* is monotonic."""
        for job in self._parts.jobs.attended(*AT_WORK):
            work = job.work
            if work is None or work.process is None:
                continue
            if not work.watched and not self._parts.processes.alive(work.process):
                self.ended(job.jid)
            elif not work.killed:
                self._bound(job, work, now)
                if not work.reported and work.age(now) >= LOOK_SECONDS:
                    work.reported = self._parts.listener.on_runs(job.jid)

    def _bound(self, job: Job, work: JobProcess, now: float) -> None:
        printed = self._printed(job.jid, work)
        why = decide.excess(work.age(now), work.deadline_seconds, printed, work.output_limit)
        if why:
            self.kill(job, why)

    def _printed(self, jid: str, work: JobProcess) -> int:
        """Return the number of bytes that a job has printed besides its return."""
        if work.process is not None and self._parts.store.is_given(jid):
            return self._parts.processes.printed(work.process)
        return self._parts.store.folder(jid).output_size()


def work_of(spec: JobSpec, asked: float) -> JobProcess:
    """Return the limits of a job; *asked* is monotonic."""
    return JobProcess(spec.output_limit, float(spec.deadline_seconds), asked)


def lacks_space(spec: JobSpec, folder: JobFolder) -> bool:
    """Return whether a resumable job must wait for disk space before it continues."""
    return is_resumable(spec.fun) and not folder.has_room()
