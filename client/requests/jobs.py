"""Jobs: run, list, show, watch, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass, field
from catena.core.lazy import LazyModule

if TYPE_CHECKING:
    from catena.client.replies import jobs as replies
else:
    replies = LazyModule("catena.client.replies.jobs")


@dataclass(frozen=True)
class RunJob:
    """Run a function on the minions of a target; a stream if *follow*."""

    tgt: str
    fun: str
    tgt_type: str = "glob"
    args: tuple[Any, ...] = ()
    kwargs: Dict[str, Any] = field(default_factory=dict)
    metadata: Dict[str, Any] = field(default_factory=dict)
    follow: bool = False
    #: Batch size: "5" or "20%" of the minions at a time; "": all at once.
    batch: str = ""
    #: Seconds that a minion keeps its place in the batch after its return.
    batch_wait: float = 0.0
    #: Whether the first failure cancels the job on the minions that have not begun.
    batch_failhard: bool = False
    #: Number of minions picked at random from the target; 0: all.
    subset: int = 0
    expiry_seconds: Optional[int] = None
    deadline_seconds: Optional[int] = None
    #: A repeated request with the same key changes nothing and returns the first answer. The key
    #: of the ClientRequest does the same; this one is for callers that make their own.
    idempotency_key: str = ""


@dataclass(frozen=True)
class JobList:
    """List jobs, newest first."""

    limit: int = 100
    fun: str = ""
    minion: str = ""
    active: bool = False


@dataclass(frozen=True)
class JobShow:
    """Show one job with its outcome on each minion."""

    jid: str


@dataclass(frozen=True)
class JobWatch:
    """Follow a job from its start until it has ended on all minions."""

    jid: str


@dataclass(frozen=True)
class JobCancelRequest:
    """Cancel a job on every minion, or on the named ones."""

    jid: str
    minions: tuple[str, ...] = ()


RUN = Ask("job.run", RunJob, lambda: replies.JobRun, streams=lambda: replies.ITEMS)
LIST = Ask("job.list", JobList, lambda: List[replies.JobLine], idempotent=True)
SHOW = Ask("job.show", JobShow, lambda: replies.JobDetail, idempotent=True)
WATCH = Ask(
    "job.watch", JobWatch, lambda: replies.JobEnd, streams=lambda: replies.ITEMS, idempotent=True
)
#: A repetition changes nothing, and no key of it is stored.
CANCEL = Ask("job.cancel", JobCancelRequest, lambda: Dict[str, str])
