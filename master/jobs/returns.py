"""What minions say about their jobs: each fact is stored once, then acked."""

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
from catena.master.jobs.handover import Handover, Moves
from catena.master.jobs.model import DeliveryOrder, DeliveryRecord
from catena.master.jobs.reports import Folded, Word, fold
from catena.master.jobs.rows import NewReturn
from catena.master.jobs.step_room import StepRoom, Taken
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

#: Jobs that one minion may begin itself, per second and at once: nobody asked for them.
ADOPTED_RATE = 0.5
ADOPTED_BURST = 60.0
#: Longest text of what a queued job waits for.
BEHIND_CHARACTERS = 200
#: The largest INTEGER of PostgreSQL.
RETCODE_LIMIT = 2**31 - 1
#: Times of minions, seconds since the epoch, from about the year 70 to about 5000: Python shows
#: no date outside the years 1 to 9999.
EARLIEST_SECONDS, LATEST_SECONDS = -6e10, 1e11
_NO_JOB = "no job of this minion has that id"


@dataclass(frozen=True, slots=True)
class ReturnParts:
    """What the return service works with."""

    store: Store
    bus: EventBus
    feed: JobFeed
    moves: Moves
    handover: Handover
    link: MessageSender
    clock: Clock
    #: Makes a jid (`Jobs.new_jid`), in any thread.
    new_jid: Callable[[], str]


