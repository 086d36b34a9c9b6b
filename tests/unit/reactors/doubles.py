"""Doubles of the renderer, performer and event bus of the reactor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from catena.core.errors import CatenaError
from catena.core.events import Event, Stretch, any_tag
from catena.reactors.reaction import Reaction, ReactionKind


class TableBus:
    """The event table as a list."""

    def __init__(self, cursor: int = 0) -> None:
        self.events: list[Event] = []
        self.saved = cursor
        self.fired: list[tuple[str, Mapping[str, Any]]] = []

    @property
    def last(self) -> int:
        return len(self.events)

    def add(self, tag: str, source: str = "", **data: Any) -> None:
        self.events.append(Event(len(self.events) + 1, tag, data, "", source))

    async def follow(self, tags: Sequence[str], after: int = -1) -> AsyncIterator[Stretch]:
        asked = any_tag(tags)
        yield Stretch(self.last, [event for event in self.events[after:] if asked(event.tag)])
        await asyncio.Event().wait()

    async def events_at(self, positions: Sequence[int]) -> Sequence[Event]:
        wanted = set(positions)
        return [event for event in self.events if event.seq in wanted]

    async def cursor(self, consumer: str) -> int:
        return self.saved

    async def advance(self, consumer: str, seq: int) -> None:
        self.saved = seq

    async def fire(self, tag: str, data: Mapping[str, Any], source: str = "") -> Event:
        self.fired.append((tag, data))
        return Event(0, tag, data, "")


class EchoRenderer:
    """Returns one runner reaction per event, with its tag as id; fails for tags with `broken`."""

    async def render(self, file: str, tag: str, data: Mapping[str, Any]) -> Sequence[Reaction]:
        if "broken" in tag:
            raise CatenaError("line 3 is wrong")
        return [Reaction(tag, ReactionKind.runner, "x.y")]


class Recorder:
    """Records performed reactions; a reaction waits for the event under its id in `hold`."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.keys: list[str] = []
        self.hold: dict[str, asyncio.Event] = {}

    async def perform(self, reaction: Reaction, key: str) -> None:
        if reaction.id in self.hold:
            await self.hold[reaction.id].wait()
        if "refused" in reaction.id:
            raise CatenaError("not allowed")
        self.done.append(reaction.id)
        self.keys.append(key)
