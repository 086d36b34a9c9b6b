"""The record of one open job in this agent process."""

from __future__ import annotations

import os
from typing import Dict, List, Optional

from catena.core.clock import Clock
from catena.core.frozen import dataclass
from catena.core.fsm import Actor
from catena.core.job import JobSpec
from catena.minion.jobs.lifecycle import ATTENDED, MACHINE, JobEvent, Stage
from catena.minion.jobs.ports import Listener, Processes
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.queue import JobQueue
from catena.minion.jobs.store import JobStore
from catena.minion.log import Log

_TICKS = float(os.sysconf("SC_CLK_TCK"))


@dataclass(frozen=True)
class Reserved:
    """A warm process reserved for a new job."""

    process: ProcessRef
    #: The packed order, as the store keeps it.
    order: bytes


@dataclass
class JobProcess:
    """The process of a job, with its limits."""

    output_limit: int
    deadline_seconds: float
    #: Monotonic time at which the job requested the process, which may have run other jobs before.
    asked: float = 0.0
    process: Optional[ProcessRef] = None
    #: Whether the event loop reports the end of the process; otherwise `tick` polls it.
    watched: bool = False
    #: Why the process was killed; "" if it was not.
    killed: str = ""
    #: Whether the listener knows that the job runs.
    reported: bool = False

    def age(self, now: float) -> float:
        """Return how long the process has worked on the job, in seconds; *now* is monotonic."""
        if self.process is None:
            return 0.0
        return max(0.0, now - max(self.asked, self.process.start / _TICKS))


@dataclass
class Job:
    """One open job."""

    jid: str
    stage: Stage = Stage.queued
    #: The order, kept in memory only until the job has begun; then it is read from disk.
    order: Optional[JobSpec] = None
    #: Last position in the queue that was sent to the master.
    position: Optional[int] = None
    #: Latest start on the monotonic clock; None: none was set in this boot.
    begin_by: Optional[float] = None
    #: Time until which the order may be resent, seconds since the epoch; None: see the order.
    not_after: Optional[float] = None
    #: Whether the store knows that the job begins.
    begin_kept: bool = False
    #: The warm process that is reserved for the job.
    reserved: Optional[Reserved] = None
    #: Number of its processes that ended before they claimed the job.
    unclaimed: int = 0
    #: Set from `forking` to the end of the process.
    work: Optional[JobProcess] = None
    #: Body of a return that is not durable yet; None: it is in the job's folder.
    outcome: Optional[bytes] = None


class JobTable:
    """The open jobs of one agent process, which change only as the life cycle's table allows."""

    def __init__(self) -> None:
        self._jobs: Dict[str, Job] = {}
        self._attended: Dict[str, Job] = {}

    def add(self, job: Job) -> Job:
        """Add and return the new *job*."""
        self._jobs[job.jid] = job
        return job

    def get(self, jid: str) -> Optional[Job]:
        """Return the record of *jid*; None if it is not open here."""
        return self._jobs.get(jid)

    def of(self, jid: str) -> Job:
        """Return the record of *jid*; create it for a job that is only on disk."""
        return self._jobs.get(jid) or self.add(Job(jid))

    def move(self, job: Job, cause: JobEvent, actor: Actor = Actor.agent) -> None:
        """Move *job* to its next stage.

        Args:
            job: the job.
            cause: what happens to it.
            actor: who causes it.

        Raises:
            InvalidStateError: the life cycle's table has no such row.
            ActorError: the row is reserved for other actors.
        """
        job.stage = MACHINE.next(job.stage, cause, actor)
        if job.stage in ATTENDED:
            self._attended[job.jid] = job
        else:
            self._attended.pop(job.jid, None)
        if MACHINE.is_final(job.stage):
            self._jobs.pop(job.jid, None)

    def attended(self, *stages: Stage) -> List[Job]:
        """Return the jobs in *stages* among those that `tick` looks after."""
        return [job for job in self._attended.values() if job.stage in stages]

    @property
    def needs_attention(self) -> bool:
        """Return whether there is a job that `tick` looks after."""
        return bool(self._attended)

    def clear(self) -> None:
        """Remove all records; the jobs remain on disk."""
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
        """Return the wall clock in seconds since the epoch."""
        return self.clock.now().timestamp()
