"""Engines process starts of agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from catena.core.clock import ManualClock
from catena.master.events.bus import EventBus
from catena.master.executions.engine import AgentStart, Engine
from catena.master.executions.model import EventItem
from catena.master.executions.starts import CURSOR, AgentStarts
from catena.master.store.database import Store
from catena.master.store.tables import FACTS


class Notes(Engine[None]):
    """Stores each start that it takes; fails at those of some minions."""

    def __init__(self, name: str, minions: str, fails_at: str = "") -> None:
        self.title = name
        self.minions = minions.split()
        self.fails_at = fails_at.split()

    @classmethod
    def make(cls, parts: None) -> Notes:
        return cls("notes", "")

    name = "notes"

    def concerned(self, conn: sa.Connection, starts: Sequence[AgentStart]) -> list[AgentStart]:
        return [start for start in starts if start.minion in self.minions]

    def start_event(self, conn: sa.Connection, start: AgentStart) -> Sequence[EventItem]:
        row = {"name": f"{self.title} {start.minion}", "value": start.boot_id}
        conn.execute(sa.insert(FACTS).values(row))
        if start.minion in self.fails_at:
            raise ValueError("an error of the engine")
        return [(f"{self.title}/{start.minion}", {"waits": dict(start.pending_resume)})]


@dataclass
class Bench:
    store: Store
    bus: EventBus

    async def take(self, *engines: Notes, **starts: str) -> int:
        """Fire a start of each minion, let *engines* take them; return the last position."""
        events = [
            await self.bus.fire(f"salt/minion/{name}/start", {"id": name, "boot_id": boot})
            for name, boot in starts.items()
        ]
        await AgentStarts(self.store, self.bus, engines).take(events, events[-1].seq)
        return events[-1].seq

    async def notes(self) -> dict[str, str]:
        query = sa.select(FACTS.c.name, FACTS.c.value).order_by(FACTS.c.name)
        found = await self.store.read(lambda conn: conn.execute(query).all())
        return {row.name: row.value for row in found if " " in row.name}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    store = Store(f"sqlite:///{tmp_path}/master.db")
    await store.open()
    bus = EventBus(store, ManualClock(datetime(2026, 3, 1, tzinfo=UTC)))
    await bus.open()
    yield Bench(store, bus)
    await store.close()


async def test_start_is_taken_by_each_engine_that_it_concerns(bench: Bench) -> None:
    one, two = Notes("one", "web1"), Notes("two", "web1 web2")
    last = await bench.take(one, two, web1="b1", web2="b2", web3="b3")
    assert await bench.notes() == {"one web1": "b1", "two web1": "b1", "two web2": "b2"}
    assert await bench.bus.cursor(CURSOR) == last


async def test_start_is_handled_once_by_other_engines_when_one_engine_fails(bench: Bench) -> None:
    one, two = Notes("one", "web1 web2", fails_at="web1"), Notes("two", "web1 web2")
    last = await bench.take(one, two, web1="b1", web2="b2")
    assert await bench.notes() == {"one web2": "b2", "two web1": "b1", "two web2": "b2"}
    assert await bench.bus.cursor(CURSOR) == last


async def test_start_is_skipped_when_every_engine_fails(bench: Bench) -> None:
    last = await bench.take(Notes("one", "web1 web2", fails_at="web1 web2"), web1="b", web2="b")
    assert await bench.notes() == {}
    assert await bench.bus.cursor(CURSOR) == last


async def test_start_that_concerns_no_engine_moves_the_cursor_only(bench: Bench) -> None:
    last = await bench.take(Notes("one", ""), web1="b1")
    assert await bench.bus.cursor(CURSOR) == last
    assert await bench.notes() == {}


async def test_start_that_a_minion_sent_itself_is_ignored(bench: Bench) -> None:
    data = {"id": "web1", "boot_id": "forged"}
    event = await bench.bus.fire("salt/minion/web1/start", data, "web2")
    await AgentStarts(bench.store, bench.bus, [Notes("one", "web1")]).take([event], event.seq)
    assert await bench.notes() == {}
