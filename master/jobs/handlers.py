"""Handlers of the verbs of jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from catena.client.requests import jobs as asks
from catena.client.requests.jobs import JobCancelRequest, JobList, JobShow, JobWatch, RunJob
from catena.core.errors import UsageError
from catena.core.job import DEFAULT_DEADLINE_SECONDS, FunctionCall
from catena.core.types import JSON
from catena.master.jobs.model import JobRequest
from catena.master.jobs.service import Jobs
from catena.master.jobs.views import JobViews, submitted_reply
from catena.master.requests.rights import Caller, Right
from catena.master.requests.verb import Answer, Aside, End, verb

EXPIRY_LIMIT_SECONDS = 365 * 24 * 3600
#: Stream items that only report status; each may be sent together with the item that follows it.
_ASIDE = frozenset({"new", "delivery"})


@dataclass(frozen=True, slots=True)
class JobHandlers:
    """One method per verb: takes the caller and the record."""

    jobs: Jobs
    views: JobViews

    @verb(asks.RUN, Right.run_jobs, repeats=True)
    def run(self, caller: Caller, asked: RunJob) -> Answer:
        """Run a function on the minions of a target."""
        request = JobRequest(
            user=caller.name,
            call=FunctionCall.of(asked),
            expiry_seconds=_expiry(asked.expiry_seconds),
            deadline_seconds=_deadline(asked.deadline_seconds),
            batch=asked.batch,
            batch_wait=batch_wait(asked),
            batch_failhard=asked.batch_failhard,
            subset=_subset(asked.subset),
            idempotency_key=asked.idempotency_key or caller.once.key,
            exact=bool(caller.once.key),
        )
        if asked.follow:
            return _job_stream(self.views.follow_new(request))
        return self._submit(request)

    async def _submit(self, request: JobRequest) -> JSON:
        return submitted_reply(await self.jobs.submit(request))

    @verb(asks.LIST, Right.read_jobs)
    async def list(self, caller: Caller, asked: JobList) -> Any:
        """List jobs."""
        return await self.views.list(asked)

    @verb(asks.SHOW, Right.read_jobs)
    async def show(self, caller: Caller, asked: JobShow) -> Any:
        """Show one job."""
        return await self.views.show(asked.jid)

    @verb(asks.WATCH, Right.read_jobs)
    def watch(self, caller: Caller, asked: JobWatch) -> AsyncIterator[Any]:
        """Follow a job from its start."""
        return _job_stream(self.views.follow(asked.jid))

    @verb(asks.CANCEL, Right.run_jobs)
    async def cancel(self, caller: Caller, asked: JobCancelRequest) -> Any:
        """Cancel a job."""
        return await self.jobs.cancel(asked.jid, asked.minions, caller.name)


def _expiry(seconds: int | None) -> float:
    if seconds is None:
        return 0.0
    if not 0 < seconds <= EXPIRY_LIMIT_SECONDS:
        raise UsageError("expiry_seconds: from 1 to a year")
    return float(seconds)


def _deadline(seconds: int | None) -> int:
    if seconds is None:
        return DEFAULT_DEADLINE_SECONDS
    if not 0 < seconds <= EXPIRY_LIMIT_SECONDS:
        raise UsageError("deadline_seconds: from 1 to a year")
    return seconds


def batch_wait(asked: RunJob) -> float:
    """Return how long a minion keeps its place in the batch, seconds.

    Raises:
        UsageError: out of range, or given for a job that is no batch.
    """
    if not 0 <= asked.batch_wait <= EXPIRY_LIMIT_SECONDS:
        raise UsageError("batch_wait: seconds, from 0 to a year")
    if not asked.batch and (asked.batch_wait or asked.batch_failhard):
        raise UsageError("batch_wait and batch_failhard need a batch")
    return asked.batch_wait


def _subset(count: int) -> int:
    if count < 0:
        raise UsageError("subset: a number of minions; 0 means all")
    return count


async def _job_stream(items: AsyncIterator[dict[str, Any]]) -> AsyncIterator[Any]:
    async for item in items:
        if item["type"] == "end":
            yield End({"jid": item["jid"], "states": item["states"]})
        elif item["type"] in _ASIDE:
            yield Aside(item)
        else:
            yield item