class Returns:
    """Stores each fact once, tells observers in the same transaction, acks after the commit."""

    def __init__(self, parts: ReturnParts) -> None:
        self._parts = parts
        self._words = Bulk(self._one, self._many)
        #: Used by the writer's thread alone.
        self._adopted = RateLimit(ADOPTED_RATE, ADOPTED_BURST, parts.clock.monotonic)
        self._steps = StepRoom()

    def received(self, minion: str, message: JobReceived) -> asyncio.Future[Any] | Pending:
        """The order is durable on the minion."""
        jid = checked_jid(message.jid)
        if message.runs:
            return self._parts.store.post(lambda conn: self._runs(conn, jid, minion), lazy=True)
        detail = f"waits behind {message.position}" if message.position > 0 else ""
        if detail and message.behind:
            detail = f"{detail}: {message.behind[:BEHIND_CHARACTERS]}"
        word = Word(minion, jid, detail=detail)
        return self._parts.store.post_item(self._words, word, lazy=True)

    def rejected(self, minion: str, message: JobRejected) -> asyncio.Future[Any]:
        """The minion will not run the order."""
        jid = checked_jid(message.jid)
        reason = message.reason[:1000]
        return self._parts.store.post(lambda conn: self._reject(conn, jid, minion, reason))

    def progressed(self, minion: str, progress: JobProgress) -> asyncio.Future[Any]:
        """A running job made a step."""
        checked_jid(progress.jid)
        _check_time(progress.when)
        return self._parts.store.post(
            lambda conn: self._progress(conn, minion, progress), lazy=True
        )

    def returned(
        self, peer: Peer, minion: str, ret: JobReturn, envelope: Envelope, packed: bytes = b""
    ) -> Pending:
        """A job ended; the minion is told so once that is durable.

        Args:
            peer: its connection.
            minion: who says so.
            ret: what it says.
            envelope: with what.
            packed: *ret* as it came, MessagePack; b"" where it came in pieces.

        Raises:
            BadNameError: the jid is none.
            LimitError: a number in it makes no sense.
        """
        checked_jid(ret.jid)
        _check_time(ret.started)
        _check_time(ret.duration_seconds)
        if abs(ret.retcode) > RETCODE_LIMIT:
            raise LimitError(f"a retcode of {ret.retcode}")

        failpoints.hit("master.return.received")
        kept = Ready(packed) if packed else None
        word = Word(minion, ret.jid, ret, "", peer, envelope.msg_id, kept)
        return self._parts.store.post_item(self._words, word)

    def _acknowledge(self, words: Iterable[Word]) -> None:
        """Tell minions that their returns are durable."""
        # A job of a thousand minions has an answer that differs in its header alone.
        answers: dict[str, Packed] = {}
        for word in words:
            if word.ret is None or word.peer is None:
                continue
            failpoints.hit("master.return.stored")
            if word.jid not in answers:
                answers[word.jid] = packed_once(ReturnStored(word.jid))
            self._parts.link.send(word.peer, answers[word.jid], word.msg_id)

    def _one(self, conn: sa.Connection, word: Word) -> None:
        if word.ret is None:
            self._step(conn, word.jid, word.minion, DeliveryEvent.receive, word.detail)
            return
        orders = self._store(conn, word, word.ret)

        def follow() -> None:
            self._acknowledge([word])
            if orders:
                self._parts.handover.send(orders)

        after_commit(conn, follow)

    def _many(self, conn: sa.Connection, words: Sequence[Word]) -> None:
        """Store what `_one` would for each of *words*, by a statement per table.

        Raises:
            TryLaterError: they are no plain steps, and must be taken one by one.
        """
        standing = job_rows.standing(conn, ((word.jid, word.minion) for word in words))
        folded = fold(words, standing)
        now = self._parts.clock.now().timestamp()
        if folded is None or not job_rows.move_many(conn, folded.moves, Actor.agent, now):
            raise TryLaterError("one by one")
        seqs = self._tell_all(conn, folded, now)
        job_rows.store_returns(conn, folded.returns, seqs, now)
        feed = self._parts.feed

        def publish() -> None:
            for said in folded.said:
                if feed.is_watched(said.jid):
                    feed.publish(said.jid, said.item())
            self._acknowledge(words)

        after_commit(conn, publish)

    def _tell_all(self, conn: sa.Connection, folded: Folded, now: float) -> list[int | None]:
        """Store the events of what is folded; return what `store_returns` asks for."""
        news: list[NewEvent] = []
        #: Places of the returns' own events in *news*.
        places: list[int] = []
        for fact in folded.facts:
            if isinstance(fact, NewReturn):
                places.append(len(news))
                news += self._told(conn, fact, now)
                continue
            jid, minion, state, detail, _ = fact
            assert state is not None
            for observer in self._parts.moves.observers:
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
        return self._parts.moves.move(conn, (jid, minion, row.state), cause, Actor.agent, detail)

    def _runs(self, conn: sa.Connection, jid: str, minion: str) -> None:
        row = job_rows.delivery(conn, jid, minion)
        if row is not None and row.state != Delivery.running.value:
            self._parts.moves.move(
                conn, (jid, minion, row.state), DeliveryEvent.progress, Actor.agent
            )

    def _reject(self, conn: sa.Connection, jid: str, minion: str, reason: str) -> None:
        row = job_rows.delivery(conn, jid, minion)
        if row is None:
            raise NotAllowedError(_NO_JOB)
        cause = DeliveryEvent.stopped if row.cancel else DeliveryEvent.reject
        at = (jid, minion, row.state)
        self._parts.moves.move(conn, at, cause, Actor.agent, row.cancel or reason)
        orders = self._parts.moves.release(conn, jid, row.batch)
        after_commit(conn, lambda: self._parts.handover.send(orders))

    def _progress(self, conn: sa.Connection, minion: str, progress: JobProgress) -> None:
        row = job_rows.delivery(conn, progress.jid, minion)
        if row is None:
            if own_job_rows.holder(conn, progress.jid) is not own_job_rows.Holder.nobody:
                raise NotAllowedError(_NO_JOB)
            # A job that began on the minion (`catena call`): its return makes it known here.
            return
        if MACHINE.is_final(Delivery(row.state)):
            return
        taken = self._steps.store(conn, minion, progress)
        if taken is Taken.dropped:
            return
        if taken is Taken.stored:
            self._apply_step(conn, minion, progress, row)
        item = JobProgressItem(minion, progress.seq, progress.kind, progress.data)
        after_commit(conn, lambda: self._parts.feed.publish(progress.jid, item))

    def _apply_step(
        self, conn: sa.Connection, minion: str, progress: JobProgress, row: DeliveryRecord
    ) -> None:
        """Move the delivery by a step that was stored, and notify the observers."""
        cause = DeliveryEvent.receive if progress.kind == "queued" else DeliveryEvent.progress
        at = (progress.jid, minion, row.state)
        # Only the first step moves the delivery; the others are seen by their own items.
        if MACHINE.after(Delivery(row.state), cause, Actor.agent) not in (
            None,
            Delivery(row.state),
        ):
            self._parts.moves.move(conn, at, cause, Actor.agent, _sentence(progress))
        for observer in self._parts.moves.observers:
            for tag, data in observer.on_progress(conn, minion, progress):
                self._parts.bus.record(conn, tag, data)

    def _store(self, conn: sa.Connection, word: Word, ret: JobReturn) -> list[DeliveryOrder]:
        minion = word.minion
        now = self._parts.clock.now().timestamp()
        row = job_rows.delivery(conn, ret.jid, minion)
        if row is not None and row.stored is not None:
            return []
        packed = word.packed
        if row is None:
            taken = self._adopt(conn, minion, ret, now)
            if taken is None:
                return []
            packed = packed if taken is ret else None
            ret = taken
            row = job_rows.delivery(conn, ret.jid, minion)
            assert row is not None
        # Watchers stop at the delivery's end: they must have the return before it.
        item = JobReturnItem(minion, ret)
        after_commit(conn, lambda: self._parts.feed.publish(ret.jid, item))
        cause = DeliveryEvent.stopped if row.cancel else DeliveryEvent.ret
        at = (ret.jid, minion, row.state)
        moved = self._parts.moves.move(conn, at, cause, Actor.agent, row.cancel)
        new = NewReturn(minion, ret, packed or Ready.of(ret), late=moved is None)
        seqs = self._tell_all(conn, Folded(facts=[new]), now)
        job_rows.store_returns(conn, [new], seqs, now)
        return self._parts.moves.release(conn, ret.jid, row.batch)

    def _told(self, conn: sa.Connection, new: NewReturn, now: float) -> list[NewEvent]:
        """Return the events of a stored return: its own, then what observers make of it."""
        news = [_event(new, now)]
        for observer in self._parts.moves.observers:
            found = observer.on_return(conn, new.minion, new.ret)
            news += [NewEvent(tag, data) for tag, data in found]
        return news

    def _adopt(
        self, conn: sa.Connection, minion: str, ret: JobReturn, now: float
    ) -> JobReturn | None:
        """Make a job of a return whose job began on the minion itself (startup_states).

        A jid that this master's clock has not reached gets a number of this master's: the return
        of a host whose clock is ahead is kept, and can't take a number that the master will make.
        So does a jid under which another minion has brought a job of its own: nobody can keep the
        return of a host away by taking its number first.

        Returns:
            The return as it is stored; None: that was done before.

        Raises:
            NotAllowedError: the jid is that of a job which this minion was not given.
            TryLaterError: too many of them; the minion keeps it and says it again.
        """
        own = own_job_rows.OwnJob(minion, ret)
        if own_job_rows.adopted(conn, own):
            return None
        holder = own_job_rows.holder(conn, ret.jid)
        if holder is own_job_rows.Holder.master:
            raise NotAllowedError(_NO_JOB)
        if not self._adopted.allow(minion):
            raise TryLaterError("too many jobs that this master did not give")
        is_ahead = ret.jid >= jid_at(self._parts.clock.now())
        if is_ahead or holder is own_job_rows.Holder.minion:
            why = "at a time that is not yet; check its clock" if is_ahead else "as another's did"
            given = self._parts.new_jid()
            text = "%s: job %s began on the minion %s; it is stored as %s"
            log.warning(text, minion, ret.jid, why, given)
            ret = replace(ret, jid=given)
        own_job_rows.adopt(conn, own, ret.jid, now)
        return ret


def _check_time(seconds: float) -> None:
    # NaN is refused as well, because every comparison with it is false.
    if not EARLIEST_SECONDS < seconds < LATEST_SECONDS:
        raise LimitError("a time that makes no sense")


def _sentence(progress: JobProgress) -> str:
    if progress.kind == "queued":
        return f"waits behind {progress.data.get('position', '?')}"
    return ""


def _event(new: NewReturn, now: float) -> NewEvent:
    tag = events.job_ret(new.ret.jid, new.minion)
    data = return_events.event_data(new.minion, new.ret, now)
    size = len(new.packed.packed)
    less = return_events.without_large_value(data, size)
    return NewEvent(tag, data, shared_bytes=size) if less is None else NewEvent(tag, less)
