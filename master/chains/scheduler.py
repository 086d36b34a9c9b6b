"""The scheduler of chains: starts what is due, fails what is overdue, clears what is over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import sqlalchemy as sa

from catena.core import failpoints
from catena.core.errors import CatenaError, NotFoundError
from catena.core.job import Boundary
from catena.master.chains import cleanup, decide, dispatch, late, rows
from catena.master.chains.decide import Due
from catena.master.chains.ledger import Ledger
from catena.master.chains.lifecycle import ChainEvent, ChainState, ExecutionState
from catena.master.chains.parts import ChainParts
from catena.master.chains.results import CLEAN, RESUME, START
from catena.master.clocks import ClockReading
from catena.master.jobs.delivery import OPEN
from catena.master.jobs.model import JobRequest, Submitted
from catena.master.store.chain_tables import CHAINS, CLOCKS, EXECUTIONS, HISTORY, RUNS
from catena.master.store.database import StoreUnavailableError
from catena.master.store.tables import DELIVERIES, JOBS

LOG = logging.getLogger(__name__)

#: The longest sleep: a clock that was set is noticed within it.
TICK_SECONDS = 5.0
#: How often files and old chains are looked through.
SWEEP_SECONDS = 60.0

#: A run, and the row of history that its minion wrote last.
_Heard = tuple[int, int, str, int]

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
        #: Runs of which nothing is to be expected -> since when, seconds since boot.
        self._silent: dict[_Heard, float] = {}

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
        await late.join(self._parts)
        await cleanup.clear_files(self._parts)
        now = self._parts.clocks.read().mono
        if now - self._swept >= SWEEP_SECONDS:
            self._swept = now
            await self._lose_silent()
            await cleanup.archive(self._parts)

    async def _delay(self) -> float:
        # What was due and could not be started has its time with the next tick, not at once.
        query = sa.select(sa.func.min(CHAINS.c.due)).where(
            CHAINS.c.state == ChainState.scheduled.value, CHAINS.c.due > self._looked
        )
        due = await self._parts.store.read(lambda conn: conn.execute(query).scalar())
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
            verdict = decide.judge_due(row.due, anchor, now, self._parts.rules.due)
            try:
                await self._act(row, verdict)
            except (CatenaError, OSError) as error:
                # It stays scheduled: the next tick asks again.
                LOG.warning("chain %d (%s) can't start now: %s", row.id, row.label, error)
            except Exception as error:  # noqa: BLE001  # the edge: it is logged and shown
                await self._give_up(row, error)

    async def _give_up(self, row: sa.Row[Any], error: Exception) -> None:
        """Fail a chain that meets a fault of ours: it would come again with every tick."""
        LOG.exception("chain %d (%s) can't be started", row.id, row.label)
        reason = f"the master could not start it ({error!r}); its log says where"
        await self._parts.change(lambda ledger: _reject(ledger, row, reason))

    async def _act(self, row: sa.Row[Any], verdict: decide.DueVerdict) -> None:
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
        waiting = await self._parts.store.read(_waiting)
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
        await _each(
            "a boundary that is overdue",
            overdue.values(),
            lambda row: self._parts.change(partial(self._overdue, row)),
        )

    def _overdue(self, row: sa.Row[Any], ledger: Ledger) -> None:
        found = rows.executions(ledger.conn, row.chain_id, row.minion, row.epoch)
        facts = [rows.fact(execution) for execution in found]
        if not any(fact.action_id == row.action_id and fact.is_open for fact in facts):
            return
        minutes = self._parts.rules.boundary_seconds / 60
        text = _OVERDUE[Boundary(row.waits_for)].format(minutes=minutes)
        fence(ledger.conn, row.chain_id, row.epoch, row.minion)
        ledger.apply(found, decide.fail_from(facts, row.action_id, text), "")
        ledger.settle(row.chain_id, (row.minion,))

    async def _fence(self) -> None:
        """Stop the jobs of runs that the master has ended, and have minions forget the runs."""
        query = sa.select(RUNS).where(RUNS.c.fence == sa.true())
        found = await self._parts.store.read(lambda conn: conn.execute(query).all())
        await _each("a run that is to be forgotten", found, self._stop)

    async def _stop(self, run: sa.Row[Any]) -> None:
        jids = await self._parts.store.read(partial(_open_jobs, run))
        for jid in jids:
            reason = f"chain {run.chain_id} has ended"
            await self._parts.jobs.cancel(jid, (run.minion,), reason=reason)
        await self._tell(run)

    async def _tell(self, run: sa.Row[Any]) -> None:
        failpoints.hit("master.chain.fence")
        rule = rows.of_run(RUNS, run)

        def told(conn: sa.Connection, _: Submitted | None) -> None:
            conn.execute(sa.update(RUNS).where(rule).values(fence=False))

        request = JobRequest(
            user="root",
            fun=CLEAN,
            kwargs={"actionchain_id": run.chain_id},
            minions=(run.minion,),
            metadata={"chain": run.chain_id, "epoch": run.epoch},
        )
        try:
            await self._parts.jobs.submit(request, told)
        except NotFoundError:
            # A minion whose key is gone can't be told, and can't report either.
            await self._parts.store.write(lambda conn: told(conn, None))

    async def _lose_silent(self) -> None:
        """Give up runs that are silent for too long, by the clock that nobody can set."""
        now = self._parts.clocks.read().mono
        silent = await self._parts.store.read(_silent)
        # A master that was restarted begins to count again.
        self._silent = {key: self._silent.get(key, now) for key in silent}
        patience = self._parts.rules.silent_seconds
        lost = [run for key, run in silent.items() if now - self._silent[key] > patience]
        await _each("a silent run", lost, lambda run: self._parts.change(partial(_lose, run)))


async def _each(
    what: str, items: Iterable[sa.Row[Any]], act: Callable[[sa.Row[Any]], Awaitable[Any]]
) -> None:
    """Do *act* for each item; a fault of one stops that one, until the next tick.

    Raises:
        StoreUnavailableError: nothing can be done for any of them now.
    """
    for item in items:
        try:
            await act(item)
        except StoreUnavailableError:
            raise
        except (CatenaError, OSError) as error:
            LOG.warning("%s (chain %d on %s): %s", what, item.chain_id, item.minion, error)
        except Exception:
            LOG.exception("%s (chain %d on %s)", what, item.chain_id, item.minion)


def fence(conn: sa.Connection, chain_id: int, epoch: int, minion: str) -> None:
    """Have the scheduler tell *minion* that a run is over."""
    rule = (RUNS.c.chain_id == chain_id) & (RUNS.c.epoch == epoch) & (RUNS.c.minion == minion)
    conn.execute(sa.update(RUNS).where(rule).values(fence=True))


def _due(conn: sa.Connection, now: ClockReading) -> list[tuple[sa.Row[Any], ClockReading | None]]:
    """Return chains that are due by either clock, each with its `decide.anchor_of`."""
    kept = conn.execute(sa.select(CLOCKS).where(CLOCKS.c.boot_id == now.boot)).first()
    first = ClockReading(kept.wall, kept.mono, kept.boot_id) if kept else None
    # What the wall clock would show, had nobody set it in this boot.
    unset = now.wall if first is None else first.wall + now.mono - first.mono
    by_boot_clock = CHAINS.c.anchor_wall - CHAINS.c.anchor_mono + now.mono
    query = (
        sa.select(CHAINS)
        .where(CHAINS.c.state == ChainState.scheduled.value)
        .where(
            (CHAINS.c.due <= max(now.wall, unset))
            | ((CHAINS.c.anchor_boot == now.boot) & (CHAINS.c.due <= by_boot_clock))
            | (CHAINS.c.anchor_wall > now.wall)
        )
        .order_by(CHAINS.c.due, CHAINS.c.id)
    )
    found: list[tuple[sa.Row[Any], ClockReading | None]] = []
    for row in conn.execute(query).all():
        scheduled = ClockReading(row.anchor_wall, row.anchor_mono, row.anchor_boot)
        found.append((row, decide.anchor_of(row.due, scheduled, first, now)))
    return found


def _reject(ledger: Ledger, row: sa.Row[Any], reason: str) -> None:
    found = rows.executions(ledger.conn, row.id, epoch=row.epoch)
    ledger.apply(found, decide.fail_open([rows.fact(e) for e in found], reason), "")
    ledger.move_chain(row, ChainEvent.fail, reason)


def _waiting(conn: sa.Connection) -> list[Any]:
    query = sa.select(EXECUTIONS).where(
        EXECUTIONS.c.state == ExecutionState.RUNNING.value, EXECUTIONS.c.picked_up.is_not(None)
    )
    return list(conn.execute(query.order_by(EXECUTIONS.c.sort_order.desc())).all())


def _open_jobs(run: sa.Row[Any], conn: sa.Connection) -> list[str]:
    """Return the jobs that start or resume a run on its minion and have not ended.

    A resume names no chain; one that is under way is of the run that has begun.
    """
    query = (
        sa.select(DELIVERIES.c.jid, JOBS.c.fun)
        .join(JOBS, JOBS.c.jid == DELIVERIES.c.jid)
        .where(DELIVERIES.c.minion == run.minion)
        .where(DELIVERIES.c.state.in_([state.value for state in OPEN]))
        .where(JOBS.c.fun.in_((START, RESUME)))
    )
    return [
        row.jid
        for row in conn.execute(query)
        if row.jid == run.jid or (row.fun == RESUME and row.jid > run.jid)
    ]


def _silent(conn: sa.Connection) -> dict[_Heard, Any]:
    """Return open runs whose job is over and that wait for nothing, by the last word of each."""
    silent: dict[_Heard, Any] = {}
    open_states = [state.value for state in OPEN]
    for run in rows.open_runs(conn):
        busy = (
            sa.select(DELIVERIES.c.jid)
            .join(JOBS, JOBS.c.jid == DELIVERIES.c.jid)
            .where(DELIVERIES.c.minion == run.minion, DELIVERIES.c.state.in_(open_states))
            .where(JOBS.c.fun.in_((START, RESUME)))
        )
        heard = sa.select(sa.func.max(HISTORY.c.id)).where(
            HISTORY.c.chain_id == run.chain_id,
            HISTORY.c.minion == run.minion,
            HISTORY.c.subject == "action",
        )
        if conn.execute(busy).first():
            continue
        found = rows.executions(conn, run.chain_id, run.minion, run.epoch)
        if not any(rows.fact(e).is_open and e.picked_up is not None for e in found):
            last = int(conn.execute(heard).scalar() or 0)
            silent[run.chain_id, run.epoch, run.minion, last] = run
    return silent


def _lose(run: sa.Row[Any], ledger: Ledger) -> None:
    found = rows.executions(ledger.conn, run.chain_id, run.minion, run.epoch)
    fence(ledger.conn, run.chain_id, run.epoch, run.minion)
    ledger.apply(found, decide.lose_open([rows.fact(e) for e in found]), "")
    ledger.settle(run.chain_id, (run.minion,))
