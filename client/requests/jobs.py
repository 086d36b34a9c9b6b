"""Jobs: run, list, show, watch, cancel."""

from __future__ import annotations

from typing import Any, Dict, Optional

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass, field


@dataclass(frozen=True)
class RunJob:
    """Run a function on the minions of a target. -> stream if *follow*, else {jid, minions}.

    Items: {"type": "new", jid, minions, missing}; {"type": "delivery", minion, state, detail};
    {"type": "progress", minion, seq, kind, data}; {"type": "return", minion, ret (JobReturn)}.
    The reply that ends it: {jid, states: {minion: state}}.
    """

    tgt: str
    fun: str
    tgt_type: str = "glob"
    args: tuple[Any, ...] = ()
    kwargs: Dict[str, Any] = field(default_factory=dict)
    metadata: Dict[str, Any] = field(default_factory=dict)
    follow: bool = False
    #: "": all at once; "5" or "20%": that many at a time.
    batch: str = ""
    #: Seconds that a minion keeps its place in the batch after its return.
    batch_wait: float = 0.0
    #: Whether the first failure cancels the job on the minions that have not begun.
    batch_failhard: bool = False
    #: Number of minions picked at random from the target; 0: all.
    subset: int = 0
    expiry_seconds: Optional[int] = None
    deadline_seconds: Optional[int] = None
    #: Repeating a request with the same key changes nothing and gives the first answer. The key
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
    """One job: spec, and per minion its delivery, progress and return."""

    jid: str


@dataclass(frozen=True)
class JobWatch:
    """Follow a job from its start. -> stream, as RunJob."""

    jid: str


@dataclass(frozen=True)
class JobCancelRequest:
    """Cancel a job on every minion, or on those named."""

    jid: str
    minions: tuple[str, ...] = ()


RUN = Ask("job.run", RunJob, dict, streams=(dict,))
LIST = Ask("job.list", JobList, dict, idempotent=True)
SHOW = Ask("job.show", JobShow, dict, idempotent=True)
WATCH = Ask("job.watch", JobWatch, dict, streams=(dict,), idempotent=True)
#: A repetition changes nothing, and no key of it is stored.
CANCEL = Ask("job.cancel", JobCancelRequest, dict)
