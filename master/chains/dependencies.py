"""What the rooms of chains work with; made once, in the composition root."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa

from catena.core.config.master import MasterSettings
from catena.core.events import Event, Stretch
from catena.core.fsm import Actor
from catena.core.job import BOUNDARY_SECONDS
from catena.master.chains.decide import DueRules
from catena.master.chains.files import ChainFiles
from catena.master.chains.ledger import ChainLedger
from catena.master.events.bus import NewEvent
from catena.master.jobs.model import EventItem, JobRequest, Submitted, Within
from catena.master.minions.facts import Facts
from catena.master.process.clocks import HostClocks
from catena.master.requests.once import UNKEYED, Once

T = TypeVar("T")


class Transactions(Protocol):
    """The part of `store.Store` that chains use."""

    async def write(self, fn: Callable[[sa.Connection], T]) -> T:
        """Run *fn* in a transaction; return its value once it is durable."""

    async def read(self, fn: Callable[[sa.Connection], T]) -> T:
        """Run *fn* on a snapshot; it must not write."""


class JobService(Protocol):
    """The part of `master.jobs.service.Jobs` that chains use."""

    async def submit(self, request: JobRequest, within: Within | None = None) -> Submitted:
        """Store a job and hand it to the minions that are connected."""

    async def cancel(
        self, jid: str, minions: Collection[str] = (), user: str = "", reason: str = ""
    ) -> dict[str, str]:
        """Cancel a job on all its minions, or on some."""


class Resolver(Protocol):
    """Turns a target into accepted minion ids."""

    async def resolve(self, tgt: str, tgt_type: str) -> tuple[str, ...]:
        """Return the accepted minions that match, sorted."""


@dataclass(frozen=True)
class KnownHost:
    """What is known of a host that SSH reaches."""

    #: "": it was never looked at.
    machine_id: str = ""
    boot_id: str = ""
    #: Why it can't be used as it is; "": it can, as far as is known.
    unfit: str = ""
    #: What it waits for, for people.
    detail: str = ""


class SshHosts(Protocol):
    """Who visits hosts that SSH alone reaches (`master.push.worker.SshWorker`)."""

    def takes(self, name: str) -> bool:
        """Return whether *name* is such a host."""

    async def look_at(self, names: Collection[str]) -> None:
        """Have those of *names* looked at that never were."""

    def known(self, conn: sa.Connection, names: Collection[str]) -> Mapping[str, KnownHost]:
        """Return what is known of those of *names* that are such hosts, by id."""

    def said(
        self, conn: sa.Connection, names: Collection[str], ahead: Collection[str]
    ) -> Mapping[str, str]:
        """Return in words where they stand; *ahead*: those whose chain waits for another one."""


class NoSshHosts:
    """There are none."""

    def takes(self, name: str) -> bool:
        """Return False."""
        return False

    async def look_at(self, names: Collection[str]) -> None:
        """Look at nobody."""

    def known(self, conn: sa.Connection, names: Collection[str]) -> Mapping[str, KnownHost]:
        """Know nobody."""
        return {}

    def said(
        self, conn: sa.Connection, names: Collection[str], ahead: Collection[str]
    ) -> Mapping[str, str]:
        """Say nothing."""
        return {}


class Uploads(Protocol):
    """Files that clients sent before they named them (`blob.put`)."""

    def path(self, sha256: str) -> Path | None:
        """Return where the file of that hash lies, hash checked, or None."""


class Bus(Protocol):
    """The part of `master.events.bus.EventBus` that chains use."""

    @property
    def last(self) -> int:
        """Return the position of the newest event."""

    def record(self, conn: sa.Connection, tag: str, data: Mapping[str, Any]) -> Event:
        """Store an event in the running transaction."""

    def record_many(self, conn: sa.Connection, news: Sequence[NewEvent]) -> object:
        """Store events in the running transaction, in their order."""

    def subscribe(self, tag: str = "*", after: int = -1) -> AsyncIterator[Event]:
        """Yield events whose tag matches a glob, for ever."""

    def follow(self, tags: Sequence[str], after: int = -1) -> AsyncIterator[Stretch]:
        """Yield what is behind a position, with the events whose tags match, for ever."""

    async def cursor(self, consumer: str) -> int:
        """Return how far a consumer has come."""

    async def advance(self, consumer: str, seq: int) -> None:
        """Store how far a consumer has come; it may wait for company."""


@dataclass(frozen=True)
class ChainRules:
    """The settings of chains."""

    due: DueRules = field(default_factory=DueRules)
    agent_packages: tuple[str, ...] = ("catena", "catena-minion")
    #: How long a reboot or a new agent may be missing.
    boundary_seconds: float = BOUNDARY_SECONDS
    #: A run that waits for nothing and says nothing for this long is lost.
    silent_seconds: float = 3600
    #: A run that its minion says it does not know is lost after this long.
    disowned_seconds: float = 120
    #: "dispatch", "done", "forever": when a chain leaves the list.
    retention: str = "done"
    archive_seconds: float = 7 * 24 * 3600

    @classmethod
    def of(cls, settings: MasterSettings) -> ChainRules:
        """Return the rules that a master's settings give."""
        return cls(
            due=DueRules(settings.chain_late_hours * 3600, settings.clock_agreement_minutes * 60),
            agent_packages=tuple(settings.agent_packages),
            boundary_seconds=settings.chain_boundary_minutes * 60,
            retention=settings.chain_retention,
            archive_seconds=settings.chain_archive_hours * 3600,
        )


@dataclass(frozen=True)
class ChainParts:
    """Everything that the service and the scheduler of chains need."""

    store: Transactions
    bus: Bus
    jobs: JobService
    targets: Resolver
    uploads: Uploads
    files: ChainFiles
    clocks: HostClocks
    rules: ChainRules = field(default_factory=ChainRules)
    ssh: SshHosts = field(default_factory=NoSshHosts)
    #: Set when there may be work for the scheduler.
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    #: Reports of minions (boot id, machine id) that are not in the store yet.
    facts: Facts = field(default_factory=Facts)
    #: The request of a client that is being carried out.
    once: Once = UNKEYED

    async def change(self, fn: Callable[[ChainLedger], T], by: str = "") -> T:
        """Run *fn* with a ledger in one transaction, record its events, wake the scheduler.

        The value of *fn* is the answer of the request, which a repetition of it gets too.
        """

        def run(conn: sa.Connection) -> T:
            actor = Actor.api if by else Actor.system
            ledger = ChainLedger(conn, self.clocks.read(), actor, by)
            value = fn(ledger)
            self.record_all(conn, ledger.events)
            return value

        value = await self.store.write(self.once.wrap(run))
        self.wake.set()
        return value

    def record_all(self, conn: sa.Connection, items: Collection[EventItem]) -> None:
        """Record collected events in the running transaction."""
        self.bus.record_many(conn, [NewEvent(tag, data) for tag, data in items])
