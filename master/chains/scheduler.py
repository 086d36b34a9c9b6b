"""The scheduler of chains: starts due chains, fails overdue boundaries, cleans up ended chains."""

from __future__ import annotations

import logging
from functools import partial

from catena.core.errors import CatenaError
from catena.core.job import Boundary
from catena.master.chains import cleanup, decide, dispatch, late_joins, rows
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.fence_rules import Fence
from catena.master.chains.fences import Fences
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import ChainEvent, ChainState
from catena.master.chains.model import ChainExecution, ChainRecord
from catena.master.chains.releases import Releases
from catena.master.chains.silence import Silence
from catena.master.chains.steps import each, several
from catena.master.executions import due
from catena.master.executions.due import Due, DueRuns, DueVerdict
from catena.master.executions.due_rows import Scheduled
from catena.master.executions.ledger import ConflictError
from catena.master.executions.model import Run

LOG = logging.getLogger(__name__)

#: Interval between searches for silent runs, lapsed pauses and old chains.
SWEEP_SECONDS = 60.0

_OVERDUE = {
    Boundary.reboot: "the host did not come back with a new boot within {minutes:.0f} minutes",
    Boundary.agent_upgrade: "the new agent did not report within {minutes:.0f} minutes",
}


class Scheduler:
    """Acts on chains without a request; `decide` decides, and the ledger stores each move."""

    def __init__(self, parts: ChainParts) -> None:
        self._parts = parts
        self._swept = -SWEEP_SECONDS
        scheduled = Scheduled(rows.ENGINE, ChainState.scheduled.value)
        self._due = DueRuns(parts.store, parts.clocks.read, scheduled, parts.rules.due)
        self._fences = Fences(parts)
        self._releases = Releases(parts)
        self._silence = Silence(parts)

    async def run(self) -> None:
        """Tick until cancelled: at once after a change, otherwise when the next chain is due."""
        await due.repeat(rows.ENGINE, self._parts.wake, self.tick, self._due.pause)

    async def tick(self) -> None:
        """Do everything that can be done now.

        A failure of one step is logged and does not stop the others.

        Raises:
            StoreUnavailableError: the store is down, so no step can succeed now.
        """
        parts = (self._parts,)
        await self._fail_overdue()
        # Fence before starting: otherwise a minion could remove the new run, not the ended one.
        await self._fence()
        await self._start_due()
        await each("letting hosts join their chains", parts, late_joins.join)
        await each("removing files of ended chains", parts, cleanup.clear_files)
        now = self._parts.clocks.read().mono
        if now - self._swept >= SWEEP_SECONDS:
            self._swept = now
            await self._silence.look()
            await self._releases.lapsed()
            await each("archiving chains", parts, cleanup.archive)

    # -- due chains ----------------------------------------------------------------------------

    async def _start_due(self) -> None:
        found = await self._due.look()
        delays = self._parts.delays
        for chain_id in delays.keys() - {int(run.ref) for run, _ in found}:
            del delays[chain_id]
        for run, verdict in found:
            try:
                await self._act(run, verdict)
            except (CatenaError, OSError) as error:
                # The chain stays scheduled, so the next tick retries.
                LOG.warning("chain %s (%s) can't start now: %s", run.ref, run.label, error)
                delays[int(run.ref)] = str(error)
            except Exception as error:  # noqa: BLE001  # the edge: it is logged and shown
                await self._give_up(run, error)

    async def _give_up(self, run: Run, error: Exception) -> None:
        """Fail a chain whose start raised an unexpected error, which a retry would raise again."""
        LOG.exception("chain %s (%s) can't be started", run.ref, run.label)
        reason = f"the master could not start it ({error!r}); see the master's log"
        await self._parts.change(lambda ledger: _reject(ledger, run, reason))

    async def _act(self, run: Run, verdict: DueVerdict) -> None:
        if verdict.what is Due.fire:
            await dispatch.fire(self._parts, int(run.ref))
        elif verdict.what is Due.hold:
            await self._parts.change(lambda ledger: _hold(ledger, run, verdict.reason))
        elif verdict.what is Due.reject:
            await self._parts.change(lambda ledger: _reject(ledger, run, verdict.reason))

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
            what = f"failing an overdue boundary (chain {row.chain_id} on {row.minion})"
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
        """Stop the jobs of ended runs, make minions remove the runs, and send held starts."""
        pending = await self._fences.pending()
        # A cancelled fleet has one fence per minion; one transaction for each would take seconds.
        await several(list(pending.values()), self._fence_minion)
        refused = {name for name, some in pending.items() if any(f.refused for f in some)}
        await self._releases.after_cleans(refused)

    async def _fence_minion(self, fences: list[Fence]) -> None:
        await each(f"removing ended runs from {fences[0].minion}", [fences], self._fences.act)


def _hold(ledger: ChainLedger, run: Run, reason: str) -> None:
    ledger.move_chain(_chain_of(ledger, run), ChainEvent.hold, reason)


def _reject(ledger: ChainLedger, run: Run, reason: str) -> None:
    chain = _chain_of(ledger, run)
    found = rows.executions(ledger.conn, run.id)
    ledger.apply(found, decide.fail_open([rows.fact(e) for e in found], reason))
    ledger.move_chain(chain, ChainEvent.fail, reason)


def _chain_of(ledger: ChainLedger, run: Run) -> ChainRecord:
    """Return the chain of a run that has not changed since it was read.

    Raises:
        ConflictError: the chain has another run now, or the run is in another state.
    """
    chain = rows.chain(ledger.conn, int(run.ref))
    if chain.subject != run.subject:
        raise ConflictError
    return chain
