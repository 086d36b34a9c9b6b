"""Order greetings and send them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlalchemy as sa

from catena.core.fsm import Actor
from catena.master.executions.engine import AgentStart
from catena.master.executions.ledger import EXECUTION_CYCLE, Ledger
from catena.master.executions.lifecycle import ExecutionEvent
from catena.master.executions.model import EventItem, Movable
from catena.master.process.clocks import ClockReading
from catena.master.requests.rights import Caller, Right
from catena.master.requests.verb import verb
from catena.master.store.database import Store
from tests.support.greetings import asks, rows
from tests.support.greetings.lifecycle import CYCLE, GreetingEvent, GreetingState


class GreetingService:
    """The verb of greetings, and what the start of an agent means to them."""

    def __init__(self, store: Store, clocks: Callable[[], ClockReading]) -> None:
        self._store = store
        self._clocks = clocks

    @verb(asks.ORDER, Right.run_jobs)
    async def order(self, caller: Caller, asked: asks.GreetingOrder) -> asks.GreetingOrdered:
        """Store a greeting that waits for its minion."""
        now = self._clocks()

        def store(conn: sa.Connection) -> asks.GreetingOrdered:
            run = rows.insert(conn, asked, caller.name, now.wall)
            subject = Movable(run, run, GreetingState.waiting.value)
            Ledger(conn, now, Actor.api, caller.name).note("run", subject, "ordered")
            return asks.GreetingOrdered(run)

        return await self._store.write(caller.once.wrap(store))

    def started(self, conn: sa.Connection, start: AgentStart) -> Sequence[EventItem]:
        """Say the greetings that wait for a minion."""
        now = self._clocks()
        ledger = Ledger(conn, now, Actor.agent, start.minion)
        ended = {"ended": now.wall}
        for run, execution, text in rows.waiting(conn).get(start.minion, ()):
            ledger.move(EXECUTION_CYCLE, execution.subject, ExecutionEvent.succeed, values=ended)
            ledger.move(CYCLE, run.subject, GreetingEvent.say, values=ended)
            ledger.events.append((f"greeting/{run.id}/said", {"id": start.minion, "text": text}))
        return ledger.events
