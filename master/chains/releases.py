"""Hands over jobs of chains that nothing holds back any more (`holds`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from functools import partial

import sqlalchemy as sa

from catena.core.chain_calls import START
from catena.master.chains import fence_rows, pause_rows, pauses, rows, run_job_rows
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.holds import ChainHolds
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import HANDED_OVER
from catena.master.chains.pause_rows import WorkJob


class Releases:
    """Looks for jobs that may be sent; asked with every tick of the scheduler."""

    def __init__(self, parts: ChainParts) -> None:
        self._parts = parts
        self._holds = ChainHolds.of(parts)
        #: Minions with a refused fence at the last look; None: nobody has looked yet.
        self._refused: frozenset[str] | None = None

    async def after_cleans(self, refused: Collection[str]) -> None:
        """Hand over starts whose clean-up has succeeded, or that have waited long enough.

        Args:
            refused: minions with a fence that they refuse.
        """
        before = self._refused
        if before is None:
            await self.lapsed()
        elif before or refused:
            await self.lapsed(before.union(refused))
        self._refused = frozenset(refused)

    async def lapsed(self, minions: Collection[str] = ()) -> None:
        """Hand over the jobs of *minions* that nothing holds back; (): of all minions.

        A resume that names no run may have been held back for the pause of a run that has ended
        since. The jobs of a run that has ended are not sent: its fences cancel them (`fences`).
        """
        if await self._parts.store.read(partial(self._free, minions)):
            await self._parts.change(partial(self._hand_over, minions))

    def _free(self, minions: Collection[str], conn: sa.Connection) -> list[WorkJob]:
        by_job: defaultdict[str, list[WorkJob]] = defaultdict(list)
        for work in pause_rows.paused_jobs(conn, minions):
            by_job[work.spec.jid].append(work)
        free = []
        # One query for all minions of a job: one for each minion would take minutes for a fleet.
        for jobs in by_job.values():
            held = self._holds.paused(conn, jobs[0].spec, [work.minion for work in jobs])
            free += [work for work in jobs if work.minion not in held and not _ended(conn, work)]
        return free

    def _hand_over(self, minions: Collection[str], ledger: ChainLedger) -> None:
        conn = ledger.conn
        found = self._free(minions, conn)
        starts = [work for work in found if work.spec.fun == START]
        # The wait for a clean-up counts from the order on, so it must not be renewed.
        pauses.hand_over(conn, self._parts, starts, prolong=False)
        pauses.hand_over(conn, self._parts, [work for work in found if work.spec.fun != START])
        for work in starts:
            run = rows.run_by_jid(conn, work.spec.jid, work.minion)
            if run is not None and run.open:
                over = bool(fence_rows.refused(conn, (work.minion,)))
                why = "it has waited long enough" if over else "the clean-up there is done"
                row = rows.chain(conn, run.chain_id)
                ledger.note_chain(row, HANDED_OVER, f"to {work.minion}: {why}", work.minion)


def _ended(conn: sa.Connection, work: WorkJob) -> bool:
    """Return whether the job's run has ended, so that the fence there cancels the job."""
    run = run_job_rows.run_of(conn, work.spec.jid, work.minion)
    return run is not None and fence_rows.is_pending(conn, run, work.minion)
