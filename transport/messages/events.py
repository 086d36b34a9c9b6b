"""A minion's own events."""

from __future__ import annotations

from typing import Any, Dict

from catena.core.frozen import dataclass


@dataclass(frozen=True)
class EventFired:
    """A minion's own event; resent until EventStored."""

    #: Unique per minion; used to drop duplicates.
    event_id: str
    tag: str
    data: Dict[str, Any]


@dataclass(frozen=True)
class EventStored:
    """The event is stored durably."""

    event_id: str
