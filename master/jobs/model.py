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
    #: Ids of the minions; None: resolve the call's target.
    minions: tuple[str, ...] | None = None
    #: Payload for each minion, if the job is part of a larger piece of work; otherwise {}.
    payloads: Mapping[str, Payload] = field(default_factory=dict)
    #: Seconds within which the job may be delivered; 0: the setting `job_expiry_hours`.
    expiry_seconds: float = 0.0
    #: Time limit of the function on each minion.
    deadline_seconds: int = DEFAULT_DEADLINE_SECONDS
    #: Maximum number of concurrent minions: "5" or "20%" of them; "": all at once.
    batch: str = ""
    #: Seconds for which a minion keeps its place in the batch after its return.
    batch_wait: float = 0.0
    #: Whether the first failure cancels the job on the minions that have not begun.
    batch_failhard: bool = False
    #: Number of minions picked at random from the target; 0: all.
    subset: int = 0
    #: Repeated requests of the same user with the same key return the first answer.
    idempotency_key: str = ""
    #: Whether to refuse a key that was used with another function, target or arguments.
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Submitted:
    """A stored job."""

    jid: str
    minions: tuple[str, ...]
    #: Minions that are not connected, whose deliveries are queued.
    missing: tuple[str, ...] = ()
    #: Whether an earlier request with the same key has made the job.
    repeated: bool = False


#: Runs in the transaction that stores a job, after the job's rows are stored.
Within = Callable[[sa.Connection, Submitted], None]


class Holds(Protocol):
    """Decides which jobs must not be sent now, because the work that they belong to must wait."""

    def paused(
        self, conn: sa.Connection, spec: JobSpec, minions: Collection[str]
    ) -> Mapping[str, str]:
        """Return minion -> reason for those of *minions* that must not get a job now."""


class NoHolds:
    """No job is paused."""

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
    #: Whether the delivery is already stored as `sent`.
    stored_as_sent: bool = False


# Records of rows are tuples: creating a frozen dataclass takes three times as long.
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
    #: Latest delivery, by the clock of `steady_clock`.
    not_after: float
    #: Time limit of the function on each minion.
    deadline_seconds: int
    #: Maximum number of concurrent deliveries; 0: unlimited.
    batch: int
    #: End of the last delivery, seconds since the epoch; None while a delivery is open.
    ended: float | None


class DeliveryRecord(NamedTuple):
    """One delivery, with the data that decides its next transition."""

    state: str
    #: Reason, queue position or last step, for people.
    detail: str
    #: Reason of a requested cancellation; "": none is requested.
    cancel: str
    #: Maximum number of concurrent deliveries of the job; 0: unlimited.
    batch: int
    #: Time at which the return was stored, seconds since the epoch; None: there is no return.
    stored: float | None


class DeliveryStatus(NamedTuple):
    """One delivery of a job, for people."""

    minion: str
    state: str
    detail: str
    #: Time of the last change, seconds since the epoch.
    changed: float


class OpenDelivery(NamedTuple):
    """A delivery that has not ended, with its job."""

    job: JobRecord
    state: str
    #: Reason of a requested cancellation; "": none is requested.
    cancel: str
    payload: Payload | None
