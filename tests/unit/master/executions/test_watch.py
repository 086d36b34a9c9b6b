"""Progress streams of any run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest

from catena.client.replies.jobs import JobOutputItem
from catena.core.events import Event
from catena.master.executions.watch import UNREAD_ITEMS, OutputWatchers, WatchedRun, watch
from catena.master.store.database import StoreUnavailableError
from tests.support.waiting import until


class Bus:
    """Events that a test gave it; nothing more comes."""

    def __init__(self, *tags: str) -> None:
        self.events = [Event(seq, tag, {"n": seq}, "now", "") for seq, tag in enumerate(tags, 1)]
        self.last = 0

    async def subscribe(self, tag: str = "*", after: int = -1) -> AsyncIterator[Event]:
        for event in self.events:
            if event.seq > after and event.tag.startswith(tag.rstrip("*")):
                yield event


class Toy:
    """A run that is watched; *states*: what it is at each look."""

    def __init__(self, *states: str) -> None:
        self.states = list(states)
        self.settled = False

    async def show(self) -> str:
        return self.states.pop(0)

    async def settle(self) -> None:
        self.settled = True

    async def find(self) -> WatchedRun[str]:
        return WatchedRun(
            "toys/1/*",
            {"toys/1/done"},
            {"toys/1/deleted"},
            self.show,
            lambda view: view == "done",
            self.settle,
        )


def shown_items(items: Iterable[str | Event | JobOutputItem]) -> list[str]:
    return [
        item.tag
        if isinstance(item, Event)
        else item.text
        if isinstance(item, JobOutputItem)
        else item
        for item in items
    ]


def part(text: str) -> JobOutputItem:
    return JobOutputItem("web1", 1, "stdout", text, 0)


async def test_watch_ends_with_the_whole_run_after_its_last_event() -> None:
    toy = Toy("works", "done")
    bus = Bus("toys/1/began", "toys/2/done", "toys/1/done", "toys/1/late")
    items = [item async for item in watch(bus, toy.find, OutputWatchers())]
    assert shown_items(items) == ["works", "toys/1/began", "toys/1/done", "done"]
    assert items[1] is bus.events[0]
    assert toy.settled


async def test_watch_of_an_ended_run_shows_it_once() -> None:
    toy = Toy("done")
    assert shown_items(
        [item async for item in watch(Bus("toys/1/late"), toy.find, OutputWatchers())]
    ) == ["done"]


async def test_watch_ends_without_another_look_when_the_run_is_deleted() -> None:
    toy = Toy("works")
    items = [
        item
        async for item in watch(Bus("toys/1/deleted", "toys/1/done"), toy.find, OutputWatchers())
    ]
    assert shown_items(items) == ["works", "toys/1/deleted"]


async def test_watch_yields_events_that_came_while_the_run_was_looked_up() -> None:
    toy, bus = Toy("works", "done"), Bus("toys/1/done")

    async def find() -> WatchedRun[str]:
        bus.last = 1
        return await toy.find()

    assert shown_items([item async for item in watch(bus, find, OutputWatchers())]) == [
        "works",
        "toys/1/done",
        "done",
    ]


class LiveBus(Bus):
    """Has one more event when a test says so; fails if it says so."""

    def __init__(self, tag: str, error: Exception | None = None) -> None:
        super().__init__(tag)
        self.goes_on = asyncio.Event()
        self._error = error

    async def subscribe(self, tag: str = "*", after: int = -1) -> AsyncIterator[Event]:
        await self.goes_on.wait()
        if self._error is not None:
            raise self._error
        async for event in super().subscribe(tag, after):
            yield event


async def test_output_is_yielded_while_the_run_continues() -> None:
    watchers, bus = OutputWatchers(), LiveBus("toys/1/done")
    items = watch(bus, Toy("works", "done").find, watchers)
    assert shown_items([await anext(items)]) == ["works"]
    following = asyncio.ensure_future(anext(items))
    await until(lambda: watchers.are_there)
    watchers.publish("toys/2/*", part("of another run"))
    watchers.publish("toys/1/*", part("line"))
    assert shown_items([await following]) == ["line"]
    bus.goes_on.set()
    assert shown_items([item async for item in items]) == ["toys/1/done", "done"]
    assert not watchers.are_there


async def test_slow_watcher_loses_output_and_no_event() -> None:
    watchers, bus = OutputWatchers(), LiveBus("toys/1/done")
    items = watch(bus, Toy("works", "done").find, watchers)
    await anext(items)
    following = asyncio.ensure_future(anext(items))
    await until(lambda: watchers.are_there)
    for number in range(2 * UNREAD_ITEMS):
        watchers.publish("toys/1/*", part(str(number)))
    bus.goes_on.set()
    found = shown_items([await following, *[item async for item in items]])
    assert found == [*map(str, range(UNREAD_ITEMS)), "toys/1/done", "done"]


async def test_error_of_the_events_ends_the_watch() -> None:
    watchers, bus = OutputWatchers(), LiveBus("toys/1/done", StoreUnavailableError())
    bus.goes_on.set()
    items = watch(bus, Toy("works").find, watchers)
    await anext(items)
    with pytest.raises(StoreUnavailableError):
        await anext(items)
    assert not watchers.are_there


async def test_closed_watch_leaves_nothing_behind() -> None:
    watchers, bus = OutputWatchers(), LiveBus("toys/1/done")
    items = watch(bus, Toy("works").find, watchers)
    await anext(items)
    following = asyncio.ensure_future(anext(items))
    await until(lambda: watchers.are_there)
    watchers.publish("toys/1/*", part("line"))
    await following
    await items.aclose()  # type: ignore[attr-defined]  # an async generator
    assert not watchers.are_there
    assert asyncio.all_tasks() == {asyncio.current_task()}
