"""Reports of minions about their jobs: each is stored once and then acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from catena.client.replies.jobs import JobProgressItem, JobReturnItem
from catena.core import events, failpoints
from catena.core.clock import Clock
from catena.core.errors import LimitError, NotAllowedError, TryLaterError
from catena.core.frozen import replace
from catena.core.fsm import Actor
from catena.core.ids import jid as checked_jid
from catena.core.ids import jid_at
from catena.core.job import JobProgress, JobReturn
from catena.master.events import return_events
from catena.master.events.bus import EventBus, NewEvent
from catena.master.events.feed import JobFeed
from catena.master.jobs import own_job_rows
from catena.master.jobs import rows as job_rows
from catena.master.jobs.delivery import MACHINE, Delivery, DeliveryEvent
from catena.master.jobs.model import DeliveryOrder, DeliveryRecord
from catena.master.jobs.reports import JobReport, MergedReports, merge
from catena.master.jobs.rows import NewReturn
from catena.master.jobs.sender import DeliveryLedger, JobSender
from catena.master.jobs.step_store import StepOutcome, StepStore
from catena.master.minions.limits import RateLimit
from catena.master.minions.sessions import MessageSender
from catena.master.store.database import Bulk, Store, after_commit
from catena.master.store.fast.pending import Pending
from catena.master.store.metadata import Ready
from catena.transport.messages import Envelope, JobReceived, JobRejected, ReturnStored
from catena.transport.peers import Peer
from catena.transport.wire import Packed
from catena.transport.wire import packed as packed_once

log = logging.getLogger(__name__)

#: Maximum rate of jobs that one minion begins itself, per second, and maximum burst.
OWN_JOB_RATE = 0.5
OWN_JOB_BURST = 60.0
#: Maximum characters of the description of what a queued job waits for.
REASON_CHARACTERS = 200
#: Maximum return code: the largest INTEGER of PostgreSQL.
RETCODE_LIMIT = 2**31 - 1
#: Range of times that a minion may report, seconds since the epoch: about the years 70 to 5000.
#: Python shows no date outside the years 1 to 9999.
EARLIEST_SECONDS, LATEST_SECONDS = -6e10, 1e11
_NO_JOB = "no job of this minion has that id"


@dataclass(frozen=True, slots=True)
class ReturnParts:
    """The dependencies of the return service."""

    store: Store
    bus: EventBus
    feed: JobFeed
    deliveries: DeliveryLedger
    job_sender: JobSender
    link: MessageSender
    clock: Clock
    #: Makes a jid (`Jobs.new_jid`); any thread may call it.
    new_jid: Callable[[], str]


class Returns:
    """Stores each report once, and acknowledges returns after the commit.

    Observers are notified in the transaction that stores the report.
    """

    def __init__(self, parts: ReturnParts) -> None:
        self._parts = parts
        self._reports = Bulk(self._store_one, self._store_many)
        #: Only the writer's thread uses it.
        self._own_job_rate = RateLimit(OWN_JOB_RATE, OWN_JOB_BURST, parts.clock.monotonic)
        self._steps = StepStore()

    def received(self, minion: str, message: JobReceived) -> asyncio.Future[Any] | Pending:
        """Store that an order is durable on its minion, or that the job runs there."""
        jid = checked_jid(message.jid)
        if message.runs:
            return self._parts.store.post(
                lambda conn: self._mark_running(conn, jid, minion), lazy=True
            )
        detail = f"waits behind {message.position}" if message.position > 0 else ""
        if detail and message.behind:
            detail = f"{detail}: {message.behind[:REASON_CHARACTERS]}"
        report = JobReport(minion, jid, detail=detail)
        return self._parts.store.post_item(self._reports, report, lazy=True)

    def rejected(self, minion: str, message: JobRejected) -> asyncio.Future[Any]:
        """Store that a minion will not run a job, with the reason."""
        jid = checked_jid(message.jid)
        reason = message.reason[:1000]
        return self._parts.store.post(lambda conn: self._reject(conn, jid, minion, reason))

    def progressed(self, minion: str, progress: JobProgress) -> asyncio.Future[Any]:
        """Store a step of a running job.

        Raises:
            BadNameError: the jid is invalid.
            LimitError: the time is out of range.
        """
        checked_jid(progress.jid)
        _check_time(progress.when)
        return self._parts.store.post(
            lambda conn: self._progress(conn, minion, progress), lazy=True
        )

    def returned(
        self, peer: Peer, minion: str, ret: JobReturn, envelope: Envelope, packed: bytes = b""
    ) -> Pending:
        """Store the return of a job, and acknowledge it once it is durable.

        Args:
            peer: connection of the minion.
            minion: the minion.
            ret: the return.
            envelope: message with the return.
            packed: *ret* as MessagePack; b"" if it came in several messages.

        Raises:
            BadNameError: the jid is invalid.
            LimitError: a time or the return code is out of range.
        """
        checked_jid(ret.jid)
        _check_time(ret.started)
        _check_time(ret.duration_seconds)
        if abs(ret.retcode) > RETCODE_LIMIT:
            raise LimitError(f"the retcode {ret.retcode} is out of range")

        failpoints.hit("master.return.received")
        ready = Ready(packed) if packed else None
        report = JobReport(minion, ret.jid, ret, "", peer, envelope.msg_id, ready)
        return self._parts.store.post_item(self._reports, report)

    def _acknowledge(self, reports: Iterable[JobReport]) -> None:
        """Notify minions that their returns are durable."""
        # The acknowledgements of one job differ only in their headers, so pack the body once.
        answers: dict[str, Packed] = {}
        for report in reports:
            if report.ret is None or report.peer is None:
                continue
            failpoints.hit("master.return.stored")
            if report.jid not in answers:
                answers[report.jid] = packed_once(ReturnStored(report.jid))
            self._parts.link.send(report.peer, answers[report.jid], report.msg_id)

    def _store_one(self, conn: sa.Connection, report: JobReport) -> None:
        if report.ret is None:
            self._step(conn, report.jid, report.minion, DeliveryEvent.receive, report.detail)
            return
        orders = self._store(conn, report, report.ret)

        def follow() -> None:
            self._acknowledge([report])
            if orders:
                self._parts.job_sender.send(orders)

        after_commit(conn, follow)

    def _store_many(self, conn: sa.Connection, reports: Sequence[JobReport]) -> None:
        """Store reports with one statement per table, with the effect of `_store_one` for each.

        Raises:
            TryLaterError: the reports must be processed one by one.
        """
        snapshots = job_rows.snapshots(conn, ((report.jid, report.minion) for report in reports))
        merged = merge(reports, snapshots)
        now = self._parts.clock.now().timestamp()
        if merged is None or not job_rows.move_many(conn, merged.moves, Actor.agent, now):
            raise TryLaterError("the reports must be processed one by one")
        seqs = self._record_events(conn, merged, now)
        job_rows.store_returns(conn, merged.returns, seqs, now)
        feed = self._parts.feed

        def publish() -> None:
            for update in merged.updates:
                if feed.is_watched(update.jid):
                    feed.publish(update.jid, update.item())
            self._acknowledge(reports)

        after_commit(conn, publish)

    def _record_events(
        self, conn: sa.Connection, merged: MergedReports, now: float
    ) -> list[int | None]:
        """Store the events that changes cause; return the argument *seqs* of `store_returns`."""
        news: list[NewEvent] = []
        #: Indexes in *news* of the returns' own events.
        places: list[int] = []
        for change in merged.changes:
            if isinstance(change, NewReturn):
                places.append(len(news))
                news += self._events_of(conn, change, now)
                continue
            jid, minion, state, detail, _ = change
            assert state is not None
            for observer in self._parts.deliveries.observers:
                found = observer.on_delivery(conn, minion, jid, state, detail)
                news += [NewEvent(tag, data) for tag, data in found]
        seqs = self._parts.bus.record_many(conn, news)
        return [seqs[place] if news[place].shared_bytes else None for place in places]

    def _step(
        self, conn: sa.Connection, jid: str, minion: str, cause: DeliveryEvent, detail: str
    ) -> Delivery | None:
        row = job_rows.delivery(conn, jid, minion)
        if row is None:
            raise NotAllowedError(_NO_JOB)
        return self._parts.deliveries.move(
            conn, (jid, minion, row.state), cause, Actor.agent, detail
        )

    def _mark_running(self, conn: sa.Connection, jid: str, minion: str) -> None:
        row = job_rows.delivery(conn, jid, minion)
        if row is not None and row.state != Delivery.running.value:
            self._parts.deliveries.move(
                conn, (jid, minion, row.state), DeliveryEvent.progress, Actor.agent
            )

    def _reject(self, conn: sa.Connection, jid: str, minion: str, reason: str) -> None:
        row = job_rows.delivery(conn, jid, minion)
        if row is None:
            raise NotAllowedError(_NO_JOB)
        cause = DeliveryEvent.stopped if row.cancel else DeliveryEvent.reject
        at = (jid, minion, row.state)
        self._parts.deliveries.move(conn, at, cause, Actor.agent, row.cancel or reason)
        orders = self._parts.deliveries.release(conn, jid, row.batch)
        after_commit(conn, lambda: self._parts.job_sender.send(orders))

    def _progress(self, conn: sa.Connection, minion: str, progress: JobProgress) -> None:
        row = job_rows.delivery(conn, progress.jid, minion)
        if row is None:
            if own_job_rows.origin(conn, progress.jid) is not own_job_rows.JidOrigin.nobody:
                raise NotAllowedError(_NO_JOB)
            # The minion began the job itself (`catena call`); its return will store the job.
            return
        if MACHINE.is_final(Delivery(row.state)):
            return
        outcome = self._steps.store(conn, minion, progress)
        if outcome is StepOutcome.dropped:
            return
        if outcome is StepOutcome.stored:
            self._apply_step(conn, minion, progress, row)
        item = JobProgressItem(minion, progress.seq, progress.kind, progress.data)
        after_commit(conn, lambda: self._parts.feed.publish(progress.jid, item))

    def _apply_step(
        self, conn: sa.Connection, minion: str, progress: JobProgress, row: DeliveryRecord
    ) -> None:
        """Move the delivery by a step that was stored, and notify the observers."""
        cause = DeliveryEvent.receive if progress.kind == "queued" else DeliveryEvent.progress
        at = (progress.jid, minion, row.state)
        # Only the first step moves the delivery; later steps only have items of their own.
        if MACHINE.after(Delivery(row.state), cause, Actor.agent) not in (
            None,
            Delivery(row.state),
        ):
            self._parts.deliveries.move(conn, at, cause, Actor.agent, _progress_detail(progress))
        for observer in self._parts.deliveries.observers:
            for tag, data in observer.on_progress(conn, minion, progress):
                self._parts.bus.record(conn, tag, data)

    def _store(
        self, conn: sa.Connection, report: JobReport, ret: JobReturn
    ) -> list[DeliveryOrder]:
        minion = report.minion
        now = self._parts.clock.now().timestamp()
        row = job_rows.delivery(conn, ret.jid, minion)
        if row is not None and row.stored is not None:
            return []
        packed = report.packed
        if row is None:
            renumbered = self._store_own_job(conn, minion, ret, now)
            if renumbered is None:
                return []
            packed = packed if renumbered is ret else None
            ret = renumbered
            row = job_rows.delivery(conn, ret.jid, minion)
            assert row is not None
        # Followers stop at the end of the delivery, so they must get the return before it.
        item = JobReturnItem(minion, ret)
        after_commit(conn, lambda: self._parts.feed.publish(ret.jid, item))
        cause = DeliveryEvent.stopped if row.cancel else DeliveryEvent.ret
        at = (ret.jid, minion, row.state)
        moved = self._parts.deliveries.move(conn, at, cause, Actor.agent, row.cancel)
        new = NewReturn(minion, ret, packed or Ready.of(ret), late=moved is None)
        seqs = self._record_events(conn, MergedReports(changes=[new]), now)
        job_rows.store_returns(conn, [new], seqs, now)
        return self._parts.deliveries.release(conn, ret.jid, row.batch)

    def _events_of(self, conn: sa.Connection, new: NewReturn, now: float) -> list[NewEvent]:
        """Return the events of a stored return: its own, then those of the observers."""
        news = [_event(new, now)]
        for observer in self._parts.deliveries.observers:
            found = observer.on_return(conn, new.minion, new.ret)
            news += [NewEvent(tag, data) for tag, data in found]
        return news

    def _store_own_job(
        self, conn: sa.Connection, minion: str, ret: JobReturn, now: float
    ) -> JobReturn | None:
        """Store a job that a minion began itself (startup_states), as its return describes it.

        The job gets a new jid in two cases:

        - Its jid is in the future by this master's clock. The master itself might use that jid.
        - Another minion began a job with the same jid. A minion can therefore not block the
          return of another one by using its jid first.

        Returns:
            The return, perhaps with a new jid; None if it was stored before.

        Raises:
            NotAllowedError: the jid is of a job of this master that the minion did not get.
            TryLaterError: the minion begins too many jobs; it resends the return later.
        """
        own = own_job_rows.OwnJob(minion, ret)
        if own_job_rows.is_stored(conn, own):
            return None
        origin = own_job_rows.origin(conn, ret.jid)
        if origin is own_job_rows.JidOrigin.master:
            raise NotAllowedError(_NO_JOB)
        if not self._own_job_rate.allow(minion):
            raise TryLaterError("too many jobs that the minion began itself")
        is_ahead = ret.jid >= jid_at(self._parts.clock.now())
        if is_ahead or origin is own_job_rows.JidOrigin.minion:
            why = (
                "its jid is in the future, check the minion's clock"
                if is_ahead
                else "another minion began a job with the same jid"
            )
            jid = self._parts.new_jid()
            text = "%s: job %s, which the minion began itself, is stored as %s: %s"
            log.warning(text, minion, ret.jid, jid, why)
            ret = replace(ret, jid=jid)
        own_job_rows.insert(conn, own, ret.jid, now)
        return ret


def _check_time(seconds: float) -> None:
    # NaN is refused as well, because every comparison with it is false.
    if not EARLIEST_SECONDS < seconds < LATEST_SECONDS:
        raise LimitError(f"the time {seconds} is out of range")


def _progress_detail(progress: JobProgress) -> str:
    if progress.kind == "queued":
        return f"waits behind {progress.data.get('position', '?')}"
    return ""


def _event(new: NewReturn, now: float) -> NewEvent:
    tag = events.job_ret(new.ret.jid, new.minion)
    data = return_events.event_data(new.minion, new.ret, now)
    size = len(new.packed.packed)
    reduced = return_events.without_large_value(data, size)
    return NewEvent(tag, data, shared_bytes=size) if reduced is None else NewEvent(tag, reduced)
