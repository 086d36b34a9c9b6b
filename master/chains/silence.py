"""Gives up runs of which nothing more is to be expected.

Such a run has open actions, no job works on it, it waits for no reboot or new agent, and nobody
has paused it. That comes when a report of its minion was lost, or when the minion no longer knows
the run. How long it has been so is counted by the clock that nobody can set.
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

#: A run, whether its minion has disowned it, and the row of history that the minion wrote last.
_Heard = tuple[int, int, str, bool, int]


class Silence:
    """Looks for silent runs; asked from time to time."""

    def __init__(self, parts: ChainParts) -> None:
        self._parts = parts
        #: Silent runs -> since when, seconds since boot.
        self._since: dict[_Heard, float] = {}

    async def look(self) -> None:
        """Give up the runs that have been silent for too long.

        A run that its minion does not know gets a shorter time: its results may still be on their
        way, overtaken by the word that nothing waits.
        """
        now = self._parts.clocks.read().mono
        silent = await self._parts.store.read(_silent)
        # A master that was restarted begins to count again.
        self._since = {key: self._since.get(key, now) for key in silent}
        rules = self._parts.rules
        for key, run in silent.items():
            patience = rules.disowned_seconds if run.disowned else rules.silent_seconds
            if now - self._since[key] > patience:
                what = f"a silent run (chain {run.chain_id} on {run.minion})"
                await each(what, [run], lambda run: self._parts.change(partial(_lose, run)))


def _silent(conn: sa.Connection) -> dict[_Heard, ChainMinion]:
    """Return open runs on which no job works and that wait for no boundary."""
    silent: dict[_Heard, ChainMinion] = {}
    for run in rows.open_runs(conn):
        # Most runs: the job that started them is at work.
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
