"""Handlers of the verbs of events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from catena.client.replies.events import EventSent
from catena.client.requests import events
from catena.client.requests.events import EventSend, EventWatch
from catena.core.errors import UsageError
from catena.core.events import Event, is_tag
from catena.master.events.bus import EventBus
from catena.master.requests.rights import Caller, Right
from catena.master.requests.verb import verb


@dataclass(frozen=True, slots=True)
class EventHandlers:
    """One method per verb, which takes the caller and the request record."""

    bus: EventBus

    @verb(events.WATCH, Right.read_events)
    async def watch(self, caller: Caller, asked: EventWatch) -> AsyncIterator[Event]:
        """Follow events."""
        left = asked.count
        async for event in self.bus.subscribe(asked.tag, asked.after):
            yield event
            left -= 1
            if left == 0:
                return

    @verb(events.SEND, Right.send_events, repeats=True)
    async def send(self, caller: Caller, asked: EventSend) -> EventSent:
        """Fire an event."""
        if not is_tag(asked.tag):
            raise UsageError(f"{asked.tag[:80]!r} can't be an event's tag")
        return await self.bus.fire_once(
            caller.once, asked.tag, asked.data, lambda event: EventSent(event.seq)
        )
