"""The master's events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass, field
from catena.core.lazy import LazyModule

if TYPE_CHECKING:
    from catena.client.replies import events as replies
else:
    replies = LazyModule("catena.client.replies.events")


@dataclass(frozen=True)
class EventWatch:
    """Events by tag glob. The items are `core.events.Event`."""

    tag: str = "*"
    #: Position after which to start; -1: only new events.
    after: int = -1
    #: Number of events after which to end; 0: unlimited.
    count: int = 0


@dataclass(frozen=True)
class EventSend:
    """Put an event on the bus as the calling user."""

    tag: str
    data: Dict[str, Any] = field(default_factory=dict)


WATCH = Ask(
    "event.watch",
    EventWatch,
    lambda: replies.NoneType,
    streams=lambda: (replies.Event,),
    idempotent=True,
)
SEND = Ask("event.send", EventSend, lambda: replies.EventSent)
