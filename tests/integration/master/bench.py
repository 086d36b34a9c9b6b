"""A whole master in this process, whose minions are scripts on in-memory links."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar, cast

from catena.core.clock import ManualClock
from catena.core.config.folders import placed
from catena.core.config.master import MasterSettings
from catena.core.events import Event
from catena.core.frozen import fields
from catena.core.job import FunctionCall, JobProgress, JobReturn, JobSpec
from catena.master.chains.engine import Chains
from catena.master.daemon import Master
from catena.master.engines import ENGINES, EngineClass
from catena.master.jobs.model import JobRequest, Submitted
from catena.master.keys import rows as key_rows
from catena.master.keys.ring import KnownKey
from catena.transport.agent import Received
from catena.transport.gateway import Gateway
from catena.transport.keys import KeyPair, generate
from catena.transport.memory import MemoryGateway
from catena.transport.messages import (
    Envelope,
    Hello,
    JobOrder,
    JobProgressed,
    JobReceived,
    JobReturned,
)
from tests.support.databases import ON_POSTGRES, new_database
from tests.support.engines import chains_of
from tests.support.waiting import PATIENCE_SECONDS, run_ready_tasks, until

T = TypeVar("T")
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
_CALL = {field.name for field in fields(FunctionCall)}
_sessions = itertools.count(1)


class Bench(Master):
    """A master with a clock that stands still and no network."""

    def __init__(self, settings: MasterSettings, engines: Sequence[EngineClass] = ENGINES) -> None:
        self.hand = ManualClock(START)
        super().__init__(settings, self.hand, engines=engines)

    def make_gateway(self) -> Gateway:
        self.wire = MemoryGateway(self.accepted, self._on_message, self._on_gone)
        return cast(Gateway, self.wire)

    @property
    def chains(self) -> Chains:
        return chains_of(self)

    async def settle(self) -> None:
        """Wait until everything that was posted is committed and told."""
        for _ in range(4):
            await self.store.write(lambda conn: None)
            await run_ready_tasks(1)

    async def until(self, happened: Callable[[], Any], what: str = "a state of the master") -> Any:
        """Return the first true value of *happened*, which may be a coroutine function."""

        async def settled() -> Any:
            await self.settle()
            found = happened()
            return await found if inspect.isawaitable(found) else found

        return await until(settled, what)

    async def accept(self, name: str, machine: str = "") -> Script:
        pair = generate()
        key = KnownKey(
            pair.public,
            pair.fingerprint,
            name,
            "accepted",
            machine or f"mach-{name}",
            "10.0.0.1",
            "1",
            "",
            self.clock.now().timestamp(),
        )
        await self.store.write(lambda conn: key_rows.insert(conn, key))
        self.keys.remember(key)
        return Script(self, name, pair, machine or f"mach-{name}")

    async def connect(self, *names: str) -> list[Script]:
        scripts = [await self.accept(name) for name in names]
        for script in scripts:
            await script.hello()
        return scripts

    async def submit(self, tgt: str = "*", **more: Any) -> Submitted:
        given = {"fun": "test.ping", "tgt": tgt, **more}
        call = {name: given.pop(name) for name in list(given) if name in _CALL}
        request = JobRequest(given.pop("user", "root"), FunctionCall(**call), **given)
        done = await self.jobs.submit(request)
        await self.settle()
        return done

    async def states(self, jid: str) -> dict[str, str]:
        await self.settle()
        shown = await self.views.show(jid)
        return {name: found.state or "" for name, found in shown.minions.items()}

    async def events(self, tag: str = "*") -> list[Event]:
        """Return the stored events that match."""
        await self.settle()
        found: list[Event] = []
        last = self.bus.last
        async for event in self.bus.subscribe("*", 0) if last else _nothing():
            found.append(event)
            if event.seq >= last:
                break
        return [event for event in found if fnmatchcase(event.tag, tag)]


async def _nothing() -> AsyncIterator[Event]:
    return
    yield


class Script:
    """A minion that says what the test tells it to."""

    def __init__(
        self, bench: Bench, name: str, pair: KeyPair, machine: str, address: str = "127.0.0.1"
    ) -> None:
        self.bench = bench
        self.name = name
        self.pair = pair
        self.machine = machine
        self.session = f"session{next(_sessions)}"
        self.boot = "boot1"
        self.inbox: list[Envelope] = []
        self.link = bench.wire.link(pair.public, address)
        self._arrived = asyncio.Event()
        arrive = self.link.arrive

        def arrived(socket: str, frame: bytes) -> None:
            arrive(socket, frame)
            self._arrived.set()

        self.link.arrive = arrived  # type: ignore[method-assign]

    def pump(self) -> None:
        """Read what the master sent; pings are answered."""
        for event in self.link.service(0.0):
            if isinstance(event, Received):
                self.inbox.append(event.envelope)

    async def hello(self, *open_jobs: str, **more: Any) -> None:
        self.pump()
        words: dict[str, Any] = {
            "id": self.name,
            "machine_id": self.machine,
            "boot_id": self.boot,
            "session": self.session,
            "version": "1",
            "role": "minion",
            "first": True,
            "grains": {"id": self.name, "os": "Debian"},
            "open_jobs": open_jobs,
        }
        await self.say(Hello(**{**words, **more}))

    async def say(self, message: Any, socket: str = "control") -> None:
        assert self.link.send(socket, message)
        await self.bench.settle()
        self.pump()

    async def reconnect(self, *open_jobs: str, **more: Any) -> None:
        self.link.cut("test")
        self.pump()
        await self.hello(*open_jobs, **more)

    def got(self, kind: type[T]) -> list[T]:
        self.pump()
        return [e.message for e in self.inbox if isinstance(e.message, kind)]

    async def until(self, happened: Callable[[], T]) -> T:
        """Return the first true value of *happened*; look again when a message has arrived."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (found := happened()):
                self._arrived.clear()
                await self._arrived.wait()
        return found

    async def receives(self, kind: type[T], count: int = 1) -> list[T]:
        """Wait until the master has sent *count* messages of *kind*; return all of them."""
        await self.until(lambda: len(self.got(kind)) >= count)
        return self.got(kind)

    def orders(self) -> list[JobSpec]:
        return [order.spec for order in self.got(JobOrder)]

    async def receive(self, jid: str) -> None:
        await self.say(JobReceived(jid, 0))

    async def step(self, jid: str, seq: int = 1, kind: str = "started", **data: Any) -> None:
        await self.say(JobProgressed(JobProgress(jid, seq, kind, data)))

    async def answer(self, jid: str, value: Any = True, **more: Any) -> None:
        await self.say(JobReturned(a_return(jid, value, **more)))


def a_return(jid: str, value: Any = True, **more: Any) -> JobReturn:
    words = {"success": True, "retcode": 0, "started": 1.0, "duration_seconds": 0.5, **more}
    return JobReturn(jid, "test.ping", (), value=value, **words)


@asynccontextmanager
async def a_master(
    engines: Sequence[EngineClass] = ENGINES, **settings: Any
) -> AsyncIterator[Bench]:
    """A running bench below a short temporary folder (socket paths are short)."""
    settings = {"reactor_defaults": False, "interface": "127.0.0.1", **settings}
    with tempfile.TemporaryDirectory(prefix="cm") as folder:
        for name in ("srv", "pillar"):
            (Path(folder) / name).mkdir()
        base: dict[str, Any] = {
            "file_roots": {"base": [f"{folder}/srv"]},
            "pillar_roots": {"base": [f"{folder}/pillar"]},
        }
        if ON_POSTGRES:
            base["database"] = new_database(Path(folder))
        made = MasterSettings(root_dir=folder, **{**base, **settings})
        bench = Bench(placed(made, (), Path(folder), "master"), engines)
        await bench.start()
        try:
            yield bench
        finally:
            await bench.stop()
