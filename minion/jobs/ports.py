"""Interfaces of the jobs of a minion: whom they notify, and what runs them."""

from __future__ import annotations

from typing import Callable, List, Optional, Protocol

from catena.minion.jobs.folder import ReturnExtras
from catena.minion.jobs.processes import ProcessRef
from catena.minion.start.blob import StartData


class Listener(Protocol):
    """Notified of the progress of jobs."""

    def on_done(self, jid: str, aside: ReturnExtras) -> None:
        """Process a return that is now durable."""

    def on_position(self, jid: str, position: int) -> None:
        """Process a queued job's new position in the queue; 0: it starts."""

    def on_runs(self, jid: str) -> bool:
        """Process that a job has run for LOOK_SECONDS; return False to be called again later."""

    def on_postponed(self, jid: str, why: str) -> None:
        """Process that a job is postponed for a temporary reason; called each time."""


class ForkListener(Protocol):
    """Receives what becomes of a job process: started, unknown, finished, outcome handed over."""

    def forked(self, jid: str, pid: int, start: Optional[int]) -> None:
        """Process the start of a job process at *start* (ticks since boot); None: it has ended."""

    def unforked(self, jids: List[str]) -> None:
        """Process that it is unknown whether these requested jobs have processes."""

    def finished(self, jid: str) -> None:
        """Process that a job's outcome is in its folder, and its process waits for another job."""

    def handed(self, jid: str, body: bytes) -> bool:
        """Store an outcome (the body of a JobReturned) like `finished`; return False on error."""


class Processes(Protocol):
    """Runs job processes (`job_processes.JobProcesses` in the daemon)."""

    def fork(self, jid: str, fun: str, start: StartData, now: float) -> None:
        """Request a process for a job of function *fun*; OSError: none could be created."""

    def free(self, fun: str) -> Optional[ProcessRef]:
        """Return a warm process for a job of function *fun*; None if one must be forked."""

    def give(self, process: ProcessRef, jid: str, order: bytes, ended: Callable[[], None]) -> bool:
        """Send a job to a warm process and call *ended* at its end; return False if it is gone."""

    def alive(self, process: ProcessRef) -> bool:
        """Return whether this very process still runs."""

    def watch(self, process: ProcessRef, ended: Callable[[], None]) -> bool:
        """Call *ended* when a process ends; return False if only polling `alive` can tell."""

    def forget(self, process: ProcessRef) -> None:
        """Call nobody when a process ends."""

    def printed(self, process: ProcessRef) -> int:
        """Return the number of bytes that a process has written to its standard output."""

    def signal(self, process: ProcessRef, number: int) -> None:
        """Send a signal to a process and its descendants."""

    def kill(self, process: ProcessRef, scope: str) -> None:
        """Kill a process with its descendants."""

    def tick(self, now: float) -> None:
        """Do what is due."""

    def next_due(self) -> Optional[float]:
        """Return when `tick` next has something to do; None: nothing."""

    def rest(self, now: float, idle_seconds: float) -> None:
        """Release what is kept for the next job if there was none for *idle_seconds*."""

    def renew(self) -> None:
        """Use the newest start record for the next jobs."""

    def close(self) -> None:
        """Release everything; running jobs continue."""


#: Makes a `Processes` from the id of the running boot and a listener.
MakeProcesses = Callable[[str, ForkListener], Processes]
