"""Views of jobs: lists, details of one job, and the stream of its items."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Container, Iterable, Sequence
from typing import Any, TypedDict

import sqlalchemy as sa

from catena.client.replies.jobs import (
    JobDeliveryItem,
    JobDetail,
    JobEnd,
    JobItem,
    JobLine,
    JobNewItem,
    JobOutcome,
    JobOutputItem,
    JobPresenceItem,
    JobProgressItem,
    JobReturnItem,
    JobStep,
)
from catena.client.requests.jobs import JobList
from catena.client.typed import tolerant
from catena.core.frozen import replace
from catena.core.ids import jid as checked_jid
from catena.core.job import JobReturn
from catena.core.redact import hide_arguments
from catena.master.events.feed import JobFeed, Watch
from catena.master.jobs import output_rows, progress_rows, view_rows
from catena.master.jobs import rows as job_rows
from catena.master.jobs.delivery import MACHINE, Delivery
from catena.master.jobs.model import JobRecord, JobRequest
from catena.master.jobs.service import Jobs
from catena.master.jobs.view_rows import StoredReturn
from catena.master.store.database import Store

#: Interval in seconds at which a follower learns which awaited minions are connected.
PRESENCE_SECONDS = 1.0
#: Maximum number of jobs in a list.
LIST_LIMIT = 10_000
#: Types of items that are numbered per minion.
_NUMBERED = (JobProgressItem, JobOutputItem)
#: States of deliveries that have ended.
FINAL = frozenset(state.value for state in Delivery if MACHINE.is_final(state))


class _Head(TypedDict):
    """The fields of `JobHead`, but `not_after` is by the clock of `steady_clock`."""

    jid: str
    fun: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    target: str
    tgt_type: str
    user: str
    metadata: dict[str, Any]
    issued: float
    not_after: float
    ended: float | None


class JobViews:
    """Reads and follows jobs; reads never wait for the writer.

    Args:
        store: of the master.
        feed: live items of jobs.
        jobs: the job service, which submits new jobs.
        connected: ids of the minions that can get jobs now.
        by_wall_clock: converts a time of `steady_clock` to the wall clock.
    """

    def __init__(
        self,
        store: Store,
        feed: JobFeed,
        jobs: Jobs,
        connected: Container[str],
        by_wall_clock: Callable[[float], float],
    ) -> None:
        self._store = store
        self._feed = feed
        self._jobs = jobs
        self._connected = connected
        self._by_wall_clock = by_wall_clock

    async def list(self, wanted: JobList) -> list[JobLine]:
        """Return jobs, newest first, each with its deliveries by state and its failed returns."""
        found = await self._store.read(lambda conn: _listed(conn, wanted))
        return [replace(job, not_after=self._by_wall_clock(job.not_after)) for job in found]

    async def show(self, jid: str) -> JobDetail:
        """Return one job with every delivery, step and return.

        Raises:
            NotFoundError: there is no such job.
        """
        key = checked_jid(jid)
        job = await self._store.read(lambda conn: _shown(conn, key))
        return replace(job, not_after=self._by_wall_clock(job.not_after))

    async def follow_new(self, request: JobRequest) -> AsyncIterator[JobItem | JobEnd]:
        """Submit a job and yield its items until it has ended everywhere, then its end."""
        jid = self._jobs.new_jid()
        with self._feed.watch(jid) as watch:
            submitted = await self._jobs.submit(request, jid=jid)
            if not submitted.repeated:
                yield _new(submitted.jid, submitted.minions)
                states = dict.fromkeys(submitted.minions, "new")
                async for item in _live(watch, jid, states, self._connected):
                    yield item
                return
        async for item in self.follow(submitted.jid):
            yield item

    async def follow(self, jid: str) -> AsyncIterator[JobItem | JobEnd]:
        """Yield the items of a stored job from its start, then live ones, then its end.

        Raises:
            NotFoundError: there is no such job.
        """
        with self._feed.watch(jid) as watch:
            past = await self._store.read(lambda conn: _past(conn, checked_jid(jid)))
            moves = (item for item in past if isinstance(item, JobDeliveryItem))
            states = {item.minion: item.state for item in moves}
            for item in past:
                yield item
            async for new in _live(watch, jid, states, self._connected, past):
                yield new


async def _live(
    watch: Watch,
    jid: str,
    states: dict[str, str],
    connected: Container[str],
    past: Sequence[JobItem] = (),
) -> AsyncIterator[JobItem | JobEnd]:
    """Yield live items, and changes of the presence of minions whose delivery is open.

    Presence is checked periodically and not with each item. Otherwise a thousand minions that
    answer at once would cost a million checks.

    Args:
        watch: live items of the job.
        jid: the job.
        states: minion -> state of its delivery; kept up to date.
        connected: ids of the minions that can get jobs now.
        past: items of the snapshot, which are not repeated.
    """
    seen = _SeenItems(states, past)
    up = dict.fromkeys(seen.open, True)
    loop = asyncio.get_running_loop()
    checked = -PRESENCE_SECONDS
    while seen.open:
        if loop.time() - checked >= PRESENCE_SECONDS:
            checked = loop.time()
            for minion in sorted(seen.open):
                if (minion in connected) is not up[minion]:
                    up[minion] = not up[minion]
                    yield JobPresenceItem(minion, up[minion])
        for item in await watch.next_items(checked + PRESENCE_SECONDS - loop.time()):
            if seen.is_new(item):
                yield item
    yield JobEnd(jid, states)


class _SeenItems:
    """The items that a follower has received, so that none is sent twice.

    Args:
        states: minion -> state; kept up to date.
        past: items of the snapshot.
    """

    def __init__(self, states: dict[str, str], past: Sequence[JobItem]) -> None:
        self._states = states
        #: Minions whose delivery has not ended.
        self.open = {minion for minion, state in states.items() if state not in FINAL}
        #: Type of item and minion -> number of the last step or output chunk.
        self._last: dict[tuple[type[JobItem], str], int] = {}
        self._returned = {item.minion for item in past if isinstance(item, JobReturnItem)}
        for item in past:
            if isinstance(item, _NUMBERED):
                key = (type(item), item.minion)
                self._last[key] = max(item.seq, self._last.get(key, 0))

    def is_new(self, item: JobItem) -> bool:
        """Return whether *item* is new to the follower, and remember it."""
        if isinstance(item, JobDeliveryItem):
            if self._states.get(item.minion) in FINAL:
                return False
            self._states[item.minion] = item.state
            if item.state in FINAL:
                self.open.discard(item.minion)
        elif isinstance(item, _NUMBERED):
            key = (type(item), item.minion)
            if item.seq <= self._last.get(key, 0):
                return False
            self._last[key] = item.seq
        elif isinstance(item, JobReturnItem):
            return item.minion not in self._returned
        return True


def _new(jid: str, minions: Iterable[str]) -> JobNewItem:
    return JobNewItem(jid, tuple(minions), ())


def _job(row: JobRecord) -> _Head:
    return {
        "jid": row.jid,
        "fun": row.fun,
        "args": tuple(hide_arguments(row.args)),
        "kwargs": hide_arguments([row.kwargs])[0],
        "target": row.tgt,
        "tgt_type": row.tgt_type,
        "user": row.user,
        "metadata": row.metadata,
        "issued": row.issued,
        "not_after": row.not_after,
        "ended": row.ended,
    }


def _listed(conn: sa.Connection, wanted: JobList) -> list[JobLine]:
    jobs = view_rows.listed(conn, wanted, max(1, min(wanted.limit, LIST_LIMIT)))
    jids = [row.jid for row in jobs]
    counts, failed = view_rows.count_states(conn, jids), view_rows.count_failed(conn, jids)
    return [
        JobLine(**_job(row), states=dict(counts[row.jid]), failed=failed[row.jid]) for row in jobs
    ]


def _shown(conn: sa.Connection, jid: str) -> JobDetail:
    steps: defaultdict[str, list[JobStep]] = defaultdict(list)
    for row in progress_rows.steps(conn, jid):
        steps[row.minion].append(JobStep(row.seq, row.kind, row.data, row.when))
    minions = {
        at.minion: JobOutcome(at.state, at.detail, at.changed, tuple(steps[at.minion]))
        for at in job_rows.deliveries(conn, jid)
    }
    for stored in view_rows.returns(conn, jid):
        known = minions.get(stored.minion, JobOutcome())
        minions[stored.minion] = replace(known, ret=_return(stored), late=stored.late)
    return JobDetail(**_job(job_rows.job(conn, jid)), minions=minions)


def _past(conn: sa.Connection, jid: str) -> list[JobItem]:
    job_rows.job(conn, jid)
    rows = job_rows.deliveries(conn, jid)
    items: list[JobItem] = [_new(jid, (row.minion for row in rows))]
    items += [
        JobProgressItem(row.minion, row.seq, row.kind, row.data)
        for row in progress_rows.steps(conn, jid)
    ]
    items += [chunk.item(minion) for minion, chunk in output_rows.chunks(conn, jid)]
    items += [JobReturnItem(row.minion, _return(row)) for row in view_rows.returns(conn, jid)]
    items += [JobDeliveryItem(row.minion, row.state, row.detail) for row in rows]
    return items


def _return(row: StoredReturn) -> JobReturn:
    ret: JobReturn = tolerant(JobReturn, row.ret, "return")
    return ret


def result_map(shown: JobDetail) -> dict[str, Any]:
    """Return {minion: value} of a job (Salt's jobs.lookup_jid)."""
    return {name: found.ret.value for name, found in shown.minions.items() if found.ret}
