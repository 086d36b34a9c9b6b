"""The dependencies of the modules of chains; made once, by the composition root."""

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
        """Store a job and send it to its connected minions."""

    async def cancel(
        self, jid: str, minions: Collection[str] = (), user: str = "", reason: str = ""
    ) -> dict[str, str]:
        """Cancel a job on all or some of its minions; return minion -> state of its delivery."""

    def order_time(self) -> float:
        """Return the time of the clock of orders, seconds since the epoch."""

    def by_wall_clock(self, at: float) -> float:
        """Convert a moment of `order_time` to the wall clock, for people."""

    def pause_in(self, conn: sa.Connection, jid: str, minion: str, reason: str) -> None:
        """Pause a delivery in the running transaction, unless its minion has received the job."""

    def continue_in(
        self, conn: sa.Connection, jid: str, minion: str, *, prolong: bool = True
    ) -> None:
        """Send a paused job to its minion once the running transaction is durable.

        *prolong*: give it the delivery time of a new job, beginning now.
        """


class Resolver(Protocol):
    """Resolves targets to accepted minions."""

    async def resolve(self, tgt: str, tgt_type: str) -> tuple[str, ...]:
        """Return the accepted minions that match, sorted."""


class Uploads(Protocol):
    """Files that clients uploaded (`blob.put`)."""

    def path(self, sha256: str) -> Path | None:
        """Return the path of the upload with that hash (checked); None if there is none."""


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
    #: Maximum wait for the proof of a reboot or of a new agent.
    boundary_seconds: float = BOUNDARY_SECONDS
    #: A run is lost after it has waited for nothing and reported nothing for this long.
    silent_seconds: float = 3600
    #: A run is lost this long after its minion has reported that it does not know it.
    disowned_seconds: float = 120
    #: Maximum wait of a start for a minion that can't remove an ended run; 0: no wait.
    clean_wait_seconds: float = 3600
    #: When a chain is archived: after its "dispatch", when it is "done", or never ("forever").
    retention: str = "done"
    #: Time between a chain's end and its archiving.
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
    #: Wakes the scheduler; set when there may be work for it.
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    #: Reports of minions (boot id, machine id) that are not in the store yet.
    facts: Facts = field(default_factory=Facts)
    #: Watchers of chains, which receive the output of their jobs.
    watchers: OutputWatchers = field(default_factory=OutputWatchers)
    #: Key of the client's request that is being carried out.
    once: Once = UNKEYED
    renderer: ChunkRenderer = field(default_factory=ChunkRenderer)
    #: Chain id -> why the due chain can't be started now, for people.
    delays: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: EngineParts) -> ChainParts:
        """Return the dependencies of chains on a master."""
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

        Args:
            fn: makes the changes; returns the reply, which is stored for repeated requests.
            by: the user who asked; "": the master itself.
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
