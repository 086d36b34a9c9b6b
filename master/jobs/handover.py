"""Hands stored jobs to connections, again and again until the minion has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import sqlalchemy as sa

from catena.client.replies.jobs import JobDeliveryItem
from catena.core import failpoints, payloads
from catena.core.clock import Clock
from catena.core.fsm import Actor
from catena.core.job import JobSpec
from catena.core.marks import is_resumable
from catena.master.events.bus import EventBus
from catena.master.events.feed import JobFeed
from catena.master.executions.engine import JobObserver
from catena.master.jobs import batch, batch_rows
from catena.master.jobs import rows as job_rows
from catena.master.jobs.delivery import Delivery, DeliveryEvent
from catena.master.jobs.model import DeliveryOrder, Holds, NoHolds, OpenDelivery
from catena.master.jobs.order_clock import SteadyTime
from catena.master.minions.sessions import MessageSender, Sessions
from catena.master.store import restored
from catena.master.store.database import Store, after_commit
from catena.transport.messages import JobCancel, JobOrder
from catena.transport.messages.session import AGENT_WIRE, PAYLOADS
from catena.transport.wire import Packed, check_outgoing, pack_body, packed, packed_as

#: An order that a connected minion has not acknowledged after this long is sent again.
RESEND_SECONDS = 30.0
#: How old the time in an order may be when it goes out.
FRESH_SECONDS = 1.0


#: Deliveries whose order goes out with a Hello, and those that a minion may yet confirm.
_TO_SEND = (Delivery.queued.value, Delivery.sent.value)
_UNCONFIRMED = (*_TO_SEND, Delivery.paused.value)


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A job that a minion is to stop."""

    minion: str
    jid: str
    reason: str


@dataclass(frozen=True, slots=True)
class Backlog:
    """What minions must be sent: one that said Hello, or those that were missed before."""

    orders: tuple[DeliveryOrder, ...] = ()
    cancels: tuple[Cancellation, ...] = ()


class Elsewhere(Protocol):
    """Whoever carries out jobs of hosts that have no connection to this master."""

    def takes(self, name: str) -> bool:
        """Return whether the jobs of *name* are carried out there."""

    def wake(self, names: Collection[str]) -> None:
        """Jobs of *names* were stored."""


class Nowhere:
    """Every host has a connection, or none yet."""

    def takes(self, name: str) -> bool:
        """Return False."""
        return False

    def wake(self, names: Collection[str]) -> None:
        """Do nothing."""


@dataclass(slots=True)
class Moves:
    """Moves deliveries and tells observers, followers and the batch of it, in one transaction."""

    bus: EventBus
    feed: JobFeed
    sessions: Sessions
    clock: Clock
    observers: list[JobObserver] = field(default_factory=list)
    elsewhere: Elsewhere = field(default_factory=Nowhere)
    holds: Holds = field(default_factory=NoHolds)

    def __contains__(self, minion: object) -> bool:
        """Return whether a job reaches *minion* now: it is connected, or needs no connection."""
        return minion in self.sessions or self.elsewhere.takes(str(minion))

    def linked(self, minions: Iterable[str]) -> set[str]:
        """Return those of *minions* whom a connection brings their jobs now."""
        takes = self.elsewhere.takes
        return {name for name in minions if name in self.sessions and not takes(name)}

    def move(
        self,
        conn: sa.Connection,
        row: tuple[str, str, str],
        cause: DeliveryEvent,
        actor: Actor,
        detail: str = "",
    ) -> Delivery | None:
        """Move one delivery; None when its life cycle has no such row.

        Raises:
            ActorError: the transition is not for *actor*.
        """
        state = job_rows.move(conn, row, cause, actor, detail, self.clock.now().timestamp())
        if state is None:
            return None
        jid, minion, seen = row
        if state is not Delivery.done and state.value != seen:
            for observer in self.observers:
                for tag, data in observer.on_delivery(conn, minion, jid, state, detail):
                    self.bus.record(conn, tag, data)
        item = JobDeliveryItem(minion, state.value, detail)
        after_commit(conn, lambda: self.feed.publish(jid, item))
        return state

    def release(self, conn: sa.Connection, jid: str, limit: int) -> list[DeliveryOrder]:
        """Let the next minions of a batched job begin; return what must be sent to them.

        Args:
            conn: the running transaction.
            jid: the job.
            limit: its batch; 0: it has none, all have begun.
        """
        if not limit:
            return []
        facts = batch_rows.facts(conn, jid)
        if facts is None:
            return []
        found = batch.next_of(facts, limit, self, self.clock.now().timestamp())
        for row in found.cancel:
            text = "not begun: an earlier minion failed (--failhard)"
            self.move(conn, row, DeliveryEvent.cancel, Actor.system, text)
        release = DeliveryEvent.release
        begun = [row[1] for row in found.begin if self.move(conn, row, release, Actor.system)]
        return self.sendable(conn, job_rows.orders(conn, jid, begun))

    def paused(
        self, conn: sa.Connection, spec: JobSpec, minions: Collection[str]
    ) -> Mapping[str, str]:
        """Return those of *minions* that must not get a job now, each with the reason."""
        # Only work that consists of several jobs can be paused: others cost no query.
        return self.holds.paused(conn, spec, minions) if is_resumable(spec.fun) else {}

    def sendable(
        self, conn: sa.Connection, orders: Iterable[DeliveryOrder]
    ) -> list[DeliveryOrder]:
        """Return those of *orders* that may be sent now; the deliveries of the others pause."""
        found = []
        for order in orders:
            why = self.paused(conn, order.spec, (order.minion,)).get(order.minion)
            if why is None:
                found.append(order)
            else:
                self.pause(conn, order.spec.jid, order.minion, why)
        return found

    def pause(self, conn: sa.Connection, jid: str, minion: str, reason: str) -> None:
        """Pause a delivery unless its minion has confirmed the job, or is to stop it."""
        row = job_rows.delivery(conn, jid, minion)
        if row is None or row.cancel:
            return
        if row.state in _TO_SEND or (row.state == Delivery.paused.value and row.detail != reason):
            self.move(conn, (jid, minion, row.state), DeliveryEvent.pause, Actor.system, reason)


