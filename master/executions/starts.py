"""Passes each agent's start event once, and in order, to the engines that need it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.core import failpoints
from catena.core.events import Event
from catena.master.events import rows as event_rows
from catena.master.events.bus import EventBus, NewEvent
from catena.master.executions.engine import AgentStart, Engine
from catena.master.store.database import Store, StoreUnavailableError

LOG = logging.getLogger(__name__)

#: Name of the stored position; named after chains for compatibility with older stores.
CURSOR = "chains"
#: Number of events without a start after which the position is saved.
UNSAVED = 1000
_TAG = "salt/minion/*/start"


class _Due(NamedTuple):
    """A start that changes rows of an engine."""

    engine: Engine[Any]
    start: AgentStart


class AgentStarts:
    """Follows the start events of agents.

    Args:
        store: of the master.
        bus: of the master.
        engines: in the order in which they receive a start.
    """

    def __init__(self, store: Store, bus: EventBus, engines: Iterable[Engine[Any]]) -> None:
        self._store = store
        self._bus = bus
        self._engines = tuple(engines)

    async def run(self) -> None:
        """Process start events until cancelled, including those since the master stopped."""
        saved = await self._bus.cursor(CURSOR)
        async for stretch in self._bus.follow((_TAG,), saved):
            if stretch.events:
                await self.take(stretch.events, stretch.upto)
            elif stretch.upto - saved < UNSAVED:
                continue
            else:
                # Save it: events after the stored position cannot be pruned.
                await self._bus.advance(CURSOR, stretch.upto)
            saved = stretch.upto

    async def take(self, events: Sequence[Event], upto: int) -> None:
        """Let engines store their consequences of start events, together with the new position.

        If an engine fails on an event, the error is logged and the engine skips the event: a run
        that waits for it fails at its deadline.

        Args:
            events: in order.
            upto: position up to which there are no other start events.

        Raises:
            StoreUnavailableError: nothing was stored; retry.
        """
        failpoints.hit("master.start.follow")
        starts = [start for start in map(_start, events) if start is not None]
        # Usually no engine is concerned, so the starts of a reconnecting fleet need no write.
        due = await self._store.read(partial(self._due, starts)) if starts else []
        while due:
            begun: list[int] = []
            try:
                await self._store.write(partial(self._record, due, upto, begun))
                return
            except StoreUnavailableError:
                raise
            except Exception:
                if not begun:
                    raise
                engine, start = due.pop(begun[-1])
                LOG.exception("%s can't take the start of %s", engine.name, start.minion)
        await self._bus.advance(CURSOR, upto)

    def _due(self, starts: Sequence[AgentStart], conn: sa.Connection) -> list[_Due]:
        return [
            _Due(engine, start)
            for engine in self._engines
            for start in engine.concerned(conn, starts)
        ]

    def _record(
        self, due: Sequence[_Due], upto: int, begun: list[int], conn: sa.Connection
    ) -> None:
        """Store all consequences; append to *begun* the indexes in *due* of processed starts."""
        for place, (engine, start) in enumerate(due):
            begun.append(place)
            items = engine.start_event(conn, start)
            self._bus.record_many(conn, [NewEvent(tag, data) for tag, data in items])
        event_rows.move_cursor(conn, CURSOR, upto)


def _start(event: Event) -> AgentStart | None:
    """Return the start in an event; None if minion or boot are missing."""
    minion, boot_id = event.data.get("id"), event.data.get("boot_id")
    # The master itself fires these events; an event of a minion has a source.
    if event.source or not isinstance(minion, str) or not isinstance(boot_id, str):
        return None
    pending = event.data.get("pending_resume")
    return AgentStart(minion, boot_id, pending if isinstance(pending, Mapping) else {})
