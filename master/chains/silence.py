"""Gives up silent runs: runs about which no further report can be expected.

A silent run has open actions, no job works on it, it waits for no reboot or new agent, and it is
not paused. The reason is a lost report, or a minion that no longer knows the run. The time of
silence is measured by the monotonic clock.
"""

from __future__ import annotations

from functools import partial

import sqlalchemy as sa

from catena.core.run_ref import RunRef
from catena.master.chains import decide, rows, run_job_rows
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.model import ChainMinion
from catena.master.chains.steps import each
from catena.master.executions import pauses

#: Chain id, epoch, minion, whether the minion disowned the run, id of the last history row.
_Key = tuple[int, int, str, bool, int]


class Silence:
    """Looks for silent runs; the scheduler calls it from time to time."""

    def __init__(self, parts: ChainParts) -> None:
        self._parts = parts
        #: Silent run -> when it was first seen so, seconds on the monotonic clock.
        self._since: dict[_Key, float] = {}

    async def look(self) -> None:
        """Give up the runs that have been silent for too long.

        A run that its minion disowned gets a shorter time, not none: the disowning report may have
        overtaken the run's results.
        """
        now = self._parts.clocks.read().mono
        silent = await self._parts.store.read(_silent)
        # Keep only runs that are still silent. The times begin anew when the master restarts.
        self._since = {key: self._since.get(key, now) for key in silent}
        rules = self._parts.rules
        for key, run in silent.items():
            allowed = rules.disowned_seconds if run.disowned else rules.silent_seconds
            if now - self._since[key] > allowed:
                what = f"giving up a silent run (chain {run.chain_id} on {run.minion})"
                await each(what, [run], lambda run: self._parts.change(partial(_lose, run)))


def _silent(conn: sa.Connection) -> dict[_Key, ChainMinion]:
    """Return open runs on which no job works and that wait for no boundary."""
    silent: dict[_Key, ChainMinion] = {}
    for run in rows.open_runs(conn):
        # The usual case, and the cheapest check: the job that started the run is open.
        if run_job_rows.is_open(conn, run.jid, run.minion):
            continue
        jobs = run_job_rows.open_jobs(conn, run.minion)
        if run_job_rows.is_worked_on(RunRef(run.chain_id, run.epoch), jobs):
            continue
        if not run.disowned and pauses.on(pauses.of_run(conn, run.run), run.minion):
            continue
        found = rows.executions(conn, run.run, run.minion)
        waits = any(rows.fact(e).is_open and e.picked_up is not None for e in found)
        if run.disowned or not waits:
            last = rows.last_noted(conn, found)
            silent[run.chain_id, run.epoch, run.minion, bool(run.disowned), last] = run
    return silent


def _lose(run: ChainMinion, ledger: ChainLedger) -> None:
    found = rows.executions(ledger.conn, run.run, run.minion)
    ledger.fence(run)
    facts = [rows.fact(execution) for execution in found]
    ledger.apply(found, decide.lose_open(facts, run.disowned or decide.NO_RETURN))
    ledger.settle(run.chain_id, (run.minion,))