class Handover:
    """Sends orders and cancellations to the minions that are connected.

    Args:
        store: where deliveries are.
        link: sends.
        moves: of deliveries.
        steady: by which orders grow old.
    """

    def __init__(
        self, store: Store, link: MessageSender, moves: Moves, steady: SteadyTime
    ) -> None:
        self._store = store
        self._link = link
        self._moves = moves
        self._steady = steady
        self._full: set[str] = set()
        #: Orders up to this jid are not sent again (`store.restored`); "": there was no restore.
        self._doubtful = ""

    async def open(self) -> None:
        """Learn which orders a lost database may have sent; end those of hosts without a Hello."""
        self._doubtful = await self._store.read(restored.horizon)
        if self._doubtful:
            await self._store.write(self._end_visits)

    def _end_visits(self, conn: sa.Connection) -> None:
        for at in job_rows.not_received(conn, self._doubtful):
            if self._moves.elsewhere.takes(at[1]):
                self._moves.move(conn, at, DeliveryEvent.restored, Actor.system, restored.REASON)

    def messages(self) -> Messages:
        """Return what packs the orders that are sent now."""
        return Messages(self._steady.now())

    def send(self, orders: Iterable[DeliveryOrder], messages: Messages | None = None) -> None:
        """Send *orders* now where there is a connection; the others go when one is made.

        Args:
            orders: stored; what becomes of them is stored in a moment.
            messages: may have packed some of them already.
        """
        moved: defaultdict[tuple[str, Delivery], list[str]] = defaultdict(list)
        visited: list[str] = []
        same = self._fresh(messages)
        for order in orders:
            if self._moves.elsewhere.takes(order.minion):
                visited.append(order.minion)
                continue
            state, why = self._send(order, same)
            self._show(order, state, why)
            if (state is Delivery.sent) is not order.stored_as_sent:
                moved[order.spec.jid, state].append(order.minion)
        now = self._moves.clock.now().timestamp()
        for (jid, state), minions in moved.items():
            self._store.later(_marking(jid, minions, state, now))
        if visited:
            self._moves.elsewhere.wake(visited)

    def _fresh(self, messages: Messages | None) -> Messages:
        """Return *messages*, unless the disk kept them waiting: a minion goes by their time."""
        now = self._steady.now()
        if messages is not None and now - messages.now < FRESH_SECONDS:
            return messages
        return Messages(now)

    def _send(self, order: DeliveryOrder, messages: Messages) -> tuple[Delivery, str]:
        """Send one order; return how its delivery stands then, and why."""
        session = self._moves.sessions.get(order.minion)
        if session is None:
            return Delivery.queued, "not connected"
        failpoints.hit("master.order.send")
        try:
            message = messages.of(order.spec, session.wire)
        except payloads.OlderAgentError as error:
            return Delivery.queued, str(error)
        if self._link.send(session.peer, message):
            return Delivery.sent, ""
        self._full.add(order.minion)
        return Delivery.queued, "its connection takes no more"

    def cancel(self, one: Cancellation) -> None:
        """Tell a minion to stop a job; one that isn't connected hears of it after its Hello."""
        session = self._moves.sessions.get(one.minion)
        if session and not self._link.send(session.peer, JobCancel(one.jid, one.reason)):
            self._full.add(one.minion)

    def pending(self, conn: sa.Connection, minion: str, open_jobs: Iterable[str]) -> Backlog:
        """Settle what a Hello says about the minion's jobs, and return what it must be sent.

        What it names is received; what it had received and no longer names is lost; what it was
        sent and does not name goes again (it runs a jid once), unless it was cancelled meanwhile:
        the host may even be another one, that took the name of one whose key was deleted. An order
        of before a restore of the store does not go again: the minion may be done with it.
        """
        if self._moves.elsewhere.takes(minion):
            # An agent that a chain over SSH has just installed: its jobs are over there.
            return Backlog()
        known = set(open_jobs)
        orders: list[DeliveryOrder] = []
        cancels: list[Cancellation] = []
        for row in job_rows.open_of(conn, minion):
            jid = row.job.jid
            at = (jid, minion, row.state)
            if jid <= self._doubtful and jid not in known:
                if self._moves.move(
                    conn, at, DeliveryEvent.restored, Actor.system, restored.REASON
                ):
                    continue
            if row.state in _UNCONFIRMED and jid in known:
                self._moves.move(conn, at, DeliveryEvent.receive, Actor.agent)
            elif row.state in _TO_SEND and row.cancel:
                self._moves.move(conn, at, DeliveryEvent.stopped, Actor.agent, row.cancel)
                continue
            elif row.state in _TO_SEND:
                orders.append(_order(row, minion))
            elif row.state == Delivery.held.value:
                orders += self._moves.release(conn, jid, row.job.batch)
            elif row.state not in _UNCONFIRMED and jid not in known:
                text = "the minion no longer knows this job"
                self._moves.move(conn, at, DeliveryEvent.forgotten, Actor.agent, text)
                continue
            if row.cancel:
                cancels.append(Cancellation(minion, jid, row.cancel))
        return Backlog(tuple(self._moves.sendable(conn, orders)), tuple(cancels))

    def deliver(self, pending: Backlog) -> None:
        """Send what `pending` or `retry` found."""
        self.send(pending.orders)
        for one in pending.cancels:
            self.cancel(one)

    def again(self, names: Collection[str]) -> None:
        """Send what is queued for *names* with the next round: they have come to us."""
        self._full.update(names)

    def refused(self) -> set[str]:
        """Return, once, the minions whose connection took no more."""
        full, self._full = self._full, set()
        return full

    def retry(self, conn: sa.Connection, full: Iterable[str]) -> Backlog:
        """Return what must go again or can go now.

        What those of *full* never took, orders that were not acknowledged in time, and the next
        ones of batches in which somebody left.
        """
        now = self._moves.clock.now().timestamp()
        orders: list[DeliveryOrder] = []
        cancels: list[Cancellation] = []
        for minion in full:
            for row in job_rows.open_of(conn, minion):
                if row.state == Delivery.queued.value:
                    orders.append(_order(row, minion))
                elif row.cancel:
                    cancels.append(Cancellation(minion, row.job.jid, row.cancel))
        before = now - RESEND_SECONDS
        late = job_rows.unacknowledged(conn, before, now, self._moves.sessions)
        for jid, minions in late.items():
            orders += job_rows.orders(conn, jid, minions, stored_as_sent=True)
            job_rows.touch(conn, jid, minions, now)
        orders = self._moves.sendable(conn, orders)
        for jid, limit in job_rows.open_batches(conn):
            orders += self._moves.release(conn, jid, limit)
        return Backlog(tuple(orders), tuple(cancels))

    def _show(self, order: DeliveryOrder, state: Delivery, detail: str) -> None:
        item = JobDeliveryItem(order.minion, state.value, detail)
        self._moves.feed.publish(order.spec.jid, item)


