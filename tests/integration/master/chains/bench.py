"""A master's chains on a real store and job service, with minions that only return things."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from catena.client.requests.chains import ChainAction, ChainDocument, ChainRef, ChainSchedule
from catena.core.clock import ManualClock
from catena.core.events import Event
from catena.core.job import JobProgress, JobReturn
from catena.core.records import encode
from catena.master.chains.dependencies import ChainParts, ChainRules
from catena.master.chains.engine import Chains
from catena.master.chains.files import ChainFiles
from catena.master.chains.rendering import ChunkRenderer
from catena.master.events.bus import EventBus
from catena.master.events.feed import JobFeed
from catena.master.executions.starts import AgentStarts
from catena.master.jobs.sender import DeliveryLedger, JobSender
from catena.master.jobs.service import JobParts, Jobs
from catena.master.jobs.steady_clock import SteadyClock
from catena.master.minions.sessions import Sessions
from catena.master.process.clocks import HostClocks
from catena.master.requests.blobs import Blobs
from catena.master.store.database import Store
from catena.master.store.tables import JOBS, KEYS, MINIONS
from tests.support.databases import new_database

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = 3600.0


class NoLink:
    """Nobody is connected: deliveries stay queued, which chains don't mind."""

    def send(self, peer: Any, message: Any, reply_to: bytes = b"") -> bool:
        return False


class AllMinions:
    """Targets without expressions: "*" or a list of ids."""

    def __init__(self, ids: tuple[str, ...]) -> None:
        self.ids = ids

    async def resolve(self, tgt: str, tgt_type: str) -> tuple[str, ...]:
        return self.ids if tgt == "*" else tuple(n for n in tgt.split(",") if n in self.ids)

    def check(self, minions: Any) -> None:
        assert set(minions) <= set(self.ids), minions


