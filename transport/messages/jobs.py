"""Jobs, their output and their returns."""

from __future__ import annotations

from catena.core.frozen import dataclass, field
from catena.core.job import JobProgress, JobReturn, JobSpec
from catena.core.records import LATER


@dataclass(frozen=True)
class JobOrder:
    """Orders a job. Resent until JobReceived; the jid ensures that the minion runs it once."""

    spec: JobSpec
    #: The master's clock when this was sent, to which the latest start in *spec* refers; 0.0:
    #: unknown.
    now: float = 0.0


@dataclass(frozen=True)
class JobReceived:
    """The order is durable on the minion, now or since an earlier order with this jid."""

    jid: str
    #: 0: starts now; n: n other jobs are ahead of it in the queue.
    position: int
    #: The job's process has been running for a while. Sent in a second JobReceived.
    runs: bool = False
    #: Description of what the job waits for; only masters from NAMED_QUEUE on know this field.
    behind: str = field(default="", metadata=LATER)


@dataclass(frozen=True)
class JobRejected:
    """The order will not be run: it has expired, is fenced off, or is malformed."""

    jid: str
    reason: str


@dataclass(frozen=True)
class JobCancel:
    """Stops a job and its process tree, or removes it from the queue."""

    jid: str
    reason: str


@dataclass(frozen=True)
class JobProgressed:
    """Progress of a running job. Not acknowledged, because the return repeats all of it."""

    progress: JobProgress


@dataclass(frozen=True)
class JobOutput:
    """A chunk of the output of a running job; resent on a new connection until OutputStored.

    The return repeats all output that the job's function captures. If a chunk does not begin where
    the previous one ended, the difference is the size of a gap.
    """

    jid: str
    #: Number of the job's processes that ended before this one; the output restarts with each.
    attempt: int
    #: Bytes of the job's output before this chunk, over both streams, whether sent or not.
    at: int
    #: Bytes of output in this chunk; the decoded text may be longer or shorter.
    size: int
    #: "stdout" or "stderr".
    stream: str
    text: str


@dataclass(frozen=True)
class OutputStored:
    """A job's output is stored up to a position, or the master does not want it."""

    jid: str
    attempt: int
    #: Position in bytes of the job's output, counted as in `JobOutput.at`.
    upto: int


@dataclass(frozen=True)
class JobReturned:
    """A job's result; resent until ReturnStored."""

    ret: JobReturn


@dataclass(frozen=True)
class ReturnStored:
    """The return is stored durably; the minion may delete it."""

    jid: str


@dataclass(frozen=True)
class ReturnPart:
    """A piece of an encoded JobReturned that is too large for one frame (bulk socket)."""

    jid: str
    #: SHA-256 of the complete message, hex.
    sha256: str
    index: int
    count: int
    data: bytes
