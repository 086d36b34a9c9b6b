"""The job service: stores, sends, pauses, cancels and expires jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

import sqlalchemy as sa

from catena.core import events
from catena.core.clock import Clock
from catena.core.errors import CatenaError, UsageError
from catena.core.frozen import replace
from catena.core.fsm import Actor
from catena.core.ids import Jid, JidFactory, jid_at
from catena.core.ids import jid as checked_jid
from catena.core.job import JobSpec
from catena.core.redact import hide_arguments
from catena.master.events.bus import EventBus
from catena.master.executions.engine import JobObserver
from catena.master.jobs import batch, own_job_rows
from catena.master.jobs import rows as job_rows
from catena.master.jobs.delivery import UNDER_WAY, Delivery, DeliveryEvent
from catena.master.jobs.model import DeliveryOrder, JobRequest, Submitted, Within
from catena.master.jobs.sender import Cancellation, DeliveryLedger, JobSender, OrderPacker
from catena.master.jobs.steady_clock import SteadyClock
from catena.master.requests import once
from catena.master.store import restored
from catena.master.store.database import Store, after_commit


class NoMatchError(UsageError):
    """No minions matched the target. No command was sent, no jid was assigned."""


class TargetResolver(Protocol):
    """Resolves target expressions."""

    async def resolve(self, tgt: str, tgt_type: str) -> tuple[str, ...]:
        """Return the accepted minions that match, sorted.

        Raises:
            UsageError: the expression is malformed.
            NotFoundError: a named minion is unknown.
            StoreCorruptError: the database was found damaged, so new jobs are refused.
        """

    def check(self, minions: Collection[str]) -> None:
        """Raise NotFoundError, with the nearest name, unless all *minions* are accepted."""


@dataclass(frozen=True, slots=True)
class JobParts:
    """The dependencies of the job service."""

    store: Store
    bus: EventBus
    deliveries: DeliveryLedger
    job_sender: JobSender
    targets: TargetResolver
    clock: Clock
    steady: SteadyClock
    #: Default time for which a job may be delivered.
    expiry_seconds: float


class Jobs:
    """The job service. A job is durable before its order is sent to any minion."""

    def __init__(self, parts: JobParts) -> None:
        self._parts = parts
        self._store = parts.store
        self._deliveries = parts.deliveries
        self._jids = JidFactory(parts.clock.now)
        # The writer's thread assigns new jids to jobs that minions began themselves.
        self._jid_lock = threading.Lock()

    async def open(self) -> None:
        """Start the jids above the highest one in the store.

        A clock that was set back therefore repeats no jid.
        """
        await self._parts.steady.open()
        # Ignore jids of the far future, which a wrong clock has made.
        horizon = jid_at(self._parts.clock.now() + timedelta(days=1))
        last = await self._store.read(lambda conn: own_job_rows.last_jid(conn, horizon))
        # A restored database may lack the newest jids of the lost one.
        lost = await self._store.read(restored.horizon)
        is_near = lost <= jid_at(self._parts.clock.now() + timedelta(days=1) + restored.JID_GAP)
        last = max(last, lost) if is_near else last
        self._jids = JidFactory(self._parts.clock.now, last)

    def observe(self, observer: JobObserver) -> None:
        """Notify *observer* of every change of a delivery, inside the storing transaction."""
        self._deliveries.observers.append(observer)

    def new_jid(self) -> Jid:
        """Return a job id that was never used. Any thread may call it."""
        with self._jid_lock:
            return self._jids()

    async def submit(
        self, request: JobRequest, within: Within | None = None, jid: str = ""
    ) -> Submitted:
        """Store a job and send it to the minions that are connected.

        Args:
            request: what to run where.
            within: runs in the same transaction, after the job's rows are stored; if it raises,
                nothing is stored or sent.
            jid: an id from `new_jid`; "" makes one.

        Returns:
            The job, which is durable when this returns. Minions that are not connected get it when
            they connect, within `expiry_seconds`.

        Raises:
            NoMatchError: the target matches no minion.
            NotFoundError: a named minion is unknown.
            NotPackableError, MessageTooLargeError: the arguments cannot be sent.
            StoreUnavailableError: nothing was stored or sent.
            StoreCorruptError: the database was found damaged, so new jobs are refused.
        """
        self._store.refuse_when_damaged()
        try:
            minions = await self._minions(request)
        except UsageError:
            # The minions of a repeated request may no longer exist.
            known = await self._store.read(lambda conn: _known(conn, request))
            if known is None:
                raise
            return known
        spec = self._spec(request, Jid(jid or self.new_jid()))
        limit = batch.size(request.batch, len(minions))
        states = batch.first_states(
            minions, limit, self._deliveries, self._deliveries.connected(minions)
        )
        new = job_rows.NewJob(spec, request, states, limit)
        orders = self._orders(new)
        packer = self._parts.job_sender.packer()
        # Check before storing: an order that cannot be sent would block the queue of its minion
        # for ever. A batch may have no order yet, so check the job's spec instead.
        for one in [order.spec for order in orders] if request.payloads else [spec]:
            packer.check(one)
        send = partial(self._send, orders, packer)
        return await self._store.write(lambda conn: self._insert(conn, new, within, send))

    def _send(
        self, orders: list[DeliveryOrder], packer: OrderPacker, paused: Collection[str] = ()
    ) -> None:
        """Send the orders of a new job, except to minions on which its work is paused."""
        sendable = [order for order in orders if order.minion not in paused] if paused else orders
        self._parts.job_sender.send(sendable, packer)

    async def cancel(
        self, jid: str, minions: Collection[str] = (), user: str = "", reason: str = ""
    ) -> dict[str, str]:
        """Cancel a job on all its minions, or on *minions*; return minion -> result.

        Returns:
            For each minion "cancelled" if the job was never sent to it, "stopping" if the minion
            is notified and its answer will end the delivery, else the final state of the delivery.

        Raises:
            NotFoundError: there is no such job.
        """
        text = (reason or f"cancelled by {user}")[:255]
        key = checked_jid(jid)
        outcome = await self._store.write(lambda conn: self._cancel(conn, key, minions, text))
        for minion, what in outcome.items():
            if what == "stopping":
                self._parts.job_sender.cancel(Cancellation(minion, jid, text))
        return outcome

    async def cancel_open(self, minion: str, reason: str) -> None:
        """Cancel every open job of *minion*, because its name will belong to another host."""
        await self._store.write(lambda conn: self.cancel_open_in(conn, minion, reason))

    def cancel_open_in(self, conn: sa.Connection, minion: str, reason: str) -> None:
        """Cancel every open job of *minion*, as `cancel_open`, in the running transaction."""
        for jid in job_rows.open_jids(conn, minion):
            if self._cancel(conn, jid, (minion,), reason)[minion] == "stopping":
                order = Cancellation(minion, jid, reason)
                after_commit(conn, partial(self._parts.job_sender.cancel, order))

    def order_time(self) -> float:
        """Return the time that limits the delivery of orders (`steady_clock`).

        It is in seconds since the epoch.
        """
        return self._parts.steady.now()

    def by_wall_clock(self, at: float) -> float:
        """Return the wall clock time of an `order_time`, for people."""
        return self._parts.steady.by_wall_clock(at)

    def pause_in(self, conn: sa.Connection, jid: str, minion: str, reason: str) -> None:
        """Pause a delivery in the running transaction, unless its minion has confirmed the job.

        A delivery that is already paused gets the new reason.
        """
        row = job_rows.delivery(conn, jid, minion)
        # A sent order may have reached its minion; a Hello or a confirmation shows whether it did.
        if row is not None and row.state in (Delivery.queued.value, Delivery.paused.value):
            self._deliveries.pause(conn, jid, minion, reason)

    def continue_in(
        self, conn: sa.Connection, jid: str, minion: str, *, prolong: bool = True
    ) -> None:
        """Send a paused job to its minion once the running transaction is durable.

        Args:
            conn: the running transaction.
            jid: the job.
            minion: the minion.
            prolong: extend the delivery time to at least `expiry_seconds` from now.
        """
        at = (jid, minion, Delivery.paused.value)
        if self._deliveries.move(conn, at, DeliveryEvent.continue_, Actor.system) is None:
            return
        if prolong:
            job_rows.prolong(conn, jid, self._parts.steady.now() + self._parts.expiry_seconds)
        orders = job_rows.orders(conn, jid, [minion])
        after_commit(conn, partial(self._parts.job_sender.send, orders))

    async def expire(self) -> int:
        """End deliveries that were not sent before they expired; return their number."""
        await self._parts.steady.save_if_due()
        now = self._parts.steady.now()
        return await self._store.post(lambda conn: self._expire(conn, now), lazy=True)

    async def resend(self) -> None:
        """Resend orders that a full send queue refused or that a minion has not acknowledged.

        Raises:
            StoreUnavailableError: nothing was sent; the next call retries.
        """
        sender = self._parts.job_sender
        retries = sender.take_retries()
        try:
            backlog = await self._store.post(
                lambda conn: sender.find_resends(conn, retries), lazy=True
            )
        except CatenaError:
            # No other event reports that these minions are connected and have queued orders.
            sender.retry_soon(retries)
            raise
        sender.deliver(backlog)

    async def _minions(self, request: JobRequest) -> tuple[str, ...]:
        if request.minions is None:
            found = await self._parts.targets.resolve(request.call.tgt, request.call.tgt_type)
        else:
            found = tuple(sorted(set(request.minions)))
            self._parts.targets.check(found)
        if not found:
            raise NoMatchError
        return batch.subset(found, request.subset, self._deliveries)

    def _spec(self, request: JobRequest, jid: Jid) -> JobSpec:
        now = self._parts.clock.now().timestamp()
        expiry = request.expiry_seconds or self._parts.expiry_seconds
        call = request.call
        if not call.tgt:
            call = replace(call, tgt=",".join(request.minions or ()), tgt_type="list")
        return JobSpec(
            jid=jid,
            user=request.user,
            issued=now,
            not_after=self._parts.steady.now() + expiry,
            deadline_seconds=request.deadline_seconds,
            **call.fields(),
        )

    def _insert(
        self,
        conn: sa.Connection,
        new: job_rows.NewJob,
        within: Within | None,
        send: Callable[[Collection[str]], None],
    ) -> Submitted:
        known = _known(conn, new.request)
        if known is not None:
            return known
        paused = self._deliveries.paused(conn, new.spec, tuple(new.deliveries))
        job_rows.insert(conn, new)
        # Send after the commit, even if the caller was cancelled.
        after_commit(conn, partial(send, paused))
        missing = tuple(name for name in new.deliveries if name not in self._deliveries)
        submitted = Submitted(new.spec.jid, tuple(new.deliveries), missing)
        self._parts.bus.record(conn, events.job_new(new.spec.jid), _new_event(submitted, new.spec))
        if within is not None:
            within(conn, submitted)
        # Last, because observers of a pause read the rows that *within* stores.
        for minion, why in paused.items():
            self._deliveries.pause(conn, new.spec.jid, minion, why)
        if new.request.idempotency_key:
            once.hit_stored_failpoint()
        return submitted

    def _orders(self, new: job_rows.NewJob) -> list[DeliveryOrder]:
        # Build them from memory, to avoid reading the rows that were just committed.
        payloads = new.request.payloads
        orders = []
        for minion, state in new.deliveries.items():
            if state is Delivery.held:
                continue
            payload = payloads.get(minion)
            spec = job_rows.with_payload(new.spec, minion, payload) if payload else new.spec
            orders.append(DeliveryOrder(minion, spec, stored_as_sent=state is Delivery.sent))
        return orders

    def _cancel(
        self, conn: sa.Connection, jid: str, minions: Collection[str], reason: str
    ) -> dict[str, str]:
        job_rows.job(conn, jid)
        outcome: dict[str, str] = {}
        for row in job_rows.deliveries(conn, jid):
            if minions and row.minion not in minions:
                continue
            if row.state in {state.value for state in UNDER_WAY}:
                job_rows.set_cancel(conn, jid, row.minion, reason)
                outcome[row.minion] = "stopping"
                continue
            at = (jid, row.minion, row.state)
            moved = self._deliveries.move(conn, at, DeliveryEvent.cancel, Actor.api, reason)
            outcome[row.minion] = moved.value if moved else row.state
        return outcome

    def _expire(self, conn: sa.Connection, now: float) -> int:
        rows = job_rows.due_to_expire(conn, now)
        for row in rows:
            _, minion, state = row
            detail = f"not delivered in time; {self._why_unsent(minion, Delivery(state))}"
            self._deliveries.move(conn, row, DeliveryEvent.expire, Actor.system, detail)
        return len(rows)

    def _why_unsent(self, minion: str, state: Delivery) -> str:
        """Return why a delivery that has just expired was not sent."""
        if minion not in self._deliveries:
            return "the minion was not connected"
        if state is Delivery.held:
            return "it waited for a place in its batch"
        if self._deliveries.ssh.takes(minion):
            return "no visit over SSH began it"
        return "the minion was connected, but the order could not be sent to it"


def _known(conn: sa.Connection, request: JobRequest) -> Submitted | None:
    """Return the job of an earlier request with this key, or None."""
    if not request.idempotency_key:
        return None
    jid = job_rows.repeated_jid(conn, request)
    if jid is None:
        return None
    found = tuple(row.minion for row in job_rows.deliveries(conn, jid))
    return Submitted(jid, found, repeated=True)


def _new_event(submitted: Submitted, spec: JobSpec) -> dict[str, Any]:
    return {
        "jid": spec.jid,
        "tgt_type": spec.tgt_type,
        "tgt": spec.tgt.split(",") if spec.tgt_type == "list" else spec.tgt,
        "user": spec.user,
        "fun": spec.fun,
        "arg": hide_arguments(salt_arguments(spec)),
        "minions": list(submitted.minions),
        "missing": [],
    }


def salt_arguments(spec: JobSpec) -> list[Any]:
    """Return the arguments as in Salt's events: keyword arguments as one dict at the end."""
    if not spec.kwargs:
        return list(spec.args)
    return [*spec.args, {"__kwarg__": True, **spec.kwargs}]
