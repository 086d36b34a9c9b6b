"""Hands stored jobs to connections, again and again until the minion has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import sqlalchemy as sa

from catena.core import failpoints
from catena.core.clock import Clock
from catena.core.job import JobSpec
from catena.master.events.bus import EventBus
from catena.master.events.feed import JobFeed
from catena.master.jobs import batch
from catena.master.jobs import rows as job_rows
from catena.master.jobs.delivery import Cause, Delivery
from catena.master.jobs.model import Order, ReturnObserver
from catena.master.jobs.steady import SteadyTime
from catena.master.sessions import Link, Sessions
from catena.master.store.database import Store, after_commit
from catena.transport.messages import JobCancel, JobOrder
from catena.transport.wire import Packed, packed

#: An order that a connected minion has not acknowledged after this long is sent again.
RESEND_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Pending:
    """What a minion that said Hello must be sent."""

    orders: tuple[Order, ...] = ()
    #: jid and reason.
    cancels: tuple[tuple[str, str], ...] = ()


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
    observers: list[ReturnObserver] = field(default_factory=list)
    elsewhere: Elsewhere = field(default_factory=Nowhere)

    def __contains__(self, minion: object) -> bool:
        """Return whether a job reaches *minion* now: it is connected, or needs no connection."""
        return minion in self.sessions or self.elsewhere.takes(str(minion))

    def move(
        self, conn: sa.Connection, row: tuple[str, str, str], cause: Cause, detail: str = ""
    ) -> Delivery | None:
        """Move one delivery; None when its life cycle does not allow it."""
        state = job_rows.move(conn, row, cause, detail, self.clock.now().timestamp())
        if state is None:
            return None
        jid, minion, seen = row
        if state is not Delivery.done and state.value != seen:
            for observer in self.observers:
                for tag, data in observer.on_delivery(conn, minion, jid, state, detail):
                    self.bus.record(conn, tag, data)
        item = {"type": "delivery", "minion": minion, "state": state.value, "detail": detail}
        after_commit(conn, lambda: self.feed.publish(jid, item))
        return state

    def release(self, conn: sa.Connection, jid: str, limit: int) -> list[Order]:
        """Let the next minions of a batched job begin; return what must be sent to them.

        Args:
            conn: the running transaction.
            jid: the job.
            limit: its batch; 0: it has none, all have begun.
        """
        if not limit:
            return []
        begun = [
            row[1]
            for row in batch.next_of(conn, jid, limit, self)
            if self.move(conn, row, Cause.release)
        ]
        return job_rows.orders(conn, jid, begun)


class Handover:
    """Sends orders and cancellations to the minions that are connected.

    Args:
        store: where deliveries are.
        link: sends.
        moves: of deliveries.
        steady: by which orders grow old.
    """

    def __init__(self, store: Store, link: Link, moves: Moves, steady: SteadyTime) -> None:
        self._store = store
        self._link = link
        self._moves = moves
        self._steady = steady
        self._full: set[str] = set()

    def send(self, orders: Iterable[Order]) -> None:
        """Send *orders* now where there is a connection; the others go when one is made."""
        sent: defaultdict[str, list[str]] = defaultdict(list)
        visited: list[str] = []
        now = self._moves.clock.now().timestamp()
        same = _Same(self._steady.now())
        for order in orders:
            if self._moves.elsewhere.takes(order.minion):
                visited.append(order.minion)
                continue
            session = self._moves.sessions.get(order.minion)
            if session is None:
                self._show(order, "queued", "not connected")
                continue
            failpoints.hit("master.order.send")
            if self._link.send(session.peer, same.message(order.spec)):
                sent[order.spec.jid].append(order.minion)
                self._show(order, "sent", "")
            else:
                self._full.add(order.minion)
                self._show(order, "queued", "its connection takes no more")
        for jid, minions in sent.items():
            self._store.later(_marking(jid, minions, now))
        if visited:
            self._moves.elsewhere.wake(visited)

    def cancel(self, minion: str, jid: str, reason: str) -> bool:
        """Tell a connected minion to stop a job; False when it isn't reached now."""
        session = self._moves.sessions.get(minion)
        return session is not None and self._link.send(session.peer, JobCancel(jid, reason))

    def pending(self, conn: sa.Connection, minion: str, open_jobs: Iterable[str]) -> Pending:
        """Settle what a Hello says about the minion's jobs, and return what it must be sent.

        What it names is received; what it had received and no longer names is lost; what it was
        sent and does not name goes again (it runs a jid once), unless it was cancelled meanwhile:
        the host may even be another one, that took the name of one whose key was deleted.
        """
        if self._moves.elsewhere.takes(minion):
            # An agent that a chain over SSH has just installed: its jobs are over there.
            return Pending()
        known = set(open_jobs)
        orders: list[Order] = []
        cancels: list[tuple[str, str]] = []
        for row in job_rows.open_of(conn, minion):
            at = (row.jid, minion, row.state)
            if row.state in (Delivery.queued.value, Delivery.sent.value):
                if row.jid in known:
                    self._moves.move(conn, at, Cause.receive)
                elif row.cancel:
                    self._moves.move(conn, at, Cause.stopped, row.cancel)
                    continue
                else:
                    orders.append(_order(row, minion))
            elif row.state == Delivery.held.value:
                orders += self._moves.release(conn, row.jid, row.batch)
            elif row.jid not in known:
                self._moves.move(conn, at, Cause.forgotten, "the minion no longer knows this job")
                continue
            if row.cancel:
                cancels.append((row.jid, row.cancel))
        return Pending(tuple(orders), tuple(cancels))

    def deliver(self, minion: str, pending: Pending) -> None:
        """Send what `pending` found."""
        self.send(pending.orders)
        for jid, reason in pending.cancels:
            self.cancel(minion, jid, reason)

    def again(self, names: Collection[str]) -> None:
        """Send what is queued for *names* with the next round: they have come to us."""
        self._full.update(names)

    def refused(self) -> set[str]:
        """Return, once, the minions whose connection took no more."""
        full, self._full = self._full, set()
        return full

    def retry(self, conn: sa.Connection, full: Iterable[str]) -> list[Order]:
        """Return orders that must go again or can go now.

        Those of *full* that were never taken, those that were not acknowledged in time, and the
        next ones of batches in which somebody left.
        """
        now = self._moves.clock.now().timestamp()
        orders = [
            _order(row, minion)
            for minion in full
            for row in job_rows.open_of(conn, minion)
            if row.state == Delivery.queued.value
        ]
        for row in job_rows.unacknowledged(conn, now - RESEND_SECONDS):
            if row.minion in self._moves.sessions:
                orders.append(_order(row, row.minion))
                job_rows.touch(conn, row.jid, row.minion, now)
        for jid, limit in job_rows.open_batches(conn):
            orders += self._moves.release(conn, jid, limit)
        return orders

    def _show(self, order: Order, state: str, detail: str) -> None:
        item = {"type": "delivery", "minion": order.minion, "state": state, "detail": detail}
        self._moves.feed.publish(order.spec.jid, item)


class _Same:
    """The message of one spec, packed once for all minions that get it."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._spec: JobSpec | None = None
        self._message: Packed | None = None

    def message(self, spec: JobSpec) -> Packed:
        if self._message is None or spec is not self._spec:
            self._spec, self._message = spec, packed(JobOrder(spec, self._now))
        return self._message


def _order(row: sa.Row[Any], minion: str) -> Order:
    return Order(minion, job_rows.spec_of(row, row.chain, row.epoch))


def _marking(jid: str, minions: list[str], now: float) -> Any:
    return lambda conn: job_rows.mark_sent(conn, jid, minions, now)