class Messages:
    """The messages of orders; that of one spec is packed once for all minions that get it.

    Args:
        now: the master's time as they are sent.
    """

    def __init__(self, now: float) -> None:
        self.now = now
        self._spec: JobSpec | None = None
        self._message: Packed | None = None

    def of(self, spec: JobSpec, agent_wire: int = AGENT_WIRE) -> Packed:
        """Return the order to do *spec*, as an agent of that wire number understands it.

        Raises:
            NotPackableError: it holds a value that can't travel.
            OlderAgentError: such an agent can't run it.
        """
        if spec.payload is not None and agent_wire < PAYLOADS:
            body = {"spec": payloads.before_payloads(spec), "now": self.now}
            return packed_as(JobOrder, pack_body(body))
        if self._message is None or spec is not self._spec:
            self._spec, self._message = spec, packed(JobOrder(spec, self.now))
        return self._message

    def check(self, spec: JobSpec) -> None:
        """Raise NotPackableError or MessageTooLargeError unless the order can travel."""
        check_outgoing(self.of(spec), socket="control", receiver="minion")


def _order(row: OpenDelivery, minion: str) -> DeliveryOrder:
    return DeliveryOrder(minion, job_rows.spec_of(row.job, minion, row.payload))


def _marking(jid: str, minions: list[str], state: Delivery, now: float) -> Any:
    mark = job_rows.mark_sent if state is Delivery.sent else job_rows.mark_kept
    return lambda conn: mark(conn, jid, minions, now)
