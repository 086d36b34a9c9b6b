"""Greetings as the master sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sqlalchemy as sa

from catena.core.checkup import Finding, Level
from catena.master.engine_parts import EngineParts
from catena.master.executions.engine import AgentStart, Engine
from catena.master.executions.ledger import Ledger
from catena.master.executions.model import EventItem, Run
from catena.master.process.retention import Before, Retention
from tests.support.greetings import decide, rows
from tests.support.greetings.lifecycle import LIFE_CYCLES
from tests.support.greetings.service import GreetingService
from tests.support.greetings.tables import GREETINGS

_BATCH = 100


def _check(conn: sa.Connection, now: float) -> Iterator[Finding]:
    for minion, waiting in rows.waiting(conn).items():
        if some := decide.waits_long(waiting, now):
            text = f"{minion} has not come up for {len(some)} greetings"
            yield Finding("greetings", Level.note, text, "start that host")


def _drop(conn: sa.Connection, before: Before) -> Mapping[str, int]:
    return {rows.ENGINE: rows.drop(conn, before[rows.ENGINE], _BATCH)}


class Greetings(Engine[EngineParts]):
    """Everything of greetings on one master."""

    name = rows.ENGINE
    tables = (GREETINGS,)
    retention = (
        Retention(rows.ENGINE, lambda settings, now: now - settings.keep_jobs_hours * 3600, _drop),
    )
    findings = (_check,)
    life_cycles = LIFE_CYCLES

    def __init__(self, parts: EngineParts) -> None:
        self.service = GreetingService(parts.store, parts.clocks.read)

    @classmethod
    def make(cls, parts: EngineParts) -> Greetings:
        """Return the greetings of a master."""
        return cls(parts)

    @property
    def handlers(self) -> Sequence[object]:
        """Return the handler of `greeting.order`."""
        return (self.service,)

    def under_way(self, conn: sa.Connection) -> Mapping[str, Sequence[str]]:
        """Return the greetings that wait for each minion."""
        found = rows.waiting(conn)
        return {minion: [f"greeting #{one.run.id}" for one in found[minion]] for minion in found}

    def unapproved(self, ledger: Ledger, run: Run, reason: str) -> Sequence[EventItem]:
        """End a greeting that nobody approved."""
        return self.service.drop(ledger, run, reason)

    def concerned(self, conn: sa.Connection, starts: Sequence[AgentStart]) -> list[AgentStart]:
        """Return the starts of minions for which a greeting waits."""
        return decide.concerned(rows.waiting(conn), starts)

    def start_event(self, conn: sa.Connection, start: AgentStart) -> Sequence[EventItem]:
        """Say the greetings that wait for a minion."""
        return self.service.started(conn, start)
