"""Renderings that begin before their event is stored: used once, for exactly that event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from catena.core.errors import TryLaterError
from catena.core.events import Event, Stretch
from catena.core.frozen import replace
from catena.reactors import engine as engine_module
from catena.reactors.early import EarlyRenderings
from catena.reactors.engine import OWN_TAGS, USER, Reactor
from catena.reactors.reaction import Reaction, ReactionKind
from catena.reactors.rules import Rule
from tests.support.waiting import run_ready_tasks
from tests.unit.reactors.kept import KeptInMemory


class Bus:
    """The event table; a test calls `come` to make an event arrive."""

    def __init__(self) -> None:
        self.last = 0
        self._come: asyncio.Queue[Event] = asyncio.Queue()

    def come(self, event: Event, stored: asyncio.Future[Event] | None = None) -> None:
        self.last += 1
        found = Event(self.last, event.tag, event.data, event.stamp, event.source)
        self._come.put_nowait(found)
        if stored is not None:
            stored.set_result(found)

    async def follow(self, tags: Sequence[str], after: int = -1) -> AsyncIterator[Stretch]:
        while True:
            event = await self._come.get()
            yield Stretch(event.seq, [event])

    async def events_at(self, positions: Sequence[int]) -> Sequence[Event]:
        raise AssertionError(f"{positions} were read again")

    async def cursor(self, consumer: str) -> int:
        return 0

    async def advance(self, consumer: str, seq: int) -> None:
        pass

    async def fire(self, tag: str, data: Mapping[str, Any], source: str = "") -> Event:
        raise AssertionError(f"{tag}: {data}")


class Recorder:
    """Records renderings and performed reactions in their order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.busy = 0
        self.held: asyncio.Event | None = None

    async def render(self, file: str, tag: str, data: Mapping[str, Any]) -> Sequence[Reaction]:
        self.done.append(f"render {data.get('n')} {data['_stamp']}")
        if self.busy:
            self.busy -= 1
            raise TryLaterError("no worker")
        return [Reaction(f"{tag} {data.get('n')}", ReactionKind.runner, "x.y")]

    async def perform(self, reaction: Reaction, key: str) -> None:
        if self.held:
            await self.held.wait()
        self.done.append(f"perform {reaction.id}")


def event(number: int, tag: str = "go/x", source: str = "", **data: Any) -> Event:
    return Event(0, tag, {"n": number, **data}, f"at{number}", source)


def being_stored() -> asyncio.Future[Event]:
    return asyncio.get_running_loop().create_future()


@asynccontextmanager
async def playing() -> AsyncIterator[tuple[Reactor, Bus, Recorder]]:
    bus, recorder = Bus(), Recorder()
    engine = Reactor([Rule("*", ("f.sls",))], bus, recorder, recorder, KeptInMemory())
    task = asyncio.create_task(engine.run())
    await run_ready_tasks()
    try:
        yield engine, bus, recorder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_file_is_rendered_early_once_and_performed_after_its_event_is_stored() -> None:
    async with playing() as (engine, bus, recorder):
        stored = being_stored()
        engine.expect(event(1), stored)
        await run_ready_tasks()
        assert recorder.done == ["render 1 at1"]
        bus.come(event(1), stored)
        await run_ready_tasks()
        assert recorder.done == ["render 1 at1", "perform go/x 1"]


async def test_different_event_is_rendered_separately() -> None:
    async with playing() as (engine, bus, recorder):
        stored = being_stored()
        engine.expect(event(1), stored)
        bus.come(event(2))
        bus.come(event(1), stored)
        await run_ready_tasks()
        assert recorder.done == [
            "render 1 at1", "render 2 at2", "perform go/x 2", "perform go/x 1",
        ]  # fmt: skip


async def test_event_behind_another_of_its_minion_is_not_rendered_early() -> None:
    async with playing() as (engine, bus, recorder):
        recorder.held = asyncio.Event()
        bus.come(event(1, source="web1"))
        await run_ready_tasks()
        engine.expect(event(2, source="web1"), being_stored())
        engine.expect(event(3, source="web2"), being_stored())
        engine.expect(event(4, source="web2"), being_stored())
        await run_ready_tasks()
        assert recorder.done == ["render 1 at1", "render 3 at3"]


