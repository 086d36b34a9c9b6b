"""Records of jobs, and the interface of the job service to the rest of the master."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import sqlalchemy as sa

from catena.core.job import DEFAULT_DEADLINE_SECONDS, FunctionCall, JobSpec, Payload


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A request to run one function on many minions."""

    user: str
    call: FunctionCall
    #: The minions; None: resolve the call's target.
    minions: tuple[str, ...] | None = None
    #: Each minion's part, for jobs of a larger piece of work; otherwise {}.
    payloads: Mapping[str, Payload] = field(default_factory=dict)
    #: Seconds within which it may be delivered; 0: as in `job_expiry_hours`.
    expiry_seconds: float = 0.0
    deadline_seconds: int = DEFAULT_DEADLINE_SECONDS
    #: Batch size: "5" or "20%" of the minions at a time; "": all at once.
    batch: str = ""
    #: Seconds that a minion keeps its place in the batch after its return.
    batch_wait: float = 0.0
    #: Whether the first failure cancels the job on the minions that have not begun.
    batch_failhard: bool = False
    #: Number of minions picked at random from the target; 0: all.
    subset: int = 0
    #: A repeated request of the same user with the same key returns the first answer.
    idempotency_key: str = ""
    #: Whether to refuse a key that was used with another function, target or arguments.
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Submitted:
    """A stored job."""

    jid: str
    minions: tuple[str, ...]
    #: Minions that are not connected; their deliveries wait.
    missing: tuple[str, ...] = ()
    #: Whether the job of an earlier request with the same key was found.
    repeated: bool = False


#: Called in the transaction that stores a job, after its rows were stored.
Within = Callable[[sa.Connection, Submitted], None]


class Holds(Protocol):
    """Knows which work must wait, so that none of its jobs is sent."""

    def paused(
        self, conn: sa.Connection, spec: JobSpec, minions: Collection[str]
    ) -> Mapping[str, str]:
        """Return those of *minions* on which a job's work must wait, each with the reason."""


class NoHolds:
    """Nothing is paused."""

    def paused(
        self, conn: sa.Connection, spec: JobSpec, minions: Collection[str]
    ) -> Mapping[str, str]:
        """Return {}."""
        return {}


@dataclass(frozen=True, slots=True)
class DeliveryOrder:
    """A job to be delivered to one minion now."""

    minion: str
    spec: JobSpec
    #: Whether its delivery is already stored as `sent`.
    stored_as_sent: bool = False


# Records of rows are tuples: a frozen dataclass takes three times as long to make.
class JobRecord(NamedTuple):
    """A job as it is stored."""

    jid: str
    fun: str
    args: list[Any]
    kwargs: dict[str, Any]
    user: str
    tgt: str
    tgt_type: str
    metadata: dict[str, Any]
    #: Seconds since the epoch.
    issued: float
    #: Latest delivery by `order_clock`.
    not_after: float
    deadline_seconds: int
    #: Maximum number of concurrent deliveries; 0: unlimited.
    batch: int
    #: End of the last delivery, seconds since the epoch; None while any is open.
    ended: float | None


class DeliveryRecord(NamedTuple):
    """One delivery, for what happens to it next."""

    state: str
    #: Reason, queue position, last step: for people.
    detail: str
    #: Why it is to be cancelled; "": it is not.
    cancel: str
    #: Of its job.
    batch: int
    #: When its return was stored, seconds since the epoch; None: there is no return.
    stored: float | None


class DeliveryStatus(NamedTuple):
    """One delivery of a job, for people."""

    minion: str
    state: str
    detail: str
    #: Seconds since the epoch.
    changed: float


class OpenDelivery(NamedTuple):
    """A delivery that has not ended, with its job."""

    job: JobRecord
    state: str
    #: Why it is to be cancelled; "": it is not.
    cancel: str
    payload: Payload | None
