"""A flood of matching events: the reactor reads waiting ones again from a real event table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from catena.core.clock import SystemClock
from catena.core.events import Event
from catena.master.events.bus import EventBus
from catena.master.store.database import Store
from catena.reactors import queues
from catena.reactors.engine import CONSUMER, Reactor
from catena.reactors.reaction import Reaction, ReactionKind
from catena.reactors.rules import Rule
from tests.support.waiting import until
from tests.unit.reactors.doubles import Recorder
from tests.unit.reactors.kept import KeptInMemory

COUNT = 60


class Counting:
    """Renders one reaction per event, whose id is the event's number."""

    async def render(self, file: str, tag: str, data: Mapping[str, Any]) -> Sequence[Reaction]:
        return [Reaction(str(data["n"]), ReactionKind.runner, "x.y")]


class CountedBus(EventBus):
    """Counts the events that are read again."""

    def __init__(self, store: Store, clock: SystemClock) -> None:
        super().__init__(store, clock)
        self.reads: list[int] = []

    async def events_at(self, positions: Sequence[int]) -> Sequence[Event]:
        self.reads.append(len(positions))
        return await super().events_at(positions)


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[CountedBus]:
    store = Store(f"sqlite:///{tmp_path / 'master.db'}")
    await store.open()
    bus = CountedBus(store, SystemClock())
    await bus.open()
    yield bus
    await store.close()


async def run_until(bus: EventBus, recorder: Recorder, count: int) -> None:
    """Run a reactor until it has performed *count* reactions; then cancel it."""
    rules = [Rule("app/*", ("f.sls",))]
    reactor = Reactor(rules, bus, Counting(), recorder, KeptInMemory())
    task = asyncio.create_task(reactor.run())
    await until(lambda: len(recorder.done) >= count)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_killed_reactor_handles_every_event_of_a_flood_in_order(
    bus: CountedBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "QUEUE_EVENTS", 8)
    await bus.advance(CONSUMER, 0)
    for number in range(COUNT):
        await bus.fire(f"app/{number % 3}", {"n": number}, f"web{number % 2}")
    first, second = Recorder(), Recorder()
    # web0 stops at its event 40, web1 handles all of its events.
    first.hold["40"] = asyncio.Event()
    await run_until(bus, first, 50)
    await run_until(bus, second, COUNT - 40)
    assert {*map(int, first.done)} == {*range(40), *range(41, COUNT, 2)}
    assert {*map(int, second.done)} == {*range(40, COUNT)}
    for recorder in (first, second):
        for parity in (0, 1):
            mine = [int(number) for number in recorder.done if int(number) % 2 == parity]
            assert mine == sorted(set(mine))
    assert len(bus.reads) > 4
    assert max(bus.reads) <= 8