class Bench:
    """Everything that a test of chains needs; made by `a_bench`."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        minions: tuple[str, ...],
        renderer: ChunkRenderer | None = None,
    ) -> None:
        self.renderer = renderer or ChunkRenderer()
        self.folder = folder
        self.store = store
        self.minions = minions
        self.clock = ManualClock(START)
        self.host_boot = "master-boot-1"
        self.host_id = "master-host-1"
        self.bus = EventBus(store, self.clock)
        self.blobs = Blobs(folder / "blobs")
        self.files = ChainFiles(folder / "chains")
        self.jobs = self._jobs()
        self.rules = ChainRules()
        self.chains = self._chains()

    def _jobs(self) -> Jobs:
        deliveries = self.deliveries = DeliveryLedger(self.bus, JobFeed(), Sessions(), self.clock)
        steady = SteadyClock(self.store, HostClocks(self.clock, self.host_boot, self.host_id).read)
        self.job_sender = JobSender(self.store, NoLink(), deliveries, steady)
        targets = AllMinions(self.minions)
        return Jobs(
            JobParts(
                self.store,
                self.bus,
                deliveries,
                self.job_sender,
                targets,
                self.clock,
                steady,
                24 * HOUR,
            )
        )

    def _chains(self) -> Chains:
        self.parts = ChainParts(
            store=self.store,
            bus=self.bus,
            jobs=self.jobs,
            targets=AllMinions(self.minions),
            uploads=self.blobs,
            files=self.files,
            clocks=HostClocks(self.clock, self.host_boot, self.host_id),
            rules=self.rules,
            renderer=self.renderer,
        )
        chains = Chains(self.parts)
        self.jobs.observe(chains.results)
        self.deliveries.holds = chains
        self.agent_starts = AgentStarts(self.store, self.bus, [chains])
        return chains

    async def restart(self) -> None:
        """Start the master's rooms anew on the same store and folder."""
        self.files = ChainFiles(self.folder / "chains")
        self.jobs = self._jobs()
        await self.jobs.open()
        self.chains = self._chains()
        await self.chains.open()
        await self.job_sender.open()

    async def move_to_host(self, number: int, *, uptime: float, ahead: float = 0.0) -> None:
        """Start the master on another host, which has its own boot, uptime and wall clock."""
        self.clock = ManualClock(self.clock.now() + timedelta(seconds=ahead), uptime)
        self.host_id, self.host_boot = f"master-host-{number}", f"boot-of-host-{number}"
        await self.restart()

    async def open(self) -> None:
        await self.bus.open()
        await self.jobs.open()
        await self.store.write(self._accept)
        await self.chains.open()

    def _accept(self, conn: sa.Connection) -> None:
        now = START.timestamp()
        for number, minion in enumerate(self.minions):
            key = f"{number:040d}"
            conn.execute(
                sa.insert(KEYS).values(
                    minion=minion,
                    public_key=key,
                    fingerprint=key + "f" * 24,
                    state="accepted",
                    since=now,
                    seen=now,
                )
            )
            conn.execute(
                sa.insert(MINIONS).values(
                    id=minion,
                    machine_id=f"machine{number}",
                    boot_id=f"{minion}-boot-1",
                    since=now,
                    last_seen=now,
                )
            )

    # -- the operator --------------------------------------------------------------------------

    async def apply(
        self,
        label: str,
        *actions: tuple[str, Mapping[str, Any]],
        tgt: str = "*",
        again: bool = False,
    ) -> int:
        entries = tuple(
            {"tgt": tgt, "action": {"kind": kind, "data": dict(data)}} for kind, data in actions
        )
        made = await self.chains.service.apply(ChainDocument(label, entries, again=again), "alice")
        return made.id

    async def begin(
        self, label: str, *actions: tuple[str, Mapping[str, Any]], again: bool = False
    ) -> int:
        """Apply, schedule for now and dispatch a chain; *again* beside one of its label."""
        chain_id = await self.apply(label, *actions, again=again)
        await self.chains.service.schedule(ChainSchedule(str(chain_id)), "alice")
        await self.chains.scheduler.tick()
        return chain_id

    async def show(self, label: str) -> dict[str, Any]:
        shown: dict[str, Any] = encode(await self.chains.service.show(ChainRef(label), "alice"))
        return shown

    async def states(self, label: str, minion: str = "") -> list[str]:
        """Return the states of a minion's executions in order."""
        view = await self.show(label)
        name = minion or self.minions[0]
        return [a["state"] for m in view["minions"] if m["minion"] == name for a in m["actions"]]

    async def job_ids(self, fun: str) -> list[str]:
        query = sa.select(JOBS.c.jid).where(JOBS.c.fun == fun).order_by(JOBS.c.jid)
        return await self.store.read(lambda conn: list(conn.execute(query).scalars()))

    # -- the minions ---------------------------------------------------------------------------

    async def returns(self, ret: JobReturn, minion: str = "") -> None:
        name = minion or self.minions[0]

        def take(conn: sa.Connection) -> None:
            self.parts.record_all(conn, self.chains.results.on_return(conn, name, ret))

        await self.store.write(take)

    async def progresses(self, jid: str, seq: int, minion: str = "", **data: Any) -> None:
        name = minion or self.minions[0]
        progress = JobProgress(jid, seq, "action", data, self.clock.now().timestamp())

        def take(conn: sa.Connection) -> None:
            self.parts.record_all(conn, self.chains.results.on_progress(conn, name, progress))

        await self.store.write(take)

    async def greets(self, boot_id: str, minion: str = "") -> Event:
        """Store what a Hello of a new agent process leaves; return its start event."""
        name = minion or self.minions[0]
        data = {"id": name, "boot_id": boot_id, "session": "s"}

        def store(conn: sa.Connection) -> Event:
            greeted = sa.update(MINIONS).where(MINIONS.c.id == name)
            conn.execute(greeted.values(boot_id=boot_id))
            return self.bus.record(conn, f"salt/minion/{name}/start", data)

        return await self.store.write(store)

    async def says_hello(self, *open_jobs: str, minion: str = "") -> list[str]:
        """Settle what a Hello says; return the jids that the minion is sent."""
        name = minion or self.minions[0]
        found = await self.store.write(
            lambda conn: self.job_sender.reconcile(conn, name, open_jobs)
        )
        return [str(order.spec.jid) for order in found.orders]

    async def starts(self, boot_id: str, minion: str = "") -> None:
        await self.follows(await self.greets(boot_id, minion))

    async def follows(self, *starts: Event) -> None:
        """Let chains take start events."""
        await self.agent_starts.take(starts, starts[-1].seq)


def action(kind: str, **data: Any) -> ChainAction:
    return ChainAction(kind, data)


def row(result: bool | None, comment: str = "", **more: Any) -> dict[str, Any]:
    return {
        "result": result,
        "comment": comment,
        "changes": {},
        "duration": 12.5,
        "start_time": "10:00:00.000000",
        **more,
    }


def key(chain_id: int, action_id: int, chunk: int, fun: str = "state.apply") -> str:
    ident = f"mgr_actionchain_{chain_id}_action_{action_id}_chunk_{chunk}"
    return f"mgrcompat_|-{ident}_|-{fun}_|-module_run"


def ret(jid: str, fun: str, value: Any, **more: Any) -> JobReturn:
    success = isinstance(value, dict) and all(
        r.get("result") is not False for r in value.values() if isinstance(r, dict)
    )
    given = {"success": success, "retcode": 0 if success else 2, **more}
    return JobReturn(
        jid=jid, fun=fun, fun_args=(), value=value, started=1000.0, duration_seconds=2.0, **given
    )


@asynccontextmanager
async def a_bench(
    folder: Path,
    minions: tuple[str, ...] = ("web1",),
    url: str = "",
    renderer: ChunkRenderer | None = None,
) -> AsyncIterator[Bench]:
    """Yield a fresh bench, whose store is a new database or that of *url*."""
    store = Store(url or new_database(folder / "master.db"))
    await store.open()
    try:
        bench = Bench(folder, store, minions, renderer)
        await bench.open()
        yield bench
    finally:
        await store.close()
