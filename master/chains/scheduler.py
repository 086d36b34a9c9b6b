"""The scheduler of chains: starts what is due, fails what is overdue, clears what is over."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import sqlalchemy as sa

from catena.core.errors import CatenaError
from catena.core.job import Boundary
from catena.master.chains import cleanup, decide, dispatch, late_joins, rows
from catena.master.chains.decide import Due
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.fences import Fences
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import ChainEvent, ChainState
from catena.master.chains.model import ChainExecution, ChainRecord
from catena.master.chains.silence import Silence
from catena.master.chains.steps import each
from catena.master.process.clocks import ClockReading
from catena.master.store.execution_tables import CLOCKS, RUNS

LOG = logging.getLogger(__name__)

#: The longest sleep: a clock that was set is noticed within it.
TICK_SECONDS = 5.0
#: How often files and old chains are looked through.
SWEEP_SECONDS = 60.0

# Statements of each tick are built once: building one costs more than running it.
_SCHEDULED = sa.and_(
    RUNS.c.engine == sa.literal_column(f"'{rows.ENGINE}'"),
    RUNS.c.state == ChainState.scheduled.value,
    RUNS.c.ended.is_(None),
)
#: When the next chain is due after the last look.
_NEXT = sa.select(sa.func.min(RUNS.c.due)).where(_SCHEDULED, RUNS.c.due > sa.bindparam("b_looked"))
#: The first reading of both clocks in a boot.
_FIRST = sa.select(CLOCKS).where(CLOCKS.c.boot_id == sa.bindparam("b_boot"))
_BY_BOOT_CLOCK = RUNS.c.anchor_wall - RUNS.c.anchor_mono + sa.bindparam("b_mono", type_=sa.Double)
#: Chains that are due by either clock, and those that a clock set back would keep waiting.
_DUE = (
    rows.RUNNING_CHAINS.where(_SCHEDULED)
    .where(
        (RUNS.c.due <= sa.bindparam("b_latest"))
        | ((RUNS.c.anchor_boot == sa.bindparam("b_boot")) & (RUNS.c.due <= _BY_BOOT_CLOCK))
        | (RUNS.c.anchor_wall > sa.bindparam("b_wall"))
    )
    .order_by(RUNS.c.due, RUNS.c.id)
)

_OVERDUE = {
    Boundary.reboot: "the host did not come back with a new boot within {minutes:.0f} minutes",
    Boundary.agent_upgrade: "the new agent did not report within {minutes:.0f} minutes",
}


class Scheduler:
    """Runs beside the service; every decision is in `decide`, every move in the ledger."""

    def __init__(self, parts: ChainParts) -> None:
        self._parts = parts
        self._swept = -SWEEP_SECONDS
        self._anchored = False
        #: Wall clock of the last look at what is due.
        self._looked = 0.0
        self._fences = Fences(parts)
        self._silence = Silence(parts)

    async def run(self) -> None:
        """Tick until cancelled: at once when something changed, else when the next is due."""
        while True:
            self._parts.wake.clear()
            delay = TICK_SECONDS
            try:
                await self.tick()
                delay = await self._delay()
            except (CatenaError, OSError) as error:
                LOG.warning("chains: %s", error)
            try:
                # Not wait_for: on 3.11 it loses a cancellation that meets the wake.
                async with asyncio.timeout(delay):
                    await self._parts.wake.wait()
            except TimeoutError:
                continue

    async def tick(self) -> None:
        """Do everything that can be done now."""
        await self._anchor()
        await self._fail_overdue()
        # Before anything starts: a minion must not forget the run that follows the ended one.
        await self._fence()
        await self._start_due()
        await late_joins.join(self._parts)
        await cleanup.clear_files(self._parts)
        now = self._parts.clocks.read().mono
        if now - self._swept >= SWEEP_SECONDS:
            self._swept = now
            await self._silence.look()
            await cleanup.archive(self._parts)

    async def _delay(self) -> float:
        # What was due and could not be started has its time with the next tick, not at once.
        looked = {"b_looked": self._looked}
        due = await self._parts.store.read(lambda conn: conn.execute(_NEXT, looked).scalar())
        if due is None:
            return TICK_SECONDS
        return min(TICK_SECONDS, max(0.05, float(due) - self._parts.clocks.read().wall))

    # -- due chains ----------------------------------------------------------------------------

    async def _anchor(self) -> None:
        """Keep the first reading of both clocks in this boot."""
        if self._anchored:
            return
        now = self._parts.clocks.read()

        def keep(conn: sa.Connection) -> None:
            known = sa.select(CLOCKS.c.boot_id).where(CLOCKS.c.boot_id == now.boot)
            if conn.execute(known).first() is None:
                row = {"boot_id": now.boot, "wall": now.wall, "mono": now.mono}
                conn.execute(sa.insert(CLOCKS).values(row))

        await self._parts.store.write(keep)
        self._anchored = True

    async def _start_due(self) -> None:
        now = self._parts.clocks.read()
        self._looked = now.wall
        due = await self._parts.store.read(lambda conn: _due(conn, now))
        for row, anchor in due:
            verdict = decide.judge_due(row.due or 0.0, anchor, now, self._parts.rules.due)
            try:
                await self._act(row, verdict)
            except (CatenaError, OSError) as error:
                # It stays scheduled: the next tick asks again.
                LOG.warning("chain %d (%s) can't start now: %s", row.id, row.label, error)
            except Exception as error:  # noqa: BLE001  # the edge: it is logged and shown
                await self._give_up(row, error)

    async def _give_up(self, row: ChainRecord, error: Exception) -> None:
        """Fail a chain that meets a fault of ours: it would come again with every tick."""
        LOG.exception("chain %d (%s) can't be started", row.id, row.label)
        reason = f"the master could not start it ({error!r}); its log says where"
        await self._parts.change(lambda ledger: _reject(ledger, row, reason))

    async def _act(self, row: ChainRecord, verdict: decide.DueVerdict) -> None:
        if verdict.what is Due.fire:
            await dispatch.fire(self._parts, row.id)
        elif verdict.what is Due.hold:
            await self._parts.change(
                lambda ledger: ledger.move_chain(row, ChainEvent.hold, verdict.reason)
            )
        elif verdict.what is Due.reject:
            await self._parts.change(lambda ledger: _reject(ledger, row, verdict.reason))

    # -- boundaries ----------------------------------------------------------------------------

    async def _fail_overdue(self) -> None:
        waiting = await self._parts.store.read(rows.waiting_for_proof)
        now = self._parts.clocks.read()
        overdue = {
            (row.chain_id, row.minion): row
            for row in waiting
            if decide.boundary_overdue(
                rows.picked_up(row),
                now,
                self._parts.rules.boundary_seconds + row.delay_seconds,
            )
        }
        for row in overdue.values():
            what = f"an overdue boundary (chain {row.chain_id} on {row.minion})"
            await each(what, [row], lambda row: self._parts.change(partial(self._overdue, row)))

    def _overdue(self, row: ChainExecution, ledger: ChainLedger) -> None:
        found = rows.executions(ledger.conn, row.run, row.minion)
        facts = [rows.fact(execution) for execution in found]
        if not any(fact.action_id == row.action_id and fact.is_open for fact in facts):
            return
        minutes = self._parts.rules.boundary_seconds / 60
        text = _OVERDUE[Boundary(row.waits_for)].format(minutes=minutes)
        run = rows.on_minion(ledger.conn, row.run, row.minion)
        if run is not None and run.open:
            ledger.fence(run)
        ledger.apply(found, decide.fail_from(facts, row.action_id, text))
        ledger.settle(row.chain_id, (row.minion,))

    async def _fence(self) -> None:
        """Stop the jobs of runs that the master has ended, and have minions forget the runs."""
        for minion, fences in (await self._fences.owed()).items():
            await each(f"a run that {minion} has to forget", [fences], self._fences.act)


def _due(conn: sa.Connection, now: ClockReading) -> list[tuple[ChainRecord, ClockReading | None]]:
    """Return chains that are due by either clock, each with its `decide.anchor_of`."""
    kept = conn.execute(_FIRST, {"b_boot": now.boot}).first()
    first = ClockReading(kept.wall, kept.mono, kept.boot_id) if kept else None
    # What the wall clock would show, had nobody set it in this boot.
    unset = now.wall if first is None else first.wall + now.mono - first.mono
    clocks = {
        "b_latest": max(now.wall, unset),
        "b_wall": now.wall,
        "b_mono": now.mono,
        "b_boot": now.boot,
    }
    return [
        (row, decide.anchor_of(row.due or 0.0, row.scheduled, first, now))
        for row in rows.chains(conn, _DUE, clocks)
    ]


def _reject(ledger: ChainLedger, row: ChainRecord, reason: str) -> None:
    found = rows.executions(ledger.conn, row.run)
    ledger.apply(found, decide.fail_open([rows.fact(e) for e in found], reason))
    ledger.move_chain(row, ChainEvent.fail, reason)
