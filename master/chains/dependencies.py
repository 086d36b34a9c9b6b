"""What the rooms of chains work with; made once, in the composition root."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa

from catena.core.config.master import MasterSettings
from catena.core.events import Event
from catena.core.fsm import Actor
from catena.core.job import BOUNDARY_SECONDS
from catena.master.chains.files import ChainFiles
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.rendering import ChunkRenderer
from catena.master.engine_parts import EngineParts
from catena.master.events.bus import NewEvent
from catena.master.executions.due import DueRules
from catena.master.executions.model import EventItem
from catena.master.executions.ssh_hosts import NoSshHosts, SshHosts
from catena.master.executions.watch import OutputWatchers
from catena.master.jobs.model import JobRequest, Submitted, Within
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

    def order_time(self) -> float:
        """Return the time by which orders grow old, seconds since the epoch."""

    def by_wall_clock(self, at: float) -> float:
        """Return a moment of `order_time` by the wall clock, for people."""

    def pause_in(self, conn: sa.Connection, jid: str, minion: str, reason: str) -> None:
        """Hold a delivery back in the running transaction, unless its minion has the job."""

    def continue_in(
        self, conn: sa.Connection, jid: str, minion: str, *, prolong: bool = True
    ) -> None:
        """Hand a paused job to its minion once the running transaction is durable.

        *prolong*: it may be delivered for as long as a new job from now on.
        """


class Resolver(Protocol):
    """Turns a target into accepted minion ids."""

    async def resolve(self, tgt: str, tgt_type: str) -> tuple[str, ...]:
        """Return the accepted minions that match, sorted."""


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
    #: How long a start waits where its minion can't forget an ended run; 0: it does not wait.
    clean_wait_seconds: float = 3600
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
            # A start that waited may still be delivered late.
            clean_wait_seconds=min(
                settings.chain_clean_wait_minutes * 60, settings.chain_late_hours * 1800
            ),
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
    #: Those who watch chains.
    watchers: OutputWatchers = field(default_factory=OutputWatchers)
    #: The request of a client that is being carried out.
    once: Once = UNKEYED
    renderer: ChunkRenderer = field(default_factory=ChunkRenderer)
    #: Why a chain that is due can't be started now, for people, by its id.
    delays: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: EngineParts) -> ChainParts:
        """Return what chains work with on a master."""
        settings = parts.settings
        return cls(
            store=parts.store,
            bus=parts.bus,
            jobs=parts.jobs,
            targets=parts.targets,
            uploads=parts.uploads,
            files=ChainFiles(Path(settings.state_dir) / "chains"),
            clocks=parts.clocks,
            rules=ChainRules.of(settings),
            ssh=parts.ssh,
            facts=parts.facts,
            renderer=ChunkRenderer(parts.workers),
        )

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
