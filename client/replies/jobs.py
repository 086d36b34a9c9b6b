"""Replies about jobs."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple, Type, Union

from catena.client.replies import ABSENT
from catena.core.frozen import dataclass, field
from catena.core.job import JobReturn


@dataclass(frozen=True)
class JobRun:
    """The reply to job.run."""

    jid: str
    #: The minions that match the target, unless the job is followed.
    minions: Optional[tuple[str, ...]] = field(default=None, metadata=ABSENT)
    #: How the deliveries ended, by minion; only if the job is followed.
    states: Optional[Dict[str, str]] = field(default=None, metadata=ABSENT)


@dataclass(frozen=True)
class JobEnd:
    """The end of a watched job."""

    jid: str
    #: How the deliveries ended, by minion.
    states: Dict[str, str]


@dataclass(frozen=True)
class JobHead:
    """The fields that the list of jobs and the view of one job share."""

    jid: str
    fun: str
    args: tuple[Any, ...]
    kwargs: Dict[str, Any]
    target: str
    tgt_type: str
    user: str
    metadata: Dict[str, Any]
    #: Seconds since the epoch: time of the request, latest start, end.
    issued: float
    not_after: float
    ended: Optional[float]


@dataclass(frozen=True)
class JobLine(JobHead):
    """One job in the list."""

    #: Number of deliveries by state.
    states: Dict[str, int]
    #: Number of returns that are failures.
    failed: int


@dataclass(frozen=True)
class JobStep:
    """One step of a job on one minion (`core.job.JobProgress`)."""

    seq: int
    kind: str
    data: Dict[str, Any]
    when: float


@dataclass(frozen=True)
class JobOutcome:
    """A job on one minion; only its return where the minion began the job itself."""

    #: State of the delivery, the reason, and the time of the change.
    state: Optional[str] = field(default=None, metadata=ABSENT)
    detail: Optional[str] = field(default=None, metadata=ABSENT)
    changed: Optional[float] = field(default=None, metadata=ABSENT)
    steps: Optional[tuple[JobStep, ...]] = field(default=None, metadata=ABSENT)
    ret: Optional[JobReturn] = field(default=None, metadata=ABSENT)
    #: Whether the return came after the delivery had ended otherwise.
    late: Optional[bool] = field(default=None, metadata=ABSENT)


@dataclass(frozen=True)
class JobDetail(JobHead):
    """One job with its outcome on each minion."""

    minions: Dict[str, JobOutcome]


@dataclass(frozen=True)
class JobNewItem:
    """The first item of a watched job."""

    jid: str
    minions: tuple[str, ...]
    missing: tuple[str, ...]
    type: str = "new"


@dataclass(frozen=True)
class JobDeliveryItem:
    """A delivery changed its state."""

    minion: str
    state: str
    detail: Optional[str]
    type: str = "delivery"


@dataclass(frozen=True)
class JobProgressItem:
    """A minion reported a step (`core.job.JobProgress`)."""

    minion: str
    seq: int
    kind: str
    data: Dict[str, Any]
    type: str = "progress"


@dataclass(frozen=True)
class JobOutputItem:
    """A chunk of a running job's output."""

    minion: str
    #: Counted from 1 per minion.
    seq: int
    #: "stdout", "stderr", or "" if the master stores no more of this job's output.
    stream: str
    text: str
    #: Bytes of output that are missing before *text*.
    missed: int
    type: str = "output"


@dataclass(frozen=True)
class JobPresenceItem:
    """A minion with an open delivery connected or disconnected."""

    minion: str
    up: bool
    type: str = "presence"


@dataclass(frozen=True)
class JobReturnItem:
    """A minion's return."""

    minion: str
    ret: JobReturn
    type: str = "return"


JobItem = Union[
    JobNewItem,
    JobDeliveryItem,
    JobProgressItem,
    JobOutputItem,
    JobPresenceItem,
    JobReturnItem,
]
#: Types of the items of a followed job.
ITEMS: Tuple[Type[JobItem], ...] = (
    JobNewItem,
    JobDeliveryItem,
    JobProgressItem,
    JobOutputItem,
    JobPresenceItem,
    JobReturnItem,
)
