"""The protocol of an engine, and all engines of a master as one object.

An engine is a kind of work with a vocabulary of its own, such as action chains. Its package has
the modules `model`, `lifecycle`, `rows`, `decide`, `service` and `engine`. The composition root
names it once, in the list `master.engines.ENGINES`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import sqlalchemy as sa

from catena.client.replies.jobs import JobOutputItem
from catena.core.errors import InvalidStateError, NotFoundError
from catena.core.job import JobProgress, JobReturn, JobSpec
from catena.master.executions.ledger import Ledger
from catena.master.executions.lifecycle import ReferenceCycle
from catena.master.executions.model import EventItem, Run
from catena.master.process.checkup import StoreCheck
from catena.master.process.retention import Retention

P = TypeVar("P", contravariant=True)
Q = TypeVar("Q")


class AgentStart(NamedTuple):
    """The start of a minion's agent, from its start event."""

    minion: str
    boot_id: str
    #: The run that waits on the minion for its resume; {} if there is none.
    pending_resume: Mapping[str, Any]


class JobObserver(Protocol):
    """Is notified of deliveries inside the transaction that stores the fact.

    Every method runs in the writer thread: it may use *conn*, must not block, and returns events
    that are stored in the same transaction. It is called once per stored fact, never for a
    duplicate. An exception rolls the transaction back, and the minion sends the fact again.
    """

    def on_return(self, conn: sa.Connection, minion: str, ret: JobReturn) -> Sequence[EventItem]:
        """Handle a return that was stored."""

    def on_progress(
        self, conn: sa.Connection, minion: str, progress: JobProgress
    ) -> Sequence[EventItem]:
        """Handle a progress step that was stored."""

    def on_delivery(
        self, conn: sa.Connection, minion: str, jid: str, state: str, detail: str
    ) -> Sequence[EventItem]:
        """Handle a delivery's change of state, except to `done` by a return (see on_return).

        *state* is a `jobs.delivery.Delivery`.
        """

    def on_output(self, conn: sa.Connection, jid: str, item: JobOutputItem) -> None:
        """Handle a part of a running job's output that was stored."""


class Engine(Protocol[P]):
    """One kind of work, with everything that the master must know about it.

    A class that inherits from this one gets the defaults below. `catena doctor` and `catena store
    prune` read the class attributes without a running master.
    """

    #: Name of the engine in the tables that engines share; it must never change.
    name: ClassVar[str]
    #: Tables that no other package of the master writes.
    tables: ClassVar[Sequence[sa.Table]] = ()
    #: Rules by which the engine's old rows are deleted.
    retention: ClassVar[Sequence[Retention]] = ()
    #: Queries of the jids of ended jobs to keep, because the engine may need their returns.
    jobs_in_use: ClassVar[Sequence[sa.Select[tuple[str]]]] = ()
    #: Checks of the engine's rows by `catena doctor`.
    findings: ClassVar[Sequence[StoreCheck]] = ()
    #: Life cycles of the engine; the reference has a section for each.
    life_cycles: ClassVar[Sequence[ReferenceCycle]] = ()
    #: Tasks of worker processes: name -> module with a function `task`. The names are unique in a
    #: master. Only the first such task in a process imports the module.
    worker_tasks: ClassVar[Mapping[str, str]] = {}
    #: Folders that are appended to the file roots of every environment.
    roots: ClassVar[Sequence[Path]] = ()

    @classmethod
    def make(cls, parts: P) -> Engine[P]:
        """Create the engine of a master from the parts that the composition root passes."""

    @property
    def handlers(self) -> Sequence[object]:
        """Return the objects whose methods handle the engine's verbs (`requests.verb`)."""
        return ()

    @property
    def observers(self) -> Sequence[JobObserver]:
        """Return the engine's observers of jobs."""
        return ()

    async def open(self) -> None:
        """Prepare the engine; called once, before minions are served.

        Raises:
            CatenaError: the engine can't work, so the master does not start.
        """
        return

    async def run(self) -> None:
        """Run the engine until cancelled; an engine that only answers requests waits."""
        await asyncio.Event().wait()

    def wake(self) -> None:
        """Make the engine look for work now."""
        return

    def overlay(self, minion: str) -> Mapping[str, Path]:
        """Return the files that only *minion* sees: path below the roots -> local path."""
        return {}

    def under_way(self, conn: sa.Connection) -> Mapping[str, Sequence[str]]:
        """Return minion -> titles of the engine's open runs there, in order."""
        return {}

    def paused(
        self, conn: sa.Connection, spec: JobSpec, minions: Collection[str]
    ) -> Mapping[str, str]:
        """Return minion -> reason for those of *minions* on which the job's run must wait."""
        return {}

    def concerned(self, conn: sa.Connection, starts: Sequence[AgentStart]) -> list[AgentStart]:
        """Return those of *starts* that change the engine's rows; *conn* is a snapshot."""
        return []

    def unapproved(self, ledger: Ledger, run: Run, reason: str) -> Sequence[EventItem]:
        """End one of the engine's runs, because its approval was refused or has expired.

        Called in the transaction that ends the approval. An engine that asks for approvals
        implements it.

        Args:
            ledger: of the running transaction; its user refused, or its actor is the system.
            run: waits for the approval.
            reason: for people.

        Returns:
            Events to store in the same transaction.
        """
        raise InvalidStateError(f"run {run.id}: the engine {self.name} asks for no approvals")

    def start_event(self, conn: sa.Connection, start: AgentStart) -> Sequence[EventItem]:
        """Store the consequences of an agent's start for runs; return events to store with them.

        Called once for each start that `concerned` returned, in their order, in the transaction
        that stores the position behind the start.
        """
        return ()


