"""What the jobs of a minion are told by, and what they act by."""

from __future__ import annotations

from typing import Callable, List, Optional, Protocol

from catena.minion.jobs.folder import Aside
from catena.minion.jobs.processes import ProcessRef
from catena.minion.start.blob import Start


class Listener(Protocol):
    """Who is told of jobs."""

    def on_done(self, jid: str, aside: Aside) -> None:
        """The job's return is durable."""

    def on_position(self, jid: str, position: int) -> None:
        """A waiting job's place in line is another one now; 0: it starts."""

    def on_runs(self, jid: str) -> bool:
        """A job has been at work for LOOK_SECONDS; False: tell again later."""

    def on_postponed(self, jid: str, why: str) -> None:
        """A job can't begin, or go on, for a reason that passes; said each time it is put off."""


class ForkListener(Protocol):
    """Who is told what came of a job's process."""

    def forked(self, jid: str, pid: int, start: Optional[int]) -> None:
        """A job's process has begun at *start* (ticks since boot); None: it has ended already."""

    def unforked(self, jids: List[str]) -> None:
        """These jobs were asked for, and nobody knows whether they have processes."""

    def finished(self, jid: str) -> None:
        """A job's process has left the outcome in its folder, and lives on for another one."""

    def handed(self, jid: str, body: bytes) -> bool:
        """The same, and this is the outcome, the body of a JobReturned; False: it is not kept."""


class Processes(Protocol):
    """What jobs run in (`job_processes.JobProcesses` in the daemon)."""

    def fork(self, jid: str, fun: str, start: Start, now: float) -> None:
        """Have a job of function *fun* forked; OSError: no process could be made."""

    def free(self, fun: str) -> Optional[ProcessRef]:
        """Return a process that is there for another job of function *fun*; None: fork one."""

    def give(self, process: ProcessRef, jid: str, order: bytes, ended: Callable[[], None]) -> bool:
        """Give a free process a job, and call *ended* when it has ended; False: it is gone."""

    def alive(self, process: ProcessRef) -> bool:
        """Return whether exactly this process still runs."""

    def watch(self, process: ProcessRef, ended: Callable[[], None]) -> bool:
        """Call *ended* when a process has ended; False: nobody will tell, ask `alive`."""

    def forget(self, process: ProcessRef) -> None:
        """Call nobody when a process has ended."""

    def printed(self, process: ProcessRef) -> int:
        """Return how many bytes a process has written to its standard output."""

    def signal(self, process: ProcessRef, number: int) -> None:
        """Send a signal to a process and all below it."""

    def kill(self, process: ProcessRef, scope: str) -> None:
        """Kill a process with all that came from it."""

    def tick(self, now: float) -> None:
        """Do what is due."""

    def next_due(self) -> Optional[float]:
        """Return when `tick` has something to do; None: nothing."""

    def rest(self, now: float, idle_seconds: float) -> None:
        """Give back what is kept for the next job when none came for so long."""

    def renew(self) -> None:
        """Give the next jobs the newest start record."""

    def close(self) -> None:
        """Let go of everything; what runs goes on."""


#: Makes them: id of the running boot, and who is told.
MakeProcesses = Callable[[str, ForkListener], Processes]
