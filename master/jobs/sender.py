"""Sends stored jobs to connected minions, and resends them until the minions confirm them."""

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
from catena.master.jobs.steady_clock import SteadyClock
from catena.master.minions.sessions import MessageSender, Sessions
from catena.master.store import restored
from catena.master.store.database import Store, after_commit
from catena.transport.messages import JobCancel, JobOrder
from catena.transport.messages.session import AGENT_WIRE, PAYLOADS
from catena.transport.wire import Packed, check_outgoing, pack_body, packed, packed_as

#: Seconds after which an order is resent that a connected minion has not acknowledged.
RESEND_SECONDS = 30.0
#: Maximum age in seconds of the master's time in an order when the order is sent.
FRESH_SECONDS = 1.0


#: States of deliveries whose order is sent after a Hello.
_TO_SEND = (Delivery.queued.value, Delivery.sent.value)
#: States of deliveries that a minion may still confirm.
_UNCONFIRMED = (*_TO_SEND, Delivery.paused.value)


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A request to a minion to stop a job."""

    minion: str
    jid: str
    reason: str


@dataclass(frozen=True, slots=True)
class Backlog:
    """Orders and cancellations that must be sent after a Hello, or resent."""

    orders: tuple[DeliveryOrder, ...] = ()
    cancels: tuple[Cancellation, ...] = ()


class SshDelivery(Protocol):
    """Runs the jobs of hosts that the master reaches over SSH, which have no connection to it."""

    def takes(self, name: str) -> bool:
        """Return whether the jobs of *name* are carried out over SSH."""

    def wake(self, names: Collection[str]) -> None:
        """Schedule visits of *names*, for which jobs were just stored."""


class NoSshDelivery:
    """No host is reached over SSH."""

    def takes(self, name: str) -> bool:
        """Return False."""
        return False

    def wake(self, names: Collection[str]) -> None:
        """Do nothing."""


@dataclass(slots=True)
class DeliveryLedger:
    """Moves deliveries through their life cycle, with all consequences in the same transaction.

    Observers are notified in the transaction, followers after its commit.
    """

    bus: EventBus
    feed: JobFeed
    sessions: Sessions
    clock: Clock
    observers: list[JobObserver] = field(default_factory=list)
    ssh: SshDelivery = field(default_factory=NoSshDelivery)
    holds: Holds = field(default_factory=NoHolds)

    def __contains__(self, minion: object) -> bool:
        """Return whether *minion* can get a job now: it is connected, or reached over SSH."""
        return minion in self.sessions or self.ssh.takes(str(minion))

    def connected(self, minions: Iterable[str]) -> set[str]:
        """Return those of *minions* that get their jobs over a connection that exists now."""
        takes = self.ssh.takes
        return {name for name in minions if name in self.sessions and not takes(name)}

    def move(
        self,
        conn: sa.Connection,
        row: tuple[str, str, str],
        cause: DeliveryEvent,
        actor: Actor,
        detail: str = "",
    ) -> Delivery | None:
        """Move one delivery; return its new state, or None if nothing was moved.

        Args:
            conn: the running transaction.
            row: jid, minion, and the state that the caller read.
            cause: the event.
            actor: who caused the event.
            detail: reason or progress, for people.

        Returns:
            None if the life cycle has no such transition, or the state has changed since.

        Raises:
            ActorError: *actor* may not cause the transition.
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
        """Let the next minions of a batched job begin; return the orders to send.

        Args:
            conn: the running transaction.
            jid: the job.
            limit: maximum number of concurrent deliveries; 0: the job is not batched.
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
        # Only work of several jobs can be paused, so other jobs need no query.
        return self.holds.paused(conn, spec, minions) if is_resumable(spec.fun) else {}

    def sendable(
        self, conn: sa.Connection, orders: Iterable[DeliveryOrder]
    ) -> list[DeliveryOrder]:
        """Return those of *orders* that may be sent now; pause the deliveries of the others."""
        found = []
        for order in orders:
            why = self.paused(conn, order.spec, (order.minion,)).get(order.minion)
            if why is None:
                found.append(order)
            else:
                self.pause(conn, order.spec.jid, order.minion, why)
        return found

    def pause(self, conn: sa.Connection, jid: str, minion: str, reason: str) -> None:
        """Pause a delivery, unless its minion has confirmed the job or the job is cancelled."""
        row = job_rows.delivery(conn, jid, minion)
        if row is None or row.cancel:
            return
        if row.state in _TO_SEND or (row.state == Delivery.paused.value and row.detail != reason):
            self.move(conn, (jid, minion, row.state), DeliveryEvent.pause, Actor.system, reason)


class JobSender:
    """Sends orders and cancellations to the minions that are connected.

    Args:
        store: of the master.
        link: sends messages to minions.
        deliveries: moves deliveries.
        steady: the clock for the expiry of orders.
    """

    def __init__(
        self, store: Store, link: MessageSender, deliveries: DeliveryLedger, steady: SteadyClock
    ) -> None:
        self._store = store
        self._link = link
        self._deliveries = deliveries
        self._steady = steady
        #: Minions with queued jobs or cancellations that `resend` sends next.
        self._to_retry: set[str] = set()
        #: Orders up to this jid are not resent (`store.restored`); "": the store is no backup.
        self._restored_upto = ""

    async def open(self) -> None:
        """Load which orders a lost database may have sent; end those of hosts reached over SSH.

        An SSH host sends no Hello with which its deliveries could be settled.
        """
        self._restored_upto = await self._store.read(restored.horizon)
        if self._restored_upto:
            await self._store.write(self._end_restored_ssh_jobs)

    def _end_restored_ssh_jobs(self, conn: sa.Connection) -> None:
        for at in job_rows.not_received(conn, self._restored_upto):
            if self._deliveries.ssh.takes(at[1]):
                self._deliveries.move(
                    conn, at, DeliveryEvent.restored, Actor.system, restored.REASON
                )

    def packer(self) -> OrderPacker:
        """Return a packer for orders that are sent now."""
        return OrderPacker(self._steady.now())

    def send(self, orders: Iterable[DeliveryOrder], packer: OrderPacker | None = None) -> None:
        """Send *orders* to connected minions; the others get theirs when they connect.

        Args:
            orders: stored orders; their new states are stored shortly afterwards.
            packer: may have packed some of the orders already; None: make one.
        """
        moved: defaultdict[tuple[str, Delivery], list[str]] = defaultdict(list)
        visited: list[str] = []
        fresh = self._fresh(packer)
        for order in orders:
            if self._deliveries.ssh.takes(order.minion):
                visited.append(order.minion)
                continue
            state, why = self._send(order, fresh)
            self._publish(order, state, why)
            if (state is Delivery.sent) is not order.stored_as_sent:
                moved[order.spec.jid, state].append(order.minion)
        now = self._deliveries.clock.now().timestamp()
        for (jid, state), minions in moved.items():
            self._store.later(_marking(jid, minions, state, now))
        if visited:
            self._deliveries.ssh.wake(visited)

    def _fresh(self, packer: OrderPacker | None) -> OrderPacker:
        """Return *packer*, or a new packer if a slow disk has made their time too old.

        A minion computes the expiry of an order from the time in the order.
        """
        now = self._steady.now()
        if packer is not None and now - packer.now < FRESH_SECONDS:
            return packer
        return OrderPacker(now)

    def _send(self, order: DeliveryOrder, packer: OrderPacker) -> tuple[Delivery, str]:
        """Send one order; return the new state of its delivery, with the reason."""
        session = self._deliveries.sessions.get(order.minion)
        if session is None:
            return Delivery.queued, "not connected"
        failpoints.hit("master.order.send")
        try:
            message = packer.pack(order.spec, session.wire)
        except payloads.OlderAgentError as error:
            return Delivery.queued, str(error)
        if self._link.send(session.peer, message):
            return Delivery.sent, ""
        self._to_retry.add(order.minion)
        return Delivery.queued, "the send queue of its connection is full"

    def cancel(self, one: Cancellation) -> None:
        """Request a minion to stop a job; a minion that isn't connected gets this after its Hello.

        The stored reason of the delivery's cancellation makes sure of that.
        """
        session = self._deliveries.sessions.get(one.minion)
        if session and not self._link.send(session.peer, JobCancel(one.jid, one.reason)):
            self._to_retry.add(one.minion)

    def reconcile(self, conn: sa.Connection, minion: str, open_jobs: Iterable[str]) -> Backlog:
        """Reconcile the open deliveries of a minion with its Hello; return what it must be sent.

        - A job that the Hello names is received.
        - A job that the minion had received and no longer names is lost.
        - A job that was sent and is not named is resent, because the minion runs each jid once.
        - A cancelled job is not resent. The host may have taken the name of a host whose key was
          deleted.
        - A job from before a restore of the store is not resent, because the minion may have
          completed it.

        Args:
            conn: the running transaction.
            minion: the minion.
            open_jobs: jids of the open jobs that the Hello names.
        """
        if self._deliveries.ssh.takes(minion):
            # A chain over SSH has just installed this agent; its jobs still run over SSH.
            return Backlog()
        named = set(open_jobs)
        backlogs = [
            self._reconcile_one(conn, minion, row, is_named=row.job.jid in named)
            for row in job_rows.open_deliveries(conn, minion)
        ]
        orders = [order for one in backlogs for order in one.orders]
        cancels = tuple(cancel for one in backlogs for cancel in one.cancels)
        return Backlog(tuple(self._deliveries.sendable(conn, orders)), cancels)

    def _reconcile_one(
        self, conn: sa.Connection, minion: str, row: OpenDelivery, *, is_named: bool
    ) -> Backlog:
        """Reconcile one delivery as `reconcile` describes; return what must be sent for it."""
        jid = row.job.jid
        at = (jid, minion, row.state)
        move = self._deliveries.move
        orders: list[DeliveryOrder] = []
        if jid <= self._restored_upto and not is_named:
            if move(conn, at, DeliveryEvent.restored, Actor.system, restored.REASON):
                return Backlog()
        if row.state in _UNCONFIRMED and is_named:
            move(conn, at, DeliveryEvent.receive, Actor.agent)
        elif row.state in _TO_SEND and row.cancel:
            move(conn, at, DeliveryEvent.stopped, Actor.agent, row.cancel)
            return Backlog()
        elif row.state in _TO_SEND:
            orders = [_order(row, minion)]
        elif row.state == Delivery.held.value:
            orders = self._deliveries.release(conn, jid, row.job.batch)
        elif row.state not in _UNCONFIRMED and not is_named:
            text = "the minion no longer knows this job"
            move(conn, at, DeliveryEvent.forgotten, Actor.agent, text)
            return Backlog()
        cancels = (Cancellation(minion, jid, row.cancel),) if row.cancel else ()
        return Backlog(tuple(orders), cancels)

    def deliver(self, backlog: Backlog) -> None:
        """Send what `reconcile` or `find_resends` returned."""
        self.send(backlog.orders)
        for one in backlog.cancels:
            self.cancel(one)

    def retry_soon(self, names: Collection[str]) -> None:
        """Send the queued jobs of *names* with the next call of `Jobs.resend`."""
        self._to_retry.update(names)

    def take_retries(self) -> set[str]:
        """Return the minions whose queued jobs are due for a retry, and forget them."""
        names, self._to_retry = self._to_retry, set()
        return names

    def find_resends(self, conn: sa.Connection, retries: Iterable[str]) -> Backlog:
        """Return the orders and cancellations that must be resent, or that can be sent now.

        These are the queued ones of *retries*, orders that were not acknowledged in time, and
        orders of batches in which a place became free because a minion disconnected.

        Args:
            conn: the running transaction.
            retries: minions from `take_retries`.
        """
        now = self._deliveries.clock.now().timestamp()
        orders: list[DeliveryOrder] = []
        cancels: list[Cancellation] = []
        for minion in retries:
            for row in job_rows.open_deliveries(conn, minion):
                if row.state == Delivery.queued.value:
                    orders.append(_order(row, minion))
                elif row.cancel:
                    cancels.append(Cancellation(minion, row.job.jid, row.cancel))
        before = now - RESEND_SECONDS
        late = job_rows.unacknowledged(conn, before, now, self._deliveries.sessions)
        for jid, minions in late.items():
            orders += job_rows.orders(conn, jid, minions, stored_as_sent=True)
            job_rows.mark_resent(conn, jid, minions, now)
        orders = self._deliveries.sendable(conn, orders)
        for jid, limit in job_rows.open_batches(conn):
            orders += self._deliveries.release(conn, jid, limit)
        return Backlog(tuple(orders), tuple(cancels))

    def _publish(self, order: DeliveryOrder, state: Delivery, detail: str) -> None:
        item = JobDeliveryItem(order.minion, state.value, detail)
        self._deliveries.feed.publish(order.spec.jid, item)


class OrderPacker:
    """Packs the messages of orders; consecutive orders with the same spec share one message.

    Args:
        now: time in the orders, by the clock for the expiry of orders (`steady_clock`).
    """

    def __init__(self, now: float) -> None:
        self.now = now
        self._spec: JobSpec | None = None
        self._message: Packed | None = None

    def pack(self, spec: JobSpec, agent_wire: int = AGENT_WIRE) -> Packed:
        """Return the packed order for *spec* in the form of the agent's wire version.

        Raises:
            NotPackableError: the spec has a value that cannot be sent.
            OlderAgentError: an agent of this version can't run the job.
        """
        if spec.payload is not None and agent_wire < PAYLOADS:
            body = {"spec": payloads.before_payloads(spec), "now": self.now}
            return packed_as(JobOrder, pack_body(body))
        if self._message is None or spec is not self._spec:
            self._spec, self._message = spec, packed(JobOrder(spec, self.now))
        return self._message

    def check(self, spec: JobSpec) -> None:
        """Raise NotPackableError or MessageTooLargeError if the order cannot be sent."""
        check_outgoing(self.pack(spec), socket="control", receiver="minion")


def _order(row: OpenDelivery, minion: str) -> DeliveryOrder:
    return DeliveryOrder(minion, job_rows.spec_of(row.job, minion, row.payload))


def _marking(jid: str, minions: list[str], state: Delivery, now: float) -> Any:
    mark = job_rows.mark_sent if state is Delivery.sent else job_rows.mark_requeued
    return lambda conn: mark(conn, jid, minions, now)
