"""What this agent process knows of each open job: one record per job."""

from __future__ import annotations

import os
from typing import Dict, List, Optional

from catena.core.clock import Clock
from catena.core.frozen import dataclass
from catena.core.job import JobSpec
from catena.minion.jobs.lifecycle import ATTENDED, MACHINE, Cause, Stage
from catena.minion.jobs.ports import Listener, Processes
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.queue import JobQueue
from catena.minion.jobs.store import JobStore
from catena.minion.log import Log

_TICKS = float(os.sysconf("SC_CLK_TCK"))


@dataclass(frozen=True)
class Reserved:
    """A warm process that gets a new job at once."""

    process: ProcessRef
    #: The packed order, as the store keeps it.
    order: bytes


@dataclass
class Work:
    """The process of a job, and the limits that it works under."""

    output_limit: int
    deadline_seconds: float
    #: When the process was asked for, monotonic: it may have run another job before.
    asked: float = 0.0
    process: Optional[ProcessRef] = None
    #: The event loop reports the end of the process; otherwise `tick` looks for it.
    watched: bool = False
    #: Why the process was killed; "" if it was not.
    killed: str = ""
    #: The listener knows that the job runs.
    reported: bool = False

    def age(self, now: float) -> float:
        """Return how long the process has worked on the job, seconds; *now* is monotonic."""
        if self.process is None:
            return 0.0
        return max(0.0, now - max(self.asked, self.process.start / _TICKS))


@dataclass
class Job:
    """One open job."""

    jid: str
    stage: Stage = Stage.queued
    #: The order, as long as it need not be read from disk; most new jobs begin at once.
    order: Optional[JobSpec] = None
    #: Position in the queue that the master was sent last.
    position: Optional[int] = None
    #: Latest start on the monotonic clock; None: none was set in this boot.
    begin_by: Optional[float] = None
    #: Until when the order may be sent again, seconds since the epoch; None: its order says.
    not_after: Optional[float] = None
    #: The store knows that the job begins.
    begin_kept: bool = False
    #: The warm process that was chosen for the job.
    reserved: Optional[Reserved] = None
    #: How many of its processes ended before they claimed the job.
    unclaimed: int = 0
    #: From `forking` to the end of the process.
    work: Optional[Work] = None
    #: Body of a return that is not durable yet; None: it is in the job's folder.
    outcome: Optional[bytes] = None


class JobTable:
    """The open jobs of one agent process, moved by the life cycle's table alone."""

    def __init__(self) -> None:
        self._jobs: Dict[str, Job] = {}
        self._attended: Dict[str, Job] = {}

    def add(self, job: Job) -> Job:
        """Keep and return *job*, which is new."""
        self._jobs[job.jid] = job
        return job

    def get(self, jid: str) -> Optional[Job]:
        """Return the record of *jid*; None: it is not open here."""
        return self._jobs.get(jid)

    def of(self, jid: str) -> Job:
        """Return the record of *jid*, which is made where a job is known to the disk alone."""
        return self._jobs.get(jid) or self.add(Job(jid))

    def move(self, job: Job, cause: Cause) -> None:
        """Move *job* as the table says.

        Raises:
            InvalidStateError: the table has no such row.
        """
        job.stage = MACHINE.next(job.stage, cause)
        if job.stage in ATTENDED:
            self._attended[job.jid] = job
        else:
            self._attended.pop(job.jid, None)
        if MACHINE.is_final(job.stage):
            self._jobs.pop(job.jid, None)

    def attended(self, *stages: Stage) -> List[Job]:
        """Return the jobs of some of the stages that `tick` looks after."""
        return [job for job in self._attended.values() if job.stage in stages]

    @property
    def needs_attention(self) -> bool:
        """Whether there is a job that `tick` looks after."""
        return bool(self._attended)

    def clear(self) -> None:
        """Forget all jobs; the disk knows them."""
        self._jobs.clear()
        self._attended.clear()


@dataclass(frozen=True)
class Parts:
    """What the classes behind `JobRunner` share."""

    jobs: JobTable
    queue: JobQueue
    store: JobStore
    processes: Processes
    listener: Listener
    clock: Clock
    log: Log
    boot_id: str

    def wall(self) -> float:
        """Return the wall clock's time, seconds since the epoch."""
        return self.clock.now().timestamp()