async def test_events_caused_by_the_reactor_are_not_rendered_early() -> None:
    async with playing() as (engine, _bus, recorder):
        engine.expect(event(1, tag=f"{OWN_TAGS}failed"), being_stored())
        engine.expect(event(2, user=USER), being_stored())
        await run_ready_tasks()
        assert recorder.done == []


async def test_early_rendering_that_must_be_tried_later_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "AGAIN_SECONDS", 0)

    async with playing() as (engine, bus, recorder):
        recorder.busy = 2
        stored = being_stored()
        engine.expect(event(1), stored)
        bus.come(event(1), stored)
        await run_ready_tasks()
        assert recorder.done == [*["render 1 at1"] * 3, "perform go/x 1"]


async def test_early_rendering_is_discarded_when_its_event_is_not_stored() -> None:
    async with playing() as (engine, _bus, recorder):
        refused, left = being_stored(), being_stored()
        engine.expect(event(1), refused)
        engine.expect(event(2, source="web1"), left)
        refused.set_exception(TryLaterError("the disk is full"))
        left.cancel()
        await run_ready_tasks()
        engine.expect(event(3), being_stored())
        engine.expect(event(4, source="web1"), being_stored())
        await run_ready_tasks()
        assert recorder.done == [f"render {number} at{number}" for number in (1, 2, 3, 4)]


async def test_event_stored_with_other_data_is_rendered_again() -> None:
    async with playing() as (engine, bus, recorder):
        stored = being_stored()
        engine.expect(event(1, value=float("nan")), stored)
        bus.come(event(1, value=float("nan")), stored)
        await run_ready_tasks()
        assert recorder.done == ["render 1 at1", "render 1 at1", "perform go/x 1"]
        engine.expect(event(2), being_stored())
        await run_ready_tasks()
        assert recorder.done[3:] == ["render 2 at2"]


async def test_early_rendering_of_a_past_event_frees_its_slot() -> None:
    recorder, stored = Recorder(), being_stored()
    early = EarlyRenderings(recorder.render, 1)
    early.begin("", event(1), "f.sls", stored)
    stored.set_result(Event(7, "go/x", {"n": 1}, "at1"))
    assert early.take("", Event(6, "go/x", {"n": 1}, "at1"), "f.sls") is None
    assert early.take("", Event(8, "go/x", {"n": 8}, "at8"), "f.sls") is None
    early.begin("web1", event(2), "f.sls", being_stored())
    await run_ready_tasks()
    assert recorder.done == ["render 1 at1", "render 2 at2"]


async def test_number_of_early_renderings_is_limited() -> None:
    recorder = Recorder()
    early = EarlyRenderings(recorder.render, 2)
    stored = [being_stored() for _ in range(3)]
    come = [replace(event(number), seq=number + 1) for number in range(3)]
    for number in range(3):
        early.begin(number, event(number), "f.sls", stored[number])
        stored[number].set_result(come[number])
    await run_ready_tasks()
    assert len(recorder.done) == 2
    assert early.take(2, come[2], "f.sls") is None
    taken = early.take(0, come[0], "f.sls")
    assert taken is not None
    assert [reaction.id for reaction in await taken] == ["go/x 0"]
    assert early.take(0, come[0], "f.sls") is None
    early.clear()
    assert early.take(1, come[1], "f.sls") is None


async def test_event_of_a_repeated_request_frees_its_slot() -> None:
    recorder = Recorder()
    early = EarlyRenderings(recorder.render, 1)
    repeated = being_stored()
    early.begin("a", event(1), "f.sls", repeated)
    repeated.set_result(event(1))
    await run_ready_tasks()
    early.begin("b", event(2), "f.sls", being_stored())
    await run_ready_tasks()
    assert recorder.done == ["render 1 at1", "render 2 at2"]
