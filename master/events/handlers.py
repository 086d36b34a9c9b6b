"""Handlers of the verbs of events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from catena.client.requests import events
from catena.client.requests.events import EventSend, EventWatch
from catena.core.errors import UsageError
from catena.core.events import is_tag
from catena.master.events.bus import EventBus
from catena.master.requests.rights import Caller, Right
from catena.master.requests.verb import verb


@dataclass(frozen=True, slots=True)
class EventHandlers:
    """One method per verb: takes the caller and the record."""

    bus: EventBus

    @verb(events.WATCH, Right.read_events)
    async def watch(self, caller: Caller, asked: EventWatch) -> AsyncIterator[Any]:
        """Follow events."""
        left = asked.count
        async for event in self.bus.subscribe(asked.tag, asked.after):
            yield event
            left -= 1
            if left == 0:
                return

    @verb(events.SEND, Right.send_events, repeats=True)
    async def send(self, caller: Caller, asked: EventSend) -> Any:
        """Put an event on the bus."""
        if not is_tag(asked.tag):
            raise UsageError(f"{asked.tag[:80]!r} can't be an event's tag")
        once = caller.once
        return await self.bus.fire_once(
            once, asked.tag, asked.data, lambda event: {"seq": event.seq}
        )
