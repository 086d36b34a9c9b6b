"""The engine of action chains: its interface to the master."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import sqlalchemy as sa

from catena.core import run_ref
from catena.core.job import JobSpec
from catena.core.run_ref import RunRef
from catena.master.chains import drafts, restored, rows
from catena.master.chains.cleanup_rows import JOBS_IN_USE
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.files import SHIPPED
from catena.master.chains.findings import check
from catena.master.chains.handlers import ChainHandlers
from catena.master.chains.holds import ChainHolds
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import LIFE_CYCLES, ChainState
from catena.master.chains.rendering import TASK
from catena.master.chains.results import ChainResults
from catena.master.chains.retention import RETENTION
from catena.master.chains.scheduler import Scheduler
from catena.master.chains.service import ChainService
from catena.master.engine_parts import EngineParts
from catena.master.executions.engine import AgentStart, Engine
from catena.master.executions.ledger import Ledger
from catena.master.executions.model import EventItem, Run
from catena.master.store.chain_tables import (
    ACTIONS,
    CHAIN_EXECUTIONS,
    CHAIN_MINIONS,
    CHAINS,
    CHUNKS,
    ENTRIES,
)


class Chains(Engine[EngineParts]):
    """The engine of action chains on one master."""

    name = rows.ENGINE
    tables = (CHAINS, ACTIONS, ENTRIES, CHAIN_EXECUTIONS, CHAIN_MINIONS, CHUNKS)
    retention = (RETENTION,)
    jobs_in_use = (JOBS_IN_USE,)
    findings = (check,)
    life_cycles = LIFE_CYCLES
    worker_tasks = {TASK: "catena.master.chains.batches"}
    roots = (SHIPPED,)

    def __init__(self, parts: ChainParts) -> None:
        self.files = parts.files
        self.service = ChainService(parts)
        self.scheduler = Scheduler(parts)
        self.results = ChainResults(parts.clocks, parts.wake.set, parts.watchers)
        self._holds = ChainHolds.of(parts)
        self._parts = parts

    @classmethod
    def make(cls, parts: EngineParts) -> Chains:
        """Return the engine of a master."""
        return cls(ChainParts.of(parts))

    @property
    def handlers(self) -> Sequence[object]:
        """Return the handlers of the verbs `chain.*`."""
        return (ChainHandlers(self._parts),)

    @property
    def observers(self) -> Sequence[ChainResults]:
        """Return the observer that makes chains advance."""
        return (self.results,)

    async def open(self) -> None:
        """Convert stored times to this host's clocks, end restored chains, load visible files."""
        now, allowed = self._parts.clocks.read(), self._parts.rules.boundary_seconds
        await self._parts.store.write(lambda conn: rows.rebase(conn, now, allowed))
        await restored.settle(self._parts)
        await self.files.load(self._parts.store)

    async def run(self) -> None:
        """Run the scheduler until cancelled."""
        await self.scheduler.run()

    def wake(self) -> None:
        """Make the scheduler look for work now."""
        self._parts.wake.set()

    def overlay(self, minion: str) -> Mapping[str, Path]:
        """Return the chunk files, uploads and previews that only *minion* sees."""
        return self.files.overlay(minion)

    def under_way(self, conn: sa.Connection) -> Mapping[str, Sequence[str]]:
        """Return minion -> titles of its open chains, in the order of their start jobs."""
        found: dict[str, list[str]] = {}
        for run in rows.open_runs(conn):
            found.setdefault(run.minion, []).append(f"{run.label} (#{run.chain_id})")
        return found

    def paused(
        self, conn: sa.Connection, spec: JobSpec, minions: Collection[str]
    ) -> Mapping[str, str]:
        """Return minion -> reason for those of *minions* that must not get the job now."""
        return self._holds.paused(conn, spec, minions)

    def unapproved(self, ledger: Ledger, run: Run, reason: str) -> Sequence[EventItem]:
        """Cancel a chain whose approval was refused or has expired."""
        mine = ChainLedger(ledger.conn, ledger.now, ledger.actor, ledger.who)
        row = rows.chain(ledger.conn, int(run.ref))
        if row.run == run.id and row.state == ChainState.pending_approval:
            drafts.unapproved(mine, row, reason)
        return mine.events

    def concerned(self, conn: sa.Connection, starts: Sequence[AgentStart]) -> list[AgentStart]:
        """Return the starts of minions that have an open run, or that report a waiting one."""
        busy = rows.with_work({start.minion for start in starts}, conn)
        return [start for start in starts if start.minion in busy or _waiting(start)]

    def start_event(self, conn: sa.Connection, start: AgentStart) -> Sequence[EventItem]:
        """Apply an agent's start: its boot may prove reboots. Return the events to store."""
        return self.results.on_start(conn, start.minion, start.boot_id, _waiting(start))


def _waiting(start: AgentStart) -> RunRef | None:
    """Return the run that waits for its resume on a minion, as the minion reported; or None."""
    return run_ref.named(start.pending_resume)
