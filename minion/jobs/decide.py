"""What becomes of a job when the agent starts and when a process ends. Pure decisions."""

from __future__ import annotations

from enum import Enum
from typing import Optional

from catena.core.frozen import dataclass

#: How often a job begins whose process died: one that never claimed it, or a resumable one (its
#: journal knows which actions ended). Any other job begins once.
ATTEMPTS = 3
#: Bytes that a job may print past its functions' own capture before it is killed, at least.
OUTPUT_FLOOR = 1024 * 1024


class Next(Enum):
    """What is to be done with a job."""

    forget = "forget"  #: the master has its return
    take_return = "take_return"  #: its return is in its folder and not durable
    report_return = "report_return"  #: its return is in the log
    queue = "queue"  #: it has not begun
    queue_first = "queue_first"  #: it begins again, before all others
    attach = "attach"  #: the process that claimed it works on
    postpone = "postpone"  #: it needs disk space, or the master
    killed = "killed"  #: it was killed: it returns the reason
    died = "died"  #: its process ended without a return


@dataclass(frozen=True)
class Leftover:
    """What an earlier agent process left of a job."""

    #: Whether the master has stored its return.
    seen: bool = False
    has_return: bool = False
    has_logged_return: bool = False
    postponed: bool = False
    #: Whether a process may have begun with it.
    begun: bool = False
    #: Whether the claim of a process can be read, and whether that process is alive.
    claimed: bool = False
    alive: bool = False
    resumable: bool = False
    #: Whether the log alone knows the job: it has no folder.
    is_logged_only: bool = False


def recovered(left: Leftover) -> Next:
    """Return what to do at the agent's start with what an earlier one left."""
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
        # Its journal knows more; it is read once the disk takes the job's folder.
        return Next.queue_first
    return Next.attach if left.alive else Next.died


@dataclass(frozen=True)
class Ended:
    """What is known of a job whose process ended without a return."""

    #: Whether another process has claimed the job and is alive.
    claimed_elsewhere: bool = False
    killed: bool = False
    is_logged_only: bool = False
    claimed: bool = False
    #: Whether the process gave the job back, or the disk has no space for it.
    hindered: bool = False
    #: How many of its processes ended before they claimed it, without this one.
    unclaimed: int = 0


def after_end(ended: Ended) -> Next:
    """Return what to do with a job whose process ended without a return."""
    if ended.claimed_elsewhere:
        # Two processes were forked around a restart of the agent; the other one works on.
        return Next.attach
    if ended.killed:
        return Next.killed
    if ended.is_logged_only or ended.claimed:
        return Next.died
    if ended.hindered:
        return Next.postpone
    return Next.queue_first if ended.unclaimed + 1 < ATTEMPTS else Next.died


def goes_on(resumable: bool, claimed: bool, attempts: int) -> bool:
    """Return whether a job whose process died begins again, at what its journal says."""
    return claimed and resumable and attempts + 1 < ATTEMPTS


def is_too_late(begin_by: Optional[float], not_after: float, now: float, wall: float) -> bool:
    """Return whether a job may not start any more.

    Args:
        begin_by: its latest start on the monotonic clock of this boot, if there is one.
        not_after: the latest start that its order names, seconds since the epoch; 0.0: none.
        now: monotonic.
        wall: seconds since the epoch; of an earlier boot there is no other clock.
    """
    if begin_by is not None:
        return now > begin_by
    return bool(not_after) and not_after < wall


def excess(age: float, deadline: float, printed: int, limit: int) -> str:
    """Return why a running job is to be killed; "": it keeps to its limits."""
    if age > deadline:
        return f"killed: not done after {deadline:.0f} seconds"
    if printed > max(limit, OUTPUT_FLOOR):
        return f"killed: it printed more than {limit} bytes"
    return ""
