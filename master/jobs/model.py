"""What the rest of the master says to and hears from the job service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import sqlalchemy as sa

from catena.core.job import (
    DEFAULT_DEADLINE_SECONDS,
    ChainManifest,
    FunctionCall,
    JobProgress,
    JobReturn,
    JobSpec,
)
from catena.master.jobs.delivery import Delivery

#: A tag and its data, recorded in the transaction that is running.
EventItem = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One function call on many minions, as the caller wants it."""

    user: str
    call: FunctionCall
    #: The minions themselves; None: resolve the call's target.
    minions: tuple[str, ...] | None = None
    #: Per minion, for jobs of mgractionchains.
    chains: Mapping[str, ChainManifest] = field(default_factory=dict)
    #: For so long it may be handed over; 0: for `job_expiry_hours`.
    expiry_seconds: float = 0.0
    deadline_seconds: int = DEFAULT_DEADLINE_SECONDS
    #: "": all at once; "5" or "20%": that many at a time.
    batch: str = ""
    #: Seconds that a minion keeps its place in the batch after its return.
    batch_wait: float = 0.0
    #: Whether the first failure cancels the job on the minions that have not begun.
    batch_failhard: bool = False
    #: Number of minions picked at random from the target; 0: all.
    subset: int = 0
    #: The same user and key again give the first answer and change nothing.
    idempotency_key: str = ""
    #: Refuse a key that came with another function, target or arguments before.
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Submitted:
    """A stored job."""

    jid: str
    minions: tuple[str, ...]
    #: Those of them that are not connected: their deliveries wait.
    missing: tuple[str, ...] = ()
    #: True when an idempotency key found the job of an earlier request.
    repeated: bool = False


#: Runs in the transaction that stores a job, after its rows.
Within = Callable[[sa.Connection, Submitted], None]


class ReturnObserver(Protocol):
    """Wants to know of deliveries inside the transaction that stores the fact.

    Every method runs in the writer thread: it may use *conn*, must not block, and returns events
    that are stored in the same transaction. It is called once per stored fact, never for a
    duplicate. An error that it raises undoes the whole fact: the minion will send it again.
    """

    def on_return(self, conn: sa.Connection, minion: str, ret: JobReturn) -> Sequence[EventItem]:
        """A return was stored."""

    def on_progress(
        self, conn: sa.Connection, minion: str, progress: JobProgress
    ) -> Sequence[EventItem]:
        """A step was stored."""

    def on_delivery(
        self, conn: sa.Connection, minion: str, jid: str, state: Delivery, detail: str
    ) -> Sequence[EventItem]:
        """A delivery moved, other than to `done` by a return (that is on_return)."""


@dataclass(frozen=True, slots=True)
class Order:
    """A job that is to be handed to one minion now."""

    minion: str
    spec: JobSpec
    #: Its delivery was stored as `sent` already.
    stored_as_sent: bool = False
