"""Jobs on their way to a minion and back."""

from __future__ import annotations

from catena.core.frozen import dataclass, field
from catena.core.job import JobProgress, JobReturn, JobSpec
from catena.core.records import LATER


@dataclass(frozen=True)
class JobOrder:
    """Do this. Sent again until received; done once by jid."""

    spec: JobSpec
    #: The master's time as this was sent, by which *spec* says until when it may start. 0.0:
    #: unknown.
    now: float = 0.0


@dataclass(frozen=True)
class JobReceived:
    """The order is durable on the minion (or was known before)."""

    jid: str
    #: 0: starts now; n: waits behind n others.
    position: int
    #: Its process has been at work for a while; said again with this.
    runs: bool = False
    #: What it waits for, in words; only masters of NAMED_QUEUE know this field.
    behind: str = field(default="", metadata=LATER)


@dataclass(frozen=True)
class JobRejected:
    """The order will not be run: expired, fenced, or malformed."""

    jid: str
    reason: str


@dataclass(frozen=True)
class JobCancel:
    """Stop a job and its process tree, or drop it from the queue."""

    jid: str
    reason: str


@dataclass(frozen=True)
class JobProgressed:
    """One step of a running job. Not acked: the return has it all again."""

    progress: JobProgress


@dataclass(frozen=True)
class JobOutput:
    """Part of what a running job prints; sent again on a new connection until OutputStored.

    The return repeats all output that the job's function captures. A part that does not begin
    where the previous one ended leaves a gap, whose size is the difference.
    """

    jid: str
    #: How many processes of the job ended before this one; output begins anew with each.
    attempt: int
    #: Bytes of the job's output before this part, over both streams, sent or not.
    at: int
    #: Bytes that the part stands for; its text may be longer or shorter once it is decoded.
    size: int
    #: "stdout" or "stderr".
    stream: str
    text: str


@dataclass(frozen=True)
class OutputStored:
    """The output of a job is stored up to a position, or the master does not want it."""

    jid: str
    attempt: int
    #: Bytes of the job's output, as `JobOutput.at` counts them.
    upto: int


@dataclass(frozen=True)
class JobReturned:
    """A job's outcome; repeated until ReturnStored."""

    ret: JobReturn


@dataclass(frozen=True)
class ReturnStored:
    """The return is committed; the minion may forget it."""

    jid: str


@dataclass(frozen=True)
class ReturnPart:
    """One piece of an encoded JobReturned that is too large for one frame (bulk socket)."""

    jid: str
    #: SHA-256 of the whole, hex.
    sha256: str
    index: int
    count: int
    data: bytes
