"""Replies about events."""

from __future__ import annotations

from catena.core.events import Event
from catena.core.frozen import dataclass


@dataclass(frozen=True)
class EventSent:
    """The position at which an event was stored."""

    #: Position in the master's event table.
    seq: int


NoneType = type(None)

__all__ = ["Event", "EventSent", "NoneType"]
