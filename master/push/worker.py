"""Carries out jobs on hosts that SSH reaches: who is visited when, and what becomes of a visit.

What a host must do stands in the store, as jobs and deliveries like those of minions; what it says
goes the way of a minion's words (`master.jobs.returns`). So a master may die at any moment: the
next one finds the same deliveries open, visits the same hosts, and finds the same runs there.
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
from catena.master.chains.dependencies import KnownHost
from catena.master.chains.ledger import ChainLedger
from catena.master.executions import leases
from catena.master.executions.leases import Lease, LeaseLostError
from catena.master.jobs import rows as job_rows
from catena.master.jobs.model import JobRequest, Submitted
from catena.master.jobs.returns import Returns
from catena.master.process.clocks import ClockReading
from catena.master.push import decide, rows
from catena.master.push import messages as m
from catena.master.push.decide import Ended, Errand, Leave, OpenJob
from catena.master.push.hosts import RosterHosts
from catena.master.push.lifecycle import HOST, HostEvent, HostState
from catena.master.push.looks import Looks
from catena.master.push.reports import Fire, Reports
from catena.master.push.visitor import VisitDiedError, Visitor
from catena.master.store.database import Store, StoreUnavailableError, after_commit
from catena.master.store.ssh_tables import SSH_HOSTS
from catena.transport.messages import JobRejected

LOG = logging.getLogger(__name__)

#: The longest sleep, and the shortest.
TICK_SECONDS = 5.0
SHORTEST_SECONDS = 0.05
#: A visit that nobody holds any longer than this is somebody else's to make.
LEASE_SECONDS = 30.0
#: How often a visit is held on to, and asked whether its job is called off.
HOLD_SECONDS = 0.5
LEASE_EVERY = 10.0
#: How often all open jobs are compared with the roster: a wake may be lost with its master.
SWEEP_SECONDS = 60.0


class JobService(Protocol):
    """The part of `master.jobs.service.Jobs` that is used here."""

    async def submit(self, request: JobRequest) -> Submitted:
        """Store a job."""


@dataclass(frozen=True)
class WorkerParts:
    """What the worker works with."""

    store: Store
    jobs: JobService
    hosts: RosterHosts
    returns: Returns
    #: Stores an event of a host: host, event id, tag, data.
    fire: Fire
    looks: Looks
    clocks: Callable[[], ClockReading]
    #: The time by which orders grow old.
    steady: Callable[[], float]
    #: Files that one host alone sees: path below the roots -> file.
    overlay: Callable[[str], Mapping[str, Path]]
    #: The master's settings as plain data, and the folder that they are from.
    settings: Mapping[str, Any]
    config_dir: str
    extra_roots: tuple[str, ...]
    #: Visits at a time.
    width: int
    #: Seconds after which a host whose reboot was asked for is looked at.
    again: float
    #: Called when a visit has ended: who waits for what it found goes on.
    left: Callable[[], object] = lambda: None
    #: Called with hosts for which an agent answers from now on.
    hand_over: Callable[[Collection[str]], object] = lambda names: None
    #: Begins a visit.
    start: Callable[[m.Order], Any] = Visitor.start
    #: This process, among all masters on the database.
    name: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass
class _Visit:
    """A visit that goes on."""

    host: str
    errand: Errand
    #: The claim to the host; what the visit stores about the host, it stores under it.
    lease: Lease
    task: asyncio.Task[None] | None = None
    visitor: Visitor | None = None
    phase: str = ""
    told: str = ""
    called_off: bool = False
    #: Visits before it that did not get to the host; 0 once this one did.
    tries: int = 0


class SshWorker:
    """Visits hosts, each by one process at a time, and so many at once."""

    def __init__(self, parts: WorkerParts) -> None:
        self._parts = parts
        self._store = parts.store
        self._news = asyncio.Event()
        self._visits: dict[str, _Visit] = {}
        self._swept = float("-inf")

    # -- asked from outside --------------------------------------------------------------------

    def takes(self, name: str) -> bool:
        """Return whether the jobs of *name* are carried out here."""
        return name in self._parts.hosts

    def wake(self, names: Collection[str]) -> None:
        """Have hosts visited for jobs that were just stored."""
        every = sorted(names)
        self._parts.hosts.know(every)
        now = self._parts.clocks().wall

        def wanted(conn: sa.Connection) -> None:
            rows.want(conn, every, now)
            after_commit(conn, self._news.set)

        self._store.later(wanted)

    def visiting(self) -> list[str]:
        """Return the hosts that this process is with."""
        return sorted(self._visits)

    async def look_at(self, names: Collection[str]) -> None:
        """Have those of *names* looked at that never were."""
        every = [name for name in names if self.takes(name)]
        if not every:
            return
        self._parts.hosts.know(every)
        now = self._parts.clocks().wall
        await self._store.write(lambda conn: rows.want(conn, every, now, look=True))
        self._news.set()

    def known(self, conn: sa.Connection, names: Collection[str]) -> dict[str, KnownHost]:
        """Return what is known of those of *names* that are hosts of SSH, by id."""
        ours = [name for name in names if self.takes(name)]
        found = dict.fromkeys(ours, KnownHost())
        for name, row in rows.hosts(conn, ours).items():
            unfit = row.detail if row.state == HostState.unfit.value else ""
            found[name] = KnownHost(row.machine_id, row.boot_id, unfit, row.detail)
        return found

    def said(
        self, conn: sa.Connection, names: Collection[str], ahead: Collection[str]
    ) -> dict[str, str]:
        """Return in words where those of *names* stand that are hosts of SSH."""
        ours = [name for name in names if self.takes(name)]
        return rows.said(conn, ours, ahead, self._parts.clocks(), self._parts.again)

    # -- the loop ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Visit whoever is due, until cancelled."""
        try:
            while True:
                self._news.clear()
                delay = TICK_SECONDS
                try:
                    delay = await self.tick()
                except (CatenaError, OSError) as error:
                    LOG.warning("ssh: %s", error)
                try:
                    async with asyncio.timeout(delay):
                        await self._news.wait()
                except TimeoutError:
                    continue
        finally:
            await self.close()

    async def tick(self) -> float:
        """Begin the visits that are due; return the seconds until the next may be."""
        await self._refresh()
        now = self._parts.clocks()
        if now.mono - self._swept >= SWEEP_SECONDS:
            self._swept = now.mono
            await self._sweep(now.wall)
        await self._release(now.wall)
        desk = await self._store.read(lambda conn: rows.desk(conn, now, self._parts.again))
        handed_over = self._parts.hosts.keep({*desk.busy, *self._visits})
        if handed_over:
            self._parts.hand_over(handed_over)
        if not desk.rows:
            # Nobody was ever asked for: whoever is, wakes us.
            return SWEEP_SECONDS
        times = [now.wall + TICK_SECONDS]
        for name in sorted(desk.facts, key=lambda one: desk.facts[one].due):
            facts = desk.facts[name]
            if not self.takes(name):
                # An agent answers to this name by now.
                continue
            for job in decide.too_late(facts, self._parts.steady()):
                await self._give_up(name, job, desk.rows[name].detail)
            if decide.rests(facts):
                await self._move(desk.rows[name], HostEvent.rest, detail="", due=0.0, tries=0)
                continue
            found = decide.errand(facts, now.wall)
            if found is None:
                at = decide.next_time(facts)
                times += [at] if at is not None else []
            elif len(self._visits) < self._parts.width and name not in self._visits:
                await self._begin(desk.rows[name], found)
        return max(SHORTEST_SECONDS, min(times) - now.wall)

    async def _refresh(self) -> None:
        before = self._parts.hosts.fault
        try:
            await self._parts.hosts.refresh()
        except CatenaError as error:
            if str(error) != before:
                LOG.warning("the roster can't be read: %s", error)

    async def _sweep(self, now: float) -> None:
        """Find jobs of hosts that nobody asked to be visited: whose master died just then."""
        ids = self._parts.hosts.ids()
        if ids:
            lost = await self._store.read(lambda conn: rows.with_open_jobs(conn, ids))
            if lost:
                await self._store.write(lambda conn: rows.want(conn, lost, now))

    async def _release(self, now: float) -> None:
        """Take visits from masters that are gone."""
        for row in await self._store.read(lambda conn: rows.without_lease(conn, now)):
            if row.id not in self._visits:
                await self._store.write(partial(_release, row, now))

    async def open(self) -> None:
        """Learn of the hosts that there are; call it before anything is dispatched.

        One master has the database at a time, so visits of an earlier one have ended.
        """
        query = sa.select(SSH_HOSTS.c.id)
        names = await self._store.read(lambda conn: conn.execute(query).scalars().all())
        self._parts.hosts.know(names)
        now = self._parts.clocks()
        desk = await self._store.read(lambda conn: rows.desk(conn, now, self._parts.again))
        self._parts.hosts.keep(desk.busy)
        await self._refresh()
        await self._take_over()

    async def _take_over(self) -> None:
        await self._store.write(lambda conn: leases.lapse_all(conn, rows.LEASED))

    async def close(self) -> None:
        """End every visit; what runs on the hosts goes on."""
        tasks = [visit.task for visit in self._visits.values() if visit.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._visits.clear()

    async def _move(self, row: sa.Row[Any], event: HostEvent, **values: Any) -> bool:
        now = self._parts.clocks().wall
        return await self._store.write(
            lambda conn: rows.move(conn, row, event, Actor.system, now, **values)
        )

    # -- one visit -----------------------------------------------------------------------------

    async def _begin(self, row: sa.Row[Any], errand: Errand) -> None:
        """Claim a host and its job, then go there."""
        now = self._parts.clocks().wall

        def claim(conn: sa.Connection) -> Lease | None:
            if not rows.move(conn, row, HostEvent.visit, Actor.system, now, detail=""):
                return None
            wanted = (rows.LEASED, row.id)
            lease = leases.claim(conn, wanted, self._parts.name, now, LEASE_SECONDS)
            if lease is None:
                # The move is undone with the transaction.
                raise LeaseLostError
            if errand.job is not None:
                # From here on a cancellation is sent to the host, not only stored.
                job_rows.mark_sent(conn, errand.job.jid, [row.id], now)
            return lease

        try:
            lease = await self._store.write(claim)
        except LeaseLostError:
            lease = None
        if lease is None:
            return
        failpoints.hit("visit.claimed")
        visit = _Visit(row.id, errand, lease, tries=row.tries)
        self._visits[row.id] = visit
        visit.task = asyncio.create_task(self._visit(visit), name=f"ssh {row.id}")

    async def _visit(self, visit: _Visit) -> None:
        holding = asyncio.create_task(self._hold(visit))
        ended = Ended(decide.End.away, "the visit was cut off")
        try:
            ended = await self._go(visit)
        except VisitDiedError as error:
            ended = Ended(decide.End.away, str(error))
        except StoreUnavailableError as error:
            ended = Ended(decide.End.away, f"the master can't store it: {error}")
        except CatenaError as error:
            ended = Ended(decide.End.fault, str(error))
        except Exception as error:
            LOG.exception("the visit of %s failed", visit.host)
            ended = Ended(decide.End.away, f"a fault of the master: {error!r}; its log says where")
        finally:
            holding.cancel()
            if visit.visitor is not None:
                await visit.visitor.end()
            await self._leave(visit, ended)

    async def _go(self, visit: _Visit) -> Ended:
        order = await self._order(visit)
        if order is None:
            return Ended(decide.End.done)
        visit.visitor = await self._parts.start(order)
        job = visit.errand.job
        reports = Reports(self._parts.returns, visit.host, job, self._parts.fire)
        result = Ended(decide.End.done)
        async for word in visit.visitor.words():
            if isinstance(word, m.Phased):
                visit.phase = word.phase + (f": {word.text}" if word.text else "")
            elif isinstance(word, m.Facts):
                visit.tries = 0
                result = await self._judge(visit, word)
            elif isinstance(word, m.Returned):
                await reports.returned(word)
                failpoints.hit("visit.stored")
                await visit.visitor.say(m.Kept())
            elif isinstance(word, m.Troubled):
                return Ended(decide.End(word.end), word.text)
            else:
                await reports.take(word)
        await reports.finish()
        return result

    async def _order(self, visit: _Visit) -> m.Order | None:
        """Return what the visit is told; None where its job has ended meanwhile."""
        spec, cancel = None, ""
        if visit.errand.job is not None:
            job = await self._now(visit)
            if job is None:
                return None
            spec, cancel = await self._spec(job.jid, visit.host), job.cancel
            if spec is None:
                return None
            visit.called_off = bool(cancel)
        own = self._parts.overlay(visit.host)
        return m.Order(
            dict(self._parts.settings),
            visit.host,
            self._parts.config_dir,
            {path: str(local) for path, local in own.items()},
            self._parts.extra_roots,
            spec,
            cancel,
        )

    async def _judge(self, visit: _Visit, facts: m.Facts) -> Ended:
        """Store what was found, do what follows, and say whether to go on."""
        job = await self._now(visit)
        chain_id = 0
        if job is not None and job.fun == START:
            spec = await self._spec(job.jid, visit.host)
            chain_id = spec.chain.chain_id if spec is not None and spec.chain is not None else 0
        looks = self._parts.looks
        verdict = await self._store.write(
            lambda conn: looks.take(conn, visit.host, facts, job, chain_id)
        )
        failpoints.hit("visit.looked")
        assert visit.visitor is not None
        if verdict.remind:
            await self._remind(visit.host)
        go = verdict.go and job is not None
        await visit.visitor.say(m.Go(go))
        if verdict.person:
            return Ended(decide.End.person, verdict.person)
        if verdict.refuse:
            return Ended(decide.End.fault, verdict.refuse)
        if verdict.wait:
            return Ended(decide.End.done, verdict.wait, 1.0)
        news = go or verdict.play or verdict.remind
        return Ended(decide.End.done, "", 0.0 if news else self._parts.again)

    async def _remind(self, host: str) -> None:
        """Have a host asked for its reboot once more: who had to do it there is gone."""
        LOG.info("%s has not rebooted: it is asked again", host)
        meta = {"suma-action-chain": True}
        request = JobRequest("root", FunctionCall(RESUME, metadata=meta), minions=(host,))
        await self._parts.jobs.submit(request)

    async def _hold(self, visit: _Visit) -> None:
        """Keep the claim, show where the visit is, and pass on that its job is called off."""
        held = self._parts.clocks().mono
        while True:
            await asyncio.sleep(HOLD_SECONDS)
            try:
                if self._parts.clocks().mono - held >= LEASE_EVERY:
                    held = self._parts.clocks().mono
                    await self._keep(visit)
                if visit.phase != visit.told:
                    visit.told = visit.phase
                    self._store.later(partial(_show, visit.lease, visit.phase))
                await self._call_off(visit)
            except CatenaError as error:
                LOG.warning("%s: %s", visit.host, error)

    async def _keep(self, visit: _Visit) -> None:
        """Renew the claim; end the visit where another master has it."""
        now = self._parts.clocks().wall
        try:
            visit.lease = await self._store.write(
                lambda conn: leases.renew(conn, visit.lease, now, LEASE_SECONDS)
            )
        except LeaseLostError:
            LOG.warning("%s is visited by another master", visit.host)
            if visit.visitor is not None:
                await visit.visitor.end()

    async def _call_off(self, visit: _Visit) -> None:
        if visit.called_off or visit.visitor is None:
            return
        job = await self._now(visit)
        if job is not None and job.cancel:
            visit.called_off = True
            await visit.visitor.say(m.CallOff(job.cancel))

    async def _now(self, visit: _Visit) -> OpenJob | None:
        """Return the visit's job as it stands now; None where it has none that is open."""
        if visit.errand.job is None:
            return None
        jid, host = visit.errand.job.jid, visit.host
        return await self._store.read(lambda conn: rows.delivery(conn, jid, host))

    async def _spec(self, jid: str, host: str) -> JobSpec | None:
        orders = await self._store.read(lambda conn: job_rows.orders(conn, jid, [host]))
        return orders[0].spec if orders else None

    async def _leave(self, visit: _Visit, ended: Ended) -> None:
        self._visits.pop(visit.host, None)
        now = self._parts.clocks().wall
        job = await self._now(visit)
        # A job that was refused before it could begin has not begun, however it stands.
        left = decide.leave(ended, job, visit.tries, now)
        if left.event is not HostEvent.leave:
            LOG.info("%s: %s", visit.host, left.detail)
        if left.reject and job is not None:
            await self._reject(visit.host, job, left.reject)
        await self._store.write(lambda conn: self._left(conn, visit.lease, left, now))
        self._news.set()
        self._parts.left()

    def _left(self, conn: sa.Connection, lease: Lease, left: Leave, now: float) -> None:
        row = rows.host(conn, lease.id)
        if not leases.release(conn, lease) or row is None:
            return
        values = {"detail": left.detail, "due": left.due, "tries": left.tries}
        rows.move(conn, row, left.event, Actor.agent, now, **values)
        if left.tries == 1:
            state = HOST.next(HostState.visited, left.event, Actor.agent)
            self._parts.looks.tell(conn, lease.id, state.value, left.detail)

    async def _reject(self, host: str, job: OpenJob, reason: str) -> None:
        await self._parts.returns.rejected(host, JobRejected(job.jid, reason))

    async def _give_up(self, host: str, job: OpenJob, detail: str) -> None:
        """End a job that was on its way for too long; a host that has it is to forget it."""
        LOG.info("%s: job %s is given up: %s", host, job.jid, detail)
        await self._reject(host, job, f"not begun by its time over SSH: {detail}")
        now = self._parts.clocks()

        def forget(conn: sa.Connection) -> None:
            fence_rows.forget_job(ChainLedger(conn, now), job.jid, host)

        await self._store.write(forget)


def _release(row: sa.Row[Any], now: float, conn: sa.Connection) -> None:
    """End the visit of a master that is gone, unless it has renewed its lease meanwhile."""
    if leases.end_lapsed(conn, (rows.LEASED, row.id), now):
        text = "the master that was with it is gone"
        rows.move(conn, row, HostEvent.lose, Actor.system, now, detail=text, due=0.0)


def _show(lease: Lease, phase: str, conn: sa.Connection) -> None:
    """Store what a visit is doing, for people."""
    leases.require(conn, lease)
    rule = SSH_HOSTS.c.id == lease.id
    conn.execute(sa.update(SSH_HOSTS).where(rule).values(detail=phase[:300]))