class Engines(Generic[Q]):
    """All engines of one master as one object.

    Args:
        kinds: engine classes, in the order in which engines are created, opened and notified.
    """

    def __init__(self, kinds: Sequence[type[Engine[Q]]]) -> None:
        self.kinds = kinds
        self._made: list[Engine[Q]] = []

    def make(self, parts: Q) -> None:
        """Create an engine of each class; must be called once, before all other methods."""
        self._made = [kind.make(parts) for kind in self.kinds]

    def __iter__(self) -> Iterator[Engine[Q]]:
        """Iterate over the engines in their order."""
        return iter(self._made)

    def __getitem__(self, name: str) -> Engine[Q]:
        """Return an engine by its name."""
        return next(engine for engine in self if engine.name == name)

    @property
    def handlers(self) -> Iterator[object]:
        """Iterate over the objects whose methods handle verbs."""
        return (owner for engine in self for owner in engine.handlers)

    @property
    def observers(self) -> Iterator[JobObserver]:
        """Iterate over the observers of jobs of all engines."""
        return (observer for engine in self for observer in engine.observers)

    async def open(self) -> None:
        """Open the engines in their order."""
        for engine in self:
            await engine.open()

    @property
    def roots(self) -> tuple[str, ...]:
        """Return the folders that are appended to the file roots of every environment."""
        return tuple(str(folder) for kind in self.kinds for folder in kind.roots)

    @property
    def worker_tasks(self) -> Mapping[str, str]:
        """Return the tasks of worker processes: name -> module with a function `task`."""
        return {name: module for kind in self.kinds for name, module in kind.worker_tasks.items()}

    def overlay(self, minion: str) -> Mapping[str, Path]:
        """Return the files that only *minion* sees, of all engines."""
        found = [files for engine in self if (files := engine.overlay(minion))]
        if len(found) == 1:
            return found[0]
        return {path: file for files in found for path, file in files.items()}

    def under_way(self, conn: sa.Connection) -> dict[str, list[str]]:
        """Return minion -> titles of the open runs there, of all engines."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for engine in self:
            for minion, titles in engine.under_way(conn).items():
                found[minion] += titles
        return dict(found)

    def paused(
        self, conn: sa.Connection, spec: JobSpec, minions: Collection[str]
    ) -> Mapping[str, str]:
        """Return minion -> reason for those of *minions* where the run of a job must wait."""
        found: dict[str, str] = {}
        for engine in self:
            found |= engine.paused(conn, spec, minions)
        return found

    def unapproved(self, ledger: Ledger, run: Run, reason: str) -> Sequence[EventItem]:
        """Have the engine of a run end it, because its approval was refused or has expired.

        Raises:
            NotFoundError: this master has no such engine.
        """
        for engine in self:
            if engine.name == run.engine:
                return engine.unapproved(ledger, run, reason)
        raise NotFoundError(
            f"run {run.id} is of the engine {run.engine!r}, which this master does not have"
        )

    def wake(self) -> None:
        """Make every engine look for work now."""
        for engine in self:
            engine.wake()
