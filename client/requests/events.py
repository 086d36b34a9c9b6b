"""The master's events."""

from __future__ import annotations

from typing import Any, Dict

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass, field


@dataclass(frozen=True)
class EventWatch:
    """Events by tag glob. -> stream of {seq, tag, data, stamp, source}."""

    tag: str = "*"
    #: First event after this position; -1: only new ones.
    after: int = -1
    #: End after this many; 0: never.
    count: int = 0


@dataclass(frozen=True)
class EventSend:
    """Put an event on the bus as the calling user."""

    tag: str
    data: Dict[str, Any] = field(default_factory=dict)


WATCH = Ask("event.watch", EventWatch, dict, streams=(dict,), idempotent=True)
SEND = Ask("event.send", EventSend, dict)
