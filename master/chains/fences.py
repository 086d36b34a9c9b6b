"""Stops the jobs of runs that have ended on the master, and makes minions remove the runs.

A fence is such a run until its minion has confirmed the removal.
"""

from __future__ import annotations

from functools import partial

import sqlalchemy as sa

from catena.core import failpoints
from catena.core.chain_calls import CLEAN
from catena.core.errors import NotFoundError
from catena.core.job import FunctionCall
from catena.core.run_ref import RunRef
from catena.master.chains import fence_rows, fence_rules, run_job_rows
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.fence_rules import Fence, FenceStep
from catena.master.chains.ledger import ChainLedger
from catena.master.jobs.model import JobRequest, Submitted

#: A fence, and the number of its failures.
_Failure = tuple[str, RunRef, int]


class Fences:
    """Makes minions remove runs, by one job per minion at a time; waits longer after a failure."""

    def __init__(self, parts: ChainParts) -> None:
        self._parts = parts
        #: Failure -> when it was first seen, seconds on the monotonic clock.
        self._since: dict[_Failure, float] = {}
        #: Minions with a fence on which a job starts or resumes some run, at the last look.
        self._busy: set[str] = set()

    async def pending(self) -> dict[str, list[Fence]]:
        """Return minion -> its fences; remember since when each failed one waits."""

        def read(conn: sa.Connection) -> tuple[dict[str, list[Fence]], set[str]]:
            fences = fence_rows.pending(conn)
            return fences, run_job_rows.with_open_jobs(conn, fences)

        if await self._parts.store.read(fence_rows.unanswered):
            await self._parts.change(fence_rows.fail_unanswered)
        found, self._busy = await self._parts.store.read(read)
        now = self._parts.clocks.read().mono
        failures = [_failure(fence) for some in found.values() for fence in some if fence.tries]
        self._since = {key: self._since.get(key, now) for key in failures}
        return found

    async def act(self, fences: list[Fence]) -> None:
        """Stop the jobs of one minion's fences; send a removal job if the wait is over."""
        now = self._parts.clocks.read().mono
        waited = {
            (fence.minion, fence.run): now - self._since.get(_failure(fence), now)
            for fence in fences
        }
        for fence, step in fence_rules.steps(fences, waited):
            if fence.minion in self._busy:
                await self._stop_jobs(fence)
            if step is FenceStep.drop:
                await self._parts.change(partial(_drop, fence))
            elif step is FenceStep.send:
                await self._send(fence)

    async def _stop_jobs(self, fence: Fence) -> None:
        def read(conn: sa.Connection) -> list[str]:
            return run_job_rows.to_stop(fence.run, run_job_rows.open_jobs(conn, fence.minion))

        for jid in await self._parts.store.read(read):
            reason = f"{fence.run} has ended"
            await self._parts.jobs.cancel(jid, (fence.minion,), reason=reason)

    async def _send(self, fence: Fence) -> None:
        failpoints.hit("master.chain.fence")
        run = fence.run
        epoch = {"epoch": run.epoch} if fence.named else {}
        request = JobRequest(
            user="root",
            call=FunctionCall(
                CLEAN,
                kwargs={"actionchain_id": run.chain_id, **epoch},
                metadata={"chain": run.chain_id, "epoch": run.epoch},
            ),
            minions=(fence.minion,),
        )

        def within(conn: sa.Connection, submitted: Submitted) -> None:
            fence_rows.sent(conn, fence, submitted.jid)

        try:
            await self._parts.jobs.submit(request, within)
        except NotFoundError:
            # The minion has no key any more: it can't get jobs or report anything.
            await self._parts.change(partial(_drop, fence))


def _drop(fence: Fence, ledger: ChainLedger) -> None:
    fence_rows.drop(ledger, fence)


def _failure(fence: Fence) -> _Failure:
    return fence.minion, fence.run, fence.tries
