"""Renderings that begin while their event is on its way to the disk.

What a file renders to is decided by the tag, data and stamp of the event, which are known before
it is stored. So a worker process renders while the disk writes; performed is nothing before the
event is there. A fifth of the time from an event to its effect was this wait.

What a template itself does, by calling functions that change something, it may so have done to an
event that was then not stored, of which the sender is told. It may do it again after a crash
anyway, and where nothing is stored at all, as in Salt, it always goes before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catena.core.events import Event
from catena.reactors.reaction import Reaction

#: Renders a file to an event's tag and data (`engine.SlsRenderer.render`).
Render = Callable[[str, str, Mapping[str, Any]], Awaitable[Sequence[Reaction]]]


@dataclass(frozen=True, slots=True)
class _Begun:
    """A rendering, and what it is of; its event has no position yet."""

    event: Event
    file: str
    stored: asyncio.Future[Event]
    task: asyncio.Future[Sequence[Reaction]]

    def is_of(self, event: Event, file: str) -> bool:
        """Return whether it renders *file* to exactly what *event* says.

        What has come back from the store may say it otherwise: a list where a tuple was.
        """
        mine = self.event
        return (
            file == self.file
            and (event.tag, event.stamp, event.source) == (mine.tag, mine.stamp, mine.source)
            and event.data == mine.data
        )

    def is_to_come(self, event: Event) -> bool:
        """Return whether its event stands behind *event*, as far as is known."""
        stored = self.stored
        if not stored.done() or stored.cancelled() or stored.exception() is not None:
            return True
        return stored.result().seq > event.seq


def seen_by_files(event: Event) -> Mapping[str, Any]:
    """Return `data` as reactor files see it, and as Salt's have it."""
    return {**event.data, "_stamp": event.stamp}


class EarlyRenderings:
    """At most one in each lane, so that a lane's events are rendered in their order.

    Args:
        render: renders a file.
        limit: of renderings that nobody has asked for yet.
    """

    def __init__(self, render: Render, limit: int) -> None:
        self._render = render
        self._limit = limit
        self._begun: dict[Hashable, _Begun] = {}

    def begin(
        self, lane: Hashable, event: Event, file: str, stored: asyncio.Future[Event]
    ) -> None:
        """Begin to render *file* to *event*, if that lane has nothing begun.

        Args:
            lane: of the events that are handled one after the other.
            event: what is being stored; its position is not known.
            file: the first that is to be rendered.
            stored: done when it is there; what it was begun for never comes when that fails, or
                gives an event without a position.
        """
        if lane in self._begun or len(self._begun) >= self._limit:
            return
        rendering = self._render(file, event.tag, seen_by_files(event))
        task: asyncio.Future[Sequence[Reaction]] = asyncio.ensure_future(rendering)
        # Retrieve the exception here: a rendering that is never taken would log it as unhandled.
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        begun = self._begun[lane] = _Begun(event, file, stored, task)
        stored.add_done_callback(lambda done: self._settle(lane, begun, done))

    def _settle(self, lane: Hashable, begun: _Begun, stored: asyncio.Future[Event]) -> None:
        failed = stored.cancelled() or stored.exception() is not None
        # An event without a position is a repeated request; it was stored before.
        never_comes = failed or stored.result().seq == 0
        if never_comes and self._begun.get(lane) is begun:
            del self._begun[lane]

    def take(
        self, lane: Hashable, event: Event, file: str
    ) -> asyncio.Future[Sequence[Reaction]] | None:
        """Return the rendering of *file* to *event* that was begun; None: there is none.

        One whose turn has come is kept no longer, whether it can be used or not: the lane is free.
        """
        begun = self._begun.get(lane)
        if begun is None or begun.is_to_come(event):
            return None
        del self._begun[lane]
        return begun.task if begun.is_of(event, file) else None

    def clear(self) -> None:
        """Forget all; what runs ends for nobody."""
        self._begun.clear()
