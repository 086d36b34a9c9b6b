"""Order greetings and send them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import sqlalchemy as sa

from catena.core.fsm import Actor
from catena.master.executions import approvals
from catena.master.executions import rows as execution_rows
from catena.master.executions.approval_rules import ApprovalState
from catena.master.executions.approvals import Unapproved
from catena.master.executions.engine import AgentStart
from catena.master.executions.ledger import EXECUTION_CYCLE, Ledger
from catena.master.executions.lifecycle import ExecutionEvent
from catena.master.executions.model import EventItem, Movable, Run
from catena.master.process.clocks import ClockReading
from catena.master.requests.rights import Caller, Right
from catena.master.requests.verb import verb
from catena.master.store.database import Store
from tests.support.greetings import asks, rows
from tests.support.greetings.lifecycle import CYCLE, GreetingEvent, GreetingState

_GRANTED = ApprovalState.granted


def content(text: str) -> str:
    """Return the hash of what is to be said."""
    return hashlib.sha256(text.encode()).hexdigest()


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
            limited = asked.approval_seconds > 0
            state = GreetingState.asked if limited else GreetingState.waiting
            run = rows.insert(conn, asked, caller.name, now, state)
            ledger = Ledger(conn, now, Actor.api, caller.name)
            ledger.note("run", Movable(run, run, state.value), "ordered")
            if limited:
                expires = now.wall + asked.approval_seconds
                mine = content(asked.text)
                approvals.ask(ledger, run, mine, excluded=(caller.name,), expires=expires)
            return asks.GreetingOrdered(run)

        return await self._store.write(caller.once.wrap(store))

    async def approve(self, run: int, text: str, who: str) -> None:
        """Approve the *text* that somebody saw; the greeting then waits for its minion."""
        now = self._clocks()

        def store(conn: sa.Connection) -> None:
            ledger = Ledger(conn, now, Actor.api, who)
            found = execution_rows.run(conn, run)
            assert found is not None and found.approval is not None
            if approvals.grant(ledger, found.approval, content(text)) is not _GRANTED:
                return
            unit = rows.execution(conn, run)
            ledger.move(EXECUTION_CYCLE, unit.subject, ExecutionEvent.approve)
            ledger.move(CYCLE, found.subject, GreetingEvent.approve)
            system = Ledger(conn, now)
            agreed = Movable(run, run, GreetingState.agreed.value)
            system.move(CYCLE, agreed, GreetingEvent.begin)
            unit = rows.execution(conn, run)
            system.move(EXECUTION_CYCLE, unit.subject, ExecutionEvent.dispatch)

        await self._store.write(store)

    async def refuse(self, run: int, reason: str, who: str, engines: Unapproved) -> None:
        """Refuse a greeting, which ends it."""
        now = self._clocks()

        def store(conn: sa.Connection) -> None:
            found = execution_rows.run(conn, run)
            assert found is not None and found.approval is not None
            ledger = Ledger(conn, now, Actor.api, who)
            approvals.refuse(ledger, found.approval, reason, engines)

        await self._store.write(store)

    @staticmethod
    def drop(ledger: Ledger, run: Run, reason: str) -> Sequence[EventItem]:
        """End a greeting that nobody approved."""
        ended = {"ended": ledger.now.wall, "reason": reason}
        unit = rows.execution(ledger.conn, run.id)
        ledger.move(EXECUTION_CYCLE, unit.subject, ExecutionEvent.cancel, reason, values=ended)
        ledger.move(CYCLE, run.subject, GreetingEvent.drop, reason, values=ended)
        return [(f"greeting/{run.id}/dropped", {"reason": reason})]

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
