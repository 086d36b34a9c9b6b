"""Decisions at the agent's start and at the end of a job's process, without side effects."""

from __future__ import annotations

from enum import Enum
from typing import Optional

from catena.core.frozen import dataclass

#: Maximum number of starts of a resumable job whose processes died: its journal knows which
#: actions have ended. Any other job starts once.
ATTEMPTS = 3
#: Maximum number of processes for a job that none of them has claimed, so that nothing of it has
#: run. The first is replaced at once, the others after a pause of a second each: a host that shuts
#: down kills each process that the agent starts until it ends the agent, too.
PROCESSES = 30
#: Minimum limit in bytes of output that a job may print besides its functions' captured output.
OUTPUT_FLOOR = 1024 * 1024


class Next(Enum):
    """What to do with a job."""

    forget = "forget"  #: the master has stored its return
    take_return = "take_return"  #: its return is in its folder, but not durable
    report_return = "report_return"  #: its return is in the log
    queue = "queue"  #: it has not begun
    queue_first = "queue_first"  #: it begins again, before all others
    attach = "attach"  #: the process that claimed it is still running
    postpone = "postpone"  #: it needs disk space, or the master
    pause = "pause"  #: it has not begun, and begins again after a pause
    cannot_begin = "cannot_begin"  #: it has not begun, and does not
    killed = "killed"  #: it was killed; its return gives the reason
    died = "died"  #: its process ended without a return


@dataclass(frozen=True)
class Leftover:
    """State of a job that an earlier agent process left."""

    #: Whether the master has stored its return.
    seen: bool = False
    has_return: bool = False
    has_logged_return: bool = False
    postponed: bool = False
    #: Whether a process may have begun the job.
    begun: bool = False
    #: Whether a process's claim is readable, and whether that process is alive.
    claimed: bool = False
    alive: bool = False
    resumable: bool = False
    #: Whether the job is only in the log and has no folder.
    is_logged_only: bool = False


def recovered(left: Leftover) -> Next:
    """Return what to do at the agent's start with a job left by an earlier process."""
    if left.seen:
        return Next.forget
    if left.has_return:
        return Next.take_return
    if left.has_logged_return:
        return Next.report_return
    if left.postponed:
        return Next.queue_first
    if not left.begun:
        return Next.queue
    if not left.claimed and left.resumable and left.is_logged_only:
        # Its journal tells more, but needs the job's folder, for which the disk is full now.
        return Next.queue_first
    return Next.attach if left.alive else Next.died


@dataclass(frozen=True)
class Ended:
    """Facts about a job whose process ended without a return."""

    #: Whether another process has claimed the job and is alive.
    claimed_elsewhere: bool = False
    killed: bool = False
    is_logged_only: bool = False
    claimed: bool = False
    #: Whether the process gave the job back, or the disk has no space for it.
    hindered: bool = False
    #: Number of earlier processes that ended before they claimed the job.
    unclaimed: int = 0


def after_end(ended: Ended) -> Next:
    """Return what to do with a job whose process ended without a return."""
    if ended.claimed_elsewhere:
        # A restart of the agent led to two processes; the other one has the job.
        return Next.attach
    if ended.killed:
        return Next.killed
    if ended.is_logged_only or ended.claimed:
        return Next.died
    if ended.hindered:
        return Next.postpone
    if ended.unclaimed + 1 >= PROCESSES:
        return Next.cannot_begin
    return Next.pause if ended.unclaimed else Next.queue_first


def continues_after_pause(attempts: int) -> bool:
    """Return whether a job that continues from its journal does so after a pause.

    Args:
        attempts: number of its processes that have died.
    """
    return attempts > 1


def goes_on(resumable: bool, claimed: bool, attempts: int) -> bool:
    """Return whether a job whose process died continues from its journal."""
    return claimed and resumable and attempts + 1 < ATTEMPTS


def is_too_late(begin_by: Optional[float], not_after: float, now: float, wall: float) -> bool:
    """Return whether it is too late to start a job.

    Args:
        begin_by: its latest start on the monotonic clock of this boot, if there is one.
        not_after: the latest start in its order, seconds since the epoch; 0.0: none.
        now: monotonic.
        wall: seconds since the epoch, the only clock that is valid across boots.
    """
    if begin_by is not None:
        return now > begin_by
    return bool(not_after) and not_after < wall


def excess(age: float, deadline: float, printed: int, limit: int) -> str:
    """Return why a running job must be killed; "" if it is within its limits."""
    if age > deadline:
        return f"killed: not done after {deadline:.0f} seconds"
    if printed > max(limit, OUTPUT_FLOOR):
        return f"killed: it printed more than {limit} bytes"
    return ""
