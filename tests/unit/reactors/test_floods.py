"""A reactor that receives matching events faster than it handles them."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from catena.core.errors import TryLaterError
from catena.core.events import Event, Stretch, any_tag
from catena.core.frozen import replace
from catena.reactors import engine as engine_module
from catena.reactors import queues
from catena.reactors.engine import QUEUES, Reactor
from catena.reactors.reaction import Reaction, ReactionKind
from catena.reactors.rules import Rule
from tests.support.waiting import run_ready_tasks, until
from tests.unit.reactors.doubles import Recorder, TableBus
from tests.unit.reactors.kept import KeptInMemory

#: Number of events of a flood; several times what a queue may hold.
MANY = 5000
#: Number of events that a follower gets at a time.
PAGE = 100
RULES = [Rule("*/start", ("shipped.sls",), shipped=True), Rule("go/*", ("f.sls",))]


class PagedBus(TableBus):
    """An event table that makes new events at each read, and counts those in memory."""

    def __init__(self, cursor: int = 0) -> None:
        super().__init__(cursor)
        self._made: list[weakref.ref[Event]] = []
        self.down = False
        #: Number of events that were read a second time.
        self.read_again = 0

    def flood(self, source: str, count: int = MANY, **data: Any) -> None:
        for number in range(count):
            self.add(f"go/{source}/{number}", source, **data)

    def alive(self) -> int:
        """Return the number of events in memory that were read from the table."""
        self._made = [made for made in self._made if made() is not None]
        return len(self._made)

    def _read(self, event: Event) -> Event:
        made = replace(event, data=dict(event.data))
        self._made.append(weakref.ref(made))
        return made

    async def follow(self, tags: Sequence[str], after: int = -1) -> AsyncIterator[Stretch]:
        asked = any_tag(tags)
        for start in range(after, self.last, PAGE):
            page = self.events[start : start + PAGE]
            found = [self._read(event) for event in page if event and asked(event.tag)]
            yield Stretch(start + len(page), found)
            del found
            await asyncio.sleep(0)
        await asyncio.Event().wait()

    async def events_at(self, positions: Sequence[int]) -> Sequence[Event]:
        await asyncio.sleep(0)
        if self.down:
            raise TryLaterError("the disk is away")
        self.read_again += len(positions)
        return [self._read(event) for event in await super().events_at(positions)]


class SlowRenderer:
    """Renders after `go` is set; returns one reaction with the event's tag as id."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def render(self, file: str, tag: str, data: Mapping[str, Any]) -> Sequence[Reaction]:
        if not file.endswith("shipped.sls"):
            await self.go.wait()
        return [Reaction(tag, ReactionKind.runner, "x.y")]


