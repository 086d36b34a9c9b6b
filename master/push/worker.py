"""Carries out jobs on hosts that are reached over SSH: plans visits and applies their results.

A host's work is in the store as jobs and deliveries, like that of minions. Its reports are
processed like those of a minion (`master.jobs.returns`). A master may therefore die at any moment:
the next one finds the same open deliveries, visits the same hosts, and finds the same runs there.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa

from catena.core import failpoints
from catena.core.chain_calls import RESUME, START
from catena.core.errors import CatenaError
from catena.core.fsm import Actor
from catena.core.job import FunctionCall, JobSpec
from catena.master.chains import fence_rows
from catena.master.chains.ledger import ChainLedger
from catena.master.executions import leases
from catena.master.executions.leases import Lease, LeaseLostError
from catena.master.executions.ssh_hosts import KnownHost
from catena.master.jobs import rows as job_rows
from catena.master.jobs.delivery import Delivery
from catena.master.jobs.model import JobRequest, Submitted
from catena.master.jobs.output import Outputs
from catena.master.jobs.returns import Returns
from catena.master.process.clocks import ClockReading
from catena.master.push import decide, rows
from catena.master.push import messages as m
from catena.master.push.decide import EndedVisit, Leave, OpenJob, VisitPurpose, VisitVerdict
from catena.master.push.hosts import RosterHosts
from catena.master.push.lifecycle import HOST, HostEvent, HostState
from catena.master.push.looks import Looks
from catena.master.push.reports import Fire, Reports
from catena.master.push.rows import HostRecord
from catena.master.push.visitor import VisitDiedError, Visitor
from catena.master.store.database import Store, StoreUnavailableError, after_commit
from catena.transport.messages import JobRejected

LOG = logging.getLogger(__name__)

#: Maximum and minimum sleep between two ticks.
TICK_SECONDS = 5.0
SHORTEST_SECONDS = 0.05
#: Seconds after which a visit whose lease was not renewed may be taken over.
LEASE_SECONDS = 30.0
#: Seconds between checks for a cancelled job during a visit.
HOLD_SECONDS = 0.5
#: Seconds between renewals of a visit's lease, and between attempts after one failed.
LEASE_EVERY = 10.0
RENEW_AGAIN_SECONDS = 2.0
#: Seconds before the end of its lease at which a visit ends, if the lease could not be renewed.
STOP_SECONDS = 5.0
#: Seconds between comparisons of all open jobs with the roster, in case a wake was lost.
SWEEP_SECONDS = 60.0


class JobSubmitter(Protocol):
    """The part of `master.jobs.service.Jobs` that is used here."""

    async def submit(self, request: JobRequest) -> Submitted:
        """Store a job."""


@dataclass(frozen=True)
class WorkerParts:
    """The objects that the worker works with."""

    store: Store
    jobs: JobSubmitter
    hosts: RosterHosts
    returns: Returns
    #: Stores an event of a host: host, event id, tag, data.
    fire: Fire
    outputs: Outputs
    looks: Looks
    clocks: Callable[[], ClockReading]
    #: Returns the clock by which orders expire.
    steady: Callable[[], float]
    #: Returns files that only one host sees: path below the roots -> file.
    overlay: Callable[[str], Mapping[str, Path]]
    #: The master's settings as plain data.
    settings: Mapping[str, Any]
    #: Folder of the master's configuration.
    config_dir: str
    extra_roots: tuple[str, ...]
    #: Maximum number of concurrent visits.
    width: int
    #: Seconds after a requested reboot at which a host is looked at.
    again: float
    #: Called when a visit has ended, to wake tasks that wait for its facts.
    left: Callable[[], object] = lambda: None
    #: Called with hosts that are minions from now on.
    hand_over: Callable[[Collection[str]], object] = lambda names: None
    #: Starts a visit.
    start: Callable[[m.VisitOrder], Any] = Visitor.start
    #: Name of this process, unique among all masters of the database.
    name: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass
class _Visit:
    """A visit in progress."""

    host: str
    purpose: VisitPurpose
    #: The lease of the host, required for all that the visit stores about it.
    lease: Lease
    #: Ends the visit shortly before the lease does; every renewal reschedules it.
    limit: asyncio.Timeout
    task: asyncio.Task[None] | None = None
    visitor: Visitor | None = None
    #: Current phase, and the phase that was stored last.
    phase: str = ""
    stored_phase: str = ""
    #: Whether the cancellation of the job was sent to the visit.
    called_off: bool = False
    #: Number of preceding visits that did not reach the host; 0 once this one has.
    tries: int = 0


class SshWorker:
    """Visits hosts, each with one process at a time, with a limit on concurrent visits."""

    def __init__(self, parts: WorkerParts) -> None:
        self._parts = parts
        self._store = parts.store
        self._news = asyncio.Event()
        self._visits: dict[str, _Visit] = {}
        self._swept = float("-inf")

    # -- interface -----------------------------------------------------------------------------

    def takes(self, name: str) -> bool:
        """Return whether the jobs of *name* are carried out over SSH."""
        return name in self._parts.hosts

    def wake(self, names: Collection[str]) -> None:
        """Schedule visits for jobs that were just stored."""
        every = sorted(names)
        self._parts.hosts.know(every)
        now = self._parts.clocks().wall

        def wanted(conn: sa.Connection) -> None:
            rows.want(conn, every, now)
            after_commit(conn, self._news.set)

        self._store.later(wanted)

    def visiting(self) -> list[str]:
        """Return the hosts that this process is visiting."""
        return sorted(self._visits)

    async def look_at(self, names: Collection[str]) -> None:
        """Visit those of *names* that were never visited."""
        every = [name for name in names if self.takes(name)]
        if not every:
            return
        self._parts.hosts.know(every)
        now = self._parts.clocks().wall
        await self._store.write(lambda conn: rows.want(conn, every, now, look=True))
        self._news.set()

    def known(self, conn: sa.Connection, names: Collection[str]) -> dict[str, KnownHost]:
        """Return the data about those of *names* that are SSH hosts, by id."""
        ours = [name for name in names if self.takes(name)]
        found = dict.fromkeys(ours, KnownHost())
        for name, row in rows.hosts(conn, ours).items():
            unfit = row.detail if row.state == HostState.unfit.value else ""
            found[name] = KnownHost(row.machine_id, row.boot_id, unfit, row.detail)
        return found

    def status_texts(
        self, conn: sa.Connection, names: Collection[str], ahead: Collection[str]
    ) -> dict[str, str]:
        """Return descriptions of the states of those of *names* that are SSH hosts."""
        ours = [name for name in names if self.takes(name)]
        return rows.status_texts(conn, ours, ahead, self._parts.clocks(), self._parts.again)

    # -- the loop ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Visit the hosts that are due, until cancelled."""
        try:
            while True:
                self._news.clear()
                delay = TICK_SECONDS
                try:
                    delay = await self.tick()
                except (CatenaError, OSError) as error:
                    LOG.warning("planning visits over SSH failed: %s", error)
                try:
                    async with asyncio.timeout(delay):
                        await self._news.wait()
                except TimeoutError:
                    continue
        finally:
            await self.close()

    async def tick(self) -> float:
        """Start the visits that are due; return the seconds until the next one may be."""
        await self._refresh()
        now = self._parts.clocks()
        if now.mono - self._swept >= SWEEP_SECONDS:
            self._swept = now.mono
            await self._sweep(now.wall)
        await self._release(now.wall)
        overview = await self._store.read(lambda conn: rows.overview(conn, now, self._parts.again))
        handed_over = self._parts.hosts.keep({*overview.busy, *self._visits})
        if handed_over:
            self._parts.hand_over(handed_over)
        if not overview.rows:
            # No host was ever requested; the first request wakes the loop.
            return SWEEP_SECONDS
        times = [now.wall + TICK_SECONDS]
        for name in sorted(overview.facts, key=lambda one: overview.facts[one].due):
            facts = overview.facts[name]
            if not self.takes(name):
                # The host is a minion now.
                continue
            for job in decide.too_late(facts, self._parts.steady()):
                await self._give_up(name, job, overview.rows[name].detail)
            if decide.rests(facts):
                await self._move(overview.rows[name], HostEvent.rest, detail="", due=0.0, tries=0)
                continue
            found = decide.purpose(facts, now.wall)
            if found is None:
                at = decide.next_time(facts)
                times += [at] if at is not None else []
            elif len(self._visits) < self._parts.width and name not in self._visits:
                await self._begin(overview.rows[name], found)
        return max(SHORTEST_SECONDS, min(times) - now.wall)

    async def _refresh(self) -> None:
        before = self._parts.hosts.fault
        try:
            await self._parts.hosts.refresh()
        except CatenaError as error:
            if str(error) != before:
                LOG.warning("the roster can't be read: %s", error)

    async def _sweep(self, now: float) -> None:
        """Find open jobs whose visit nobody scheduled, because a master died at that moment."""
        ids = self._parts.hosts.ids()
        if ids:
            lost = await self._store.read(lambda conn: rows.with_open_jobs(conn, ids))
            if lost:
                await self._store.write(lambda conn: rows.want(conn, lost, now))

    async def _release(self, now: float) -> None:
        """Release the visits of masters that are gone."""
        for row in await self._store.read(lambda conn: rows.without_lease(conn, now)):
            if row.id not in self._visits:
                await self._store.write(partial(_release, row, now))

    async def open(self) -> None:
        """Load the known hosts; call it before anything is dispatched.

        Only one master at a time has the database, so visits of an earlier one have ended.
        """
        self._parts.hosts.know(await self._store.read(rows.known_ids))
        now = self._parts.clocks()
        overview = await self._store.read(lambda conn: rows.overview(conn, now, self._parts.again))
        self._parts.hosts.keep(overview.busy)
        await self._refresh()
        await self._take_over()

    async def _take_over(self) -> None:
        await self._store.write(lambda conn: leases.lapse_all(conn, rows.LEASED))

    async def close(self) -> None:
        """End every visit; runs on the hosts continue."""
        tasks = [visit.task for visit in self._visits.values() if visit.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._visits.clear()

    async def _move(self, row: HostRecord, event: HostEvent, **values: Any) -> bool:
        now = self._parts.clocks().wall
        return await self._store.write(
            lambda conn: rows.move(conn, row, event, Actor.system, now, **values)
        )

    # -- one visit -----------------------------------------------------------------------------

    async def _begin(self, row: HostRecord, purpose: VisitPurpose) -> None:
        """Take the lease of a host and its job, then start the visit."""
        now = self._parts.clocks().wall
        # Created before the claim, so that the visit never outlasts its lease.
        limit = asyncio.timeout(LEASE_SECONDS - STOP_SECONDS)

        def claim(conn: sa.Connection) -> Lease | None:
            if not rows.move(conn, row, HostEvent.visit, Actor.system, now, detail=""):
                return None
            wanted = (rows.LEASED, row.id)
            lease = leases.claim(conn, wanted, self._parts.name, now, LEASE_SECONDS)
            if lease is None:
                # Raising rolls back the transition with the transaction.
                raise LeaseLostError
            if purpose.job is not None:
                # From here on a cancellation is sent to the host instead of only being stored.
                job_rows.mark_sent(conn, purpose.job.jid, [row.id], now)
            return lease

        try:
            lease = await self._store.write(claim)
        except LeaseLostError:
            lease = None
        if lease is None:
            return
        failpoints.hit("visit.claimed")
        visit = _Visit(row.id, purpose, lease, limit, tries=row.tries)
        self._visits[row.id] = visit
        visit.task = asyncio.create_task(self._visit(visit), name=f"ssh {row.id}")

    async def _visit(self, visit: _Visit) -> None:
        holding = asyncio.create_task(self._maintain(visit))
        ended = EndedVisit(decide.VisitEnd.away, "the visit was cancelled")
        try:
            ended = await self._go_with_lease(visit)
        except LeaseLostError:
            ended = EndedVisit(decide.VisitEnd.away, "its lease was lost or could not be renewed")
            LOG.warning("the visit of %s ends: %s", visit.host, ended.text)
        except VisitDiedError as error:
            ended = EndedVisit(decide.VisitEnd.away, str(error))
        except StoreUnavailableError as error:
            ended = EndedVisit(
                decide.VisitEnd.away, f"the master can't store its reports: {error}"
            )
        except CatenaError as error:
            ended = EndedVisit(decide.VisitEnd.fault, str(error))
        except Exception as error:
            LOG.exception("the visit of %s failed", visit.host)
            ended = EndedVisit(
                decide.VisitEnd.away, f"an error of the master: {error!r}; see its log"
            )
        finally:
            holding.cancel()
            if visit.visitor is not None:
                await visit.visitor.end()
            try:
                await self._leave(visit, ended)
            except CatenaError as error:
                # The visit is released when its lease has expired.
                LOG.warning("the end of the visit of %s is not stored: %s", visit.host, error)
            finally:
                self._visits.pop(visit.host, None)
                self._news.set()
                self._parts.left()

    async def _go_with_lease(self, visit: _Visit) -> EndedVisit:
        """Carry out a visit while no other master can have its lease.

        Raises:
            LeaseLostError: another master has the lease, or it could not be renewed in time.
        """
        try:
            async with visit.limit:
                return await self._go(visit)
        except TimeoutError:
            if visit.limit.expired():
                raise LeaseLostError from None
            raise

    async def _go(self, visit: _Visit) -> EndedVisit:
        order = await self._order(visit)
        if order is None:
            return EndedVisit(decide.VisitEnd.done)
        visit.visitor = await self._parts.start(order)
        job = visit.purpose.job
        reports = Reports(
            self._parts.returns, visit.host, job, self._parts.fire, self._parts.outputs
        )
        result = EndedVisit(decide.VisitEnd.done)
        async for message in visit.visitor.messages():
            if isinstance(message, m.Phased):
                visit.phase = message.phase + (f": {message.text}" if message.text else "")
            elif isinstance(message, m.HostReport):
                visit.tries = 0
                result = await self._judge(visit, message)
            elif isinstance(message, m.Returned):
                await reports.returned(message)
                failpoints.hit("visit.stored")
                await visit.visitor.send(m.Kept())
            elif isinstance(message, m.Troubled):
                return EndedVisit(decide.VisitEnd(message.end), message.text)
            else:
                await reports.take(message)
        await reports.finish()
        return result

    async def _order(self, visit: _Visit) -> m.VisitOrder | None:
        """Return the order of a visit; None if its job has ended meanwhile."""
        spec, cancel = None, ""
        if visit.purpose.job is not None:
            job = await self._current_job(visit)
            if job is None or job.state is Delivery.paused:
                return None
            spec, cancel = await self._spec(job.jid, visit.host), job.cancel
            if spec is None:
                return None
            visit.called_off = bool(cancel)
        own = self._parts.overlay(visit.host)
        return m.VisitOrder(
            dict(self._parts.settings),
            visit.host,
            self._parts.config_dir,
            {path: str(local) for path, local in own.items()},
            self._parts.extra_roots,
            spec,
            cancel,
            output_bytes=self._parts.outputs.limit,
        )

    async def _judge(self, visit: _Visit, facts: m.HostReport) -> EndedVisit:
        """Store the findings and their consequences, and decide whether to continue."""
        job = await self._current_job(visit)
        chain_id = 0
        if job is not None and job.fun == START:
            spec = await self._spec(job.jid, visit.host)
            chain_id = spec.payload.number if spec is not None and spec.payload is not None else 0
        looks = self._parts.looks

        def take(conn: sa.Connection) -> VisitVerdict:
            # A newer visit may have found the host in a later boot.
            leases.require(conn, visit.lease)
            return looks.take(conn, visit.host, facts, job, chain_id)

        verdict = await self._store.write(take)
        failpoints.hit("visit.looked")
        assert visit.visitor is not None
        if verdict.remind:
            await self._request_reboot(visit.host)
        go = verdict.go and job is not None
        await visit.visitor.send(m.Go(go))
        if verdict.person:
            return EndedVisit(decide.VisitEnd.person, verdict.person)
        if verdict.refuse:
            return EndedVisit(decide.VisitEnd.fault, verdict.refuse)
        if verdict.pause:
            return EndedVisit(decide.VisitEnd.done, verdict.pause)
        if verdict.wait:
            return EndedVisit(decide.VisitEnd.done, verdict.wait, 1.0)
        news = go or verdict.play or verdict.remind
        return EndedVisit(decide.VisitEnd.done, "", 0.0 if news else self._parts.again)

    async def _request_reboot(self, host: str) -> None:
        """Request a reboot again, because the host's runner died before the first one."""
        LOG.info("%s has not rebooted; the reboot is requested again", host)
        meta = {"suma-action-chain": True}
        request = JobRequest("root", FunctionCall(RESUME, metadata=meta), minions=(host,))
        await self._parts.jobs.submit(request)

    async def _maintain(self, visit: _Visit) -> None:
        """Renew the lease, show the visit's phase, and forward a cancellation of its job."""
        due = self._next_renewal(LEASE_EVERY)
        while True:
            await asyncio.sleep(HOLD_SECONDS)
            try:
                if due():
                    due = self._next_renewal(RENEW_AGAIN_SECONDS)
                    await self._renew(visit)
                    due = self._next_renewal(LEASE_EVERY)
                if visit.phase != visit.stored_phase:
                    visit.stored_phase = visit.phase
                    self._store.later(partial(_show, visit.lease, visit.phase))
                await self._cancel_job(visit)
            except CatenaError as error:
                LOG.warning("the visit of %s: %s", visit.host, error)

    def _next_renewal(self, seconds: float) -> Callable[[], bool]:
        """Return a function that returns whether *seconds* have passed since now.

        The clock of the store counts time during which this host was suspended; the clock of the
        event loop limits the visit.
        """
        clocks, loop = self._parts.clocks, asyncio.get_running_loop()
        mono, at = clocks().mono, loop.time()
        return lambda: max(clocks().mono - mono, loop.time() - at) >= seconds

    async def _renew(self, visit: _Visit) -> None:
        """Renew the lease; end the visit if another master has taken it."""
        now, loop = self._parts.clocks().wall, asyncio.get_running_loop()
        end = loop.time() + LEASE_SECONDS - STOP_SECONDS
        try:
            visit.lease = await self._store.write(
                lambda conn: leases.renew(conn, visit.lease, now, LEASE_SECONDS)
            )
        except LeaseLostError:
            end = loop.time()
        if not visit.limit.expired():
            visit.limit.reschedule(end)

    async def _cancel_job(self, visit: _Visit) -> None:
        if visit.called_off or visit.visitor is None:
            return
        job = await self._current_job(visit)
        if job is not None and job.cancel:
            visit.called_off = True
            await visit.visitor.send(m.CallOff(job.cancel))

    async def _current_job(self, visit: _Visit) -> OpenJob | None:
        """Return the visit's job in its current state; None if it has no open job."""
        if visit.purpose.job is None:
            return None
        jid, host = visit.purpose.job.jid, visit.host
        return await self._store.read(lambda conn: rows.delivery(conn, jid, host))

    async def _spec(self, jid: str, host: str) -> JobSpec | None:
        orders = await self._store.read(lambda conn: job_rows.orders(conn, jid, [host]))
        return orders[0].spec if orders else None

    async def _leave(self, visit: _Visit, ended: EndedVisit) -> None:
        """Store the end of a visit, unless its lease was lost."""
        now = self._parts.clocks().wall
        job = await self._current_job(visit)
        # A job that was refused before its start has not begun, whatever its stored state.
        left = decide.leave(ended, job, visit.tries, now)
        if left.event is not HostEvent.leave:
            LOG.info("%s: %s", visit.host, left.detail)
        if left.reject and job is not None:
            try:
                await self._store.write(lambda conn: leases.require(conn, visit.lease))
            except LeaseLostError:
                # Another master visits the host now, perhaps for this job.
                return
            await self._reject(visit.host, job, left.reject)
        await self._store.write(lambda conn: self._left(conn, visit.lease, left, now))

    def _left(self, conn: sa.Connection, lease: Lease, left: Leave, now: float) -> None:
        row = rows.host(conn, lease.id)
        if not leases.release(conn, lease) or row is None:
            return
        values = {"detail": left.detail, "due": left.due, "tries": left.tries}
        rows.move(conn, row, left.event, Actor.agent, now, **values)
        if left.tries == 1:
            state = HOST.next(HostState.visited, left.event, Actor.agent)
            self._parts.looks.publish(conn, lease.id, state.value, left.detail)

    async def _reject(self, host: str, job: OpenJob, reason: str) -> None:
        await self._parts.returns.rejected(host, JobRejected(job.jid, reason))

    async def _give_up(self, host: str, job: OpenJob, detail: str) -> None:
        """Reject a job that could not be delivered in time; a host that has it must remove it."""
        LOG.info("job %s on %s is rejected, it can't start in time: %s", job.jid, host, detail)
        await self._reject(host, job, f"not started in time over SSH: {detail}")
        now = self._parts.clocks()

        def forget(conn: sa.Connection) -> None:
            fence_rows.forget_job(ChainLedger(conn, now), job.jid, host)

        await self._store.write(forget)


def _release(row: HostRecord, now: float, conn: sa.Connection) -> None:
    """End a visit whose lease has expired, unless the lease was renewed in the meantime."""
    if leases.end_lapsed(conn, (rows.LEASED, row.id), now):
        text = "the master that visited it has stopped"
        rows.move(conn, row, HostEvent.lose, Actor.system, now, detail=text, due=0.0)


def _show(lease: Lease, phase: str, conn: sa.Connection) -> None:
    """Store the phase of a visit, for display."""
    leases.require(conn, lease)
    rows.set_detail(conn, lease.id, phase)
