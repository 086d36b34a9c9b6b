"""Ends approvals that nobody gave in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import sqlalchemy as sa

from catena.core.errors import CatenaError
from catena.master.events.bus import EventBus
from catena.master.executions import approval_rows, approval_rules, approvals, due
from catena.master.executions.approval_rows import Expiring
from catena.master.executions.approvals import Unapproved
from catena.master.executions.due import DueStore
from catena.master.executions.ledger import Ledger
from catena.master.process.clocks import ClockReading

LOG = logging.getLogger(__name__)


class ApprovalDeadlines:
    """Expires approvals when their time is over, and with them the runs that waited.

    Args:
        store: of the master.
        clocks: reads both clocks.
        engines: end the runs.
        bus: stores events in the running transaction.
    """

    def __init__(
        self,
        store: DueStore,
        clocks: Callable[[], ClockReading],
        engines: Unapproved,
        bus: EventBus,
    ) -> None:
        self._store = store
        self._clocks = clocks
        self._engines = engines
        self._bus = bus

    async def run(self) -> None:
        """Look until cancelled, whenever the next approval expires."""
        await due.repeat("approvals", asyncio.Event(), self.tick, self.pause)

    async def tick(self) -> None:
        """Expire every approval whose time is over, each in a transaction of its own."""
        now = self._clocks()
        for each in await self._store.read(approval_rows.expiring):
            if approval_rules.is_over(each.approval.expires, each.asked, now):
                try:
                    await self._expire(each)
                except CatenaError as error:
                    # The next look repeats it; meanwhile the others must not wait.
                    LOG.warning("approval %d can't expire now: %s", each.approval.id, error)

    async def pause(self) -> float:
        """Return how many seconds `run` may sleep."""
        expires = await self._store.read(approval_rows.next_expiry)
        return due.pause(expires, self._clocks().wall)

    async def _expire(self, each: Expiring) -> None:
        def write(conn: sa.Connection) -> None:
            ledger = Ledger(conn, self._clocks())
            approvals.expire(ledger, each.approval.id, self._engines)
            for tag, data in ledger.events:
                self._bus.record(conn, tag, data)

        await self._store.write(write)
