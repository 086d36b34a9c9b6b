"""Handlers of the verbs of jobs."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TypeVar

from catena.client.replies.jobs import (
    JobDeliveryItem,
    JobDetail,
    JobEnd,
    JobItem,
    JobLine,
    JobNewItem,
    JobRun,
)
from catena.client.requests import jobs as asks
from catena.client.requests.jobs import JobCancelRequest, JobList, JobShow, JobWatch, RunJob
from catena.core.errors import UsageError
from catena.core.job import DEFAULT_DEADLINE_SECONDS, FunctionCall
from catena.master.jobs.model import JobRequest
from catena.master.jobs.service import Jobs
from catena.master.jobs.views import JobViews
from catena.master.requests.rights import Caller, Right
from catena.master.requests.verb import Answer, Aside, End, Stream, verb

A = TypeVar("A")

#: Maximum of each time in a request.
EXPIRY_LIMIT_SECONDS = 365 * 24 * 3600
#: Stream items that only report status; each may be sent together with the item that follows it.
_ASIDE = (JobNewItem, JobDeliveryItem)


@dataclass(frozen=True, slots=True)
class JobHandlers:
    """One method per verb, which takes the caller and the request record."""

    jobs: Jobs
    views: JobViews

    @verb(asks.RUN, Right.run_jobs, repeats=True)
    def run(self, caller: Caller, asked: RunJob) -> Answer[JobRun, JobItem]:
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
            return _stream(self.views.follow_new(request), _run_end)
        return self._submit(request)

    async def _submit(self, request: JobRequest) -> JobRun:
        submitted = await self.jobs.submit(request)
        return JobRun(submitted.jid, tuple(submitted.minions))

    @verb(asks.LIST, Right.read_jobs)
    async def list(self, caller: Caller, asked: JobList) -> builtins.list[JobLine]:
        """List jobs."""
        return await self.views.list(asked)

    @verb(asks.SHOW, Right.read_jobs)
    async def show(self, caller: Caller, asked: JobShow) -> JobDetail:
        """Show one job."""
        return await self.views.show(asked.jid)

    @verb(asks.WATCH, Right.read_jobs)
    def watch(self, caller: Caller, asked: JobWatch) -> Stream[JobItem, JobEnd]:
        """Yield the items of a job from its start, and live ones until it ends."""
        return _stream(self.views.follow(asked.jid), lambda end: end)

    @verb(asks.CANCEL, Right.run_jobs)
    async def cancel(self, caller: Caller, asked: JobCancelRequest) -> dict[str, str]:
        """Cancel a job."""
        return await self.jobs.cancel(asked.jid, asked.minions, caller.name)


def _expiry(seconds: int | None) -> float:
    if seconds is None:
        return 0.0
    if not 0 < seconds <= EXPIRY_LIMIT_SECONDS:
        raise UsageError(f"expiry_seconds {seconds}: expected 1 second to a year")
    return float(seconds)


def _deadline(seconds: int | None) -> int:
    if seconds is None:
        return DEFAULT_DEADLINE_SECONDS
    if not 0 < seconds <= EXPIRY_LIMIT_SECONDS:
        raise UsageError(f"deadline_seconds {seconds}: expected 1 second to a year")
    return seconds


def batch_wait(asked: RunJob) -> float:
    """Return the seconds for which a minion keeps its place in the batch after its return.

    Raises:
        UsageError: the time is out of range, or an option of batches was used without a batch.
    """
    if not 0 <= asked.batch_wait <= EXPIRY_LIMIT_SECONDS:
        raise UsageError(f"batch_wait {asked.batch_wait}: expected seconds from 0 to a year")
    if not asked.batch and (asked.batch_wait or asked.batch_failhard):
        raise UsageError("batch_wait and batch_failhard need a batch")
    return asked.batch_wait


def _subset(count: int) -> int:
    if count < 0:
        raise UsageError(f"subset {count}: expected a number of minions, or 0 for all")
    return count


def _run_end(end: JobEnd) -> JobRun:
    return JobRun(end.jid, states=end.states)


async def _stream(
    items: AsyncIterator[JobItem | JobEnd], reply: Callable[[JobEnd], A]
) -> Stream[JobItem, A]:
    async for item in items:
        if isinstance(item, JobEnd):
            yield End(reply(item))
        elif isinstance(item, _ASIDE):
            yield Aside(item)
        else:
            yield item