class Flooded:
    """A running reactor; `done` has the tags of its reactions in their order."""

    def __init__(self, bus: PagedBus) -> None:
        self.bus, self.renderer, self.recorder = bus, SlowRenderer(), Recorder()
        self.done = self.recorder.done
        self.engine = Reactor(RULES, bus, self.renderer, self.recorder, KeptInMemory())

    async def has_read_all(self) -> None:
        await run_ready_tasks(3 * self.bus.last // PAGE + 50)

    async def is_idle(self) -> None:
        await until(lambda: self.engine.status().lag == 0)

    def of(self, source: str) -> list[str]:
        return [tag for tag in self.done if tag.startswith(f"go/{source}/")]


@asynccontextmanager
async def flooded(bus: PagedBus) -> AsyncIterator[Flooded]:
    run = Flooded(bus)
    task = asyncio.create_task(run.engine.run())
    try:
        await run.has_read_all()
        yield run
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def tags(source: str, count: int = MANY) -> list[str]:
    return [f"go/{source}/{number}" for number in range(count)]


async def test_flood_of_one_minion_uses_limited_memory_and_is_handled_in_order() -> None:
    bus = PagedBus()
    bus.flood("a")
    async with flooded(bus) as run:
        assert bus.alive() <= 1000 + 2 * PAGE
        run.renderer.go.set()
        most = 0
        while run.engine.status().lag:
            most = max(most, bus.alive())
            await asyncio.sleep(0)
        assert most <= 1000 + 2 * PAGE
        assert run.done == tags("a")


async def test_flood_of_large_events_uses_limited_memory() -> None:
    bus = PagedBus()
    bus.flood("a", 600, text="x" * 20_000)
    async with flooded(bus) as run:
        # 1 MiB has 52 of them.
        assert bus.alive() <= 52 + 2 * PAGE
        run.renderer.go.set()
        await run.is_idle()
        assert run.done == tags("a", 600)


async def test_floods_of_many_minions_share_a_limit() -> None:
    bus = PagedBus()
    sources = [f"m{number}" for number in range(30)]
    for source in sources:
        bus.flood(source, 900)
    async with flooded(bus) as run:
        assert bus.alive() <= 16_000 + 2 * PAGE
        run.renderer.go.set()
        await run.is_idle()
        assert all(run.of(source) == tags(source, 900) for source in sources)


async def test_short_queues_read_no_event_again() -> None:
    bus = PagedBus()
    for number in range(50):
        bus.flood(f"m{number}", 20)
    async with flooded(bus) as run:
        run.renderer.go.set()
        await run.is_idle()
        assert bus.read_again == 0


async def test_other_minions_and_shipped_rules_are_handled_during_a_flood() -> None:
    bus = PagedBus()
    bus.flood("a")
    bus.add("go/b/0", "b")
    bus.add("web1/start", "a")
    async with flooded(bus) as run:
        assert run.done == ["web1/start"]
        # The flood's reactions wait; those of the other minion do not.
        held = asyncio.Event()
        run.recorder.hold["go/a/0"] = held
        run.renderer.go.set()
        await run_ready_tasks()
        assert run.done == ["web1/start", "go/b/0"]
        held.set()
        await run.is_idle()
        assert run.of("a") == tags("a")


async def test_flood_that_cannot_be_read_again_blocks_no_other_minion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(queues, "QUEUE_EVENTS", 100)
    monkeypatch.setattr(queues, "FULL_QUEUES", QUEUES + 1)
    bus = PagedBus()
    # One flood per slot.
    for number in range(QUEUES):
        bus.flood(f"m{number}", 110)
    bus.flood("b", 10)
    bus.down = True
    async with flooded(bus) as run:
        run.renderer.go.set()
        await until(lambda: len(run.of("b")) == 10)
        await until(lambda: len(run.done) == QUEUES * 100 + 10)
        assert run.engine.status().position == 100
        bus.down = False
        await run.is_idle()
        assert all(run.of(f"m{number}") == tags(f"m{number}", 110) for number in range(QUEUES))


async def test_position_never_passes_an_unprocessed_event() -> None:
    bus = PagedBus()
    for number in range(MANY // 2):
        bus.add(f"go/a/{number}", "a")
        bus.add(f"go/b/{number}", "b")
    positions = {event.tag: event.seq for event in bus.events}
    async with flooded(bus) as run:
        run.renderer.go.set()
        last = 0
        while run.engine.status().lag:
            position = run.engine.status().position
            assert last <= position
            last = position
            done = {positions[tag] for tag in run.done}
            assert all(seq in done for seq in range(1, position + 1))
            await run_ready_tasks(20)


async def test_killed_reactor_continues_a_flood_after_the_stored_position() -> None:
    bus = PagedBus()
    bus.flood("a")
    async with flooded(bus) as first:
        # The kill comes when some events have been read again.
        first.recorder.hold["go/a/2500"] = asyncio.Event()
        first.renderer.go.set()
        await until(lambda: len(first.done) == 2500)
    assert bus.saved == 2500
    async with flooded(bus) as second:
        second.renderer.go.set()
        await second.is_idle()
    assert first.done + second.done == tags("a")
    assert bus.saved == bus.last


async def test_events_deleted_during_a_flood_are_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus = PagedBus()
    bus.flood("a")
    async with flooded(bus) as run:
        kept = [event for event in bus.events if not 3000 < event.seq <= 3700]
        bus.events_at = _reader(bus, kept)  # type: ignore[method-assign]
        run.renderer.go.set()
        await run.is_idle()
        assert run.done == [event.tag for event in kept]
    assert "no reaction to 700 events of a: they were deleted" in caplog.text


def _reader(bus: PagedBus, kept: Sequence[Event]) -> Any:
    async def events_at(positions: Sequence[int]) -> Sequence[Event]:
        return [event for event in kept if event.seq in set(positions)]

    return events_at
