"""One simulation run from one seed: its hosts, the users' requests, its faults and its end."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from zmq.utils import z85

from catena import modules
from catena.client.requests.chains import ChainDocument, ChainRef, ChainSchedule
from catena.core.errors import CatenaError
from tests.sim import witness
from tests.sim.checker import Checker
from tests.sim.faults import Faults
from tests.sim.host import Host
from tests.sim.master import MasterHost
from tests.sim.network import Weather
from tests.sim.prints import Prints
from tests.sim.stage import Stage
from tests.sim.tasks import Killed

#: How long the healed world has to come to rest, virtual seconds.
REST_SECONDS = 2400.0
#: Worlds up to this seed are large: they were the first, and their stories must not change.
LARGE = 1000
#: From this seed on each odd one makes a rough world (`rough.RoughWorld`).
ROUGH = 10_000_000
#: From this seed on jobs print while they run. The stories of earlier seeds must not change.
STREAMING = 60_000_000


@dataclass(frozen=True)
class Size:
    """How large a world is: how many hosts and chains, for how long."""

    hosts: tuple[int, ...]
    chains: tuple[int, ...]
    #: Until when chains are made, and until when faults happen, virtual seconds.
    wanted_seconds: float
    troubled_seconds: float
    #: How often it is asked whether the world is at rest.
    look_seconds: float


def size(seed: int) -> Size:
    """Return how large the world of *seed* is."""
    if seed <= LARGE:
        return Size((1, 2, 2, 3), (1, 2, 2, 3), 30.0, 90.0, 15.0)
    return Size((1, 1, 2), (1, 1, 2), 12.0, 35.0, 4.0)


@dataclass(frozen=True)
class Wish:
    """One action that somebody wants."""

    key: str
    order: int
    minions: tuple[str, ...]
    #: "idempotent", "once", "reboot".
    kind: str
    seconds: float = 0.0
    fails: bool = False


@dataclass
class Order:
    """One chain that somebody wants."""

    label: str
    wishes: list[Wish]
    at: float
    cancel_at: float | None = None
    retries: int = 0
    #: The master has said that it is scheduled.
    accepted: bool = False
    cancelled_at: float | None = None
    chain_id: int = 0


@dataclass
class Outcome:
    """What came of a world."""

    seed: int
    violations: list[str]
    trace: list[str]
    facts: dict[str, int] = field(default_factory=dict)


class World:
    """See the module.

    Args:
        seed: everything follows from it.
        verbose: trace every step on a disk.
        faulty: False: nothing befalls it.
    """

    def __init__(
        self, seed: int, folder: Path, verbose: bool = False, faulty: bool = True
    ) -> None:
        self.seed, self.faulty = seed, faulty
        #: A world that nothing befalls has to come to a good end.
        self.judged_calm = True
        self.size = self.drawn_size(seed)
        self.stage = Stage(seed, verbose)
        self.stage.prints = Prints() if seed >= STREAMING else None
        rng = self.rng = random.Random(seed + 3)
        names = [f"m{number}" for number in range(1, rng.choice(self.size.hosts) + 1)]
        keys = {name: key_of(name) for name in (*names, *self.strangers)}
        self.master = MasterHost(self.stage, folder, {"ping_interval_seconds": 15}, keys)
        options = {"reboot_deadline_minutes": 1, "resume_after_seconds": 60}
        local = rng.random() < self.local_share
        self.hosts = {
            name: Host(
                self.stage, name, folder, keys[name],
                {**options, "resume": "local" if local else "reactor"},
            )
            for name in names
        }  # fmt: skip
        self.orders = [
            self.drawn_order(number) for number in range(1, rng.choice(self.size.chains) + 1)
        ]
        self.checker = self.judge()
        self.stage.reboots_work = rng.choice((1.0, 1.0, 0.6))

    # -- what other kinds of worlds have otherwise ---------------------------------------------

    #: Share of worlds whose hosts resume by themselves.
    local_share = 0.25
    #: Minions whose keys are accepted beside those of the hosts.
    strangers: tuple[str, ...] = ()

    def drawn_size(self, seed: int) -> Size:
        """Return how large the world is."""
        return size(seed)

    def judge(self) -> Checker:
        """Return who judges the world."""
        return Checker(self)

    def faults(self) -> Faults:
        """Return what can befall the world."""
        return Faults(self)

    async def prepare(self) -> None:
        """Do what belongs to the world beside its chains, until it is healed."""

    async def heal(self) -> None:
        """Take back what `prepare` did."""

    # -- wishes --------------------------------------------------------------------------------

    def drawn_order(self, number: int) -> Order:
        rng, label = self.rng, f"chain{number}"
        names = tuple(self.hosts)
        wishes: list[Wish] = []
        for order in range(rng.randint(2, 4)):
            some = names if rng.random() < 0.7 else tuple(rng.sample(names, 1))
            kind = rng.choice(("once", "idempotent", "idempotent", "reboot"))
            seconds = rng.choice((0.0, 0.5, 3.0, 12.0))
            fails = kind != "reboot" and rng.random() < 0.04
            wishes.append(Wish(f"{label}.{order}", order, some, kind, seconds, fails))
        cancel = rng.uniform(2, 60) if rng.random() < 0.15 else None
        retries = rng.choice((0, 1, 2))
        return Order(label, wishes, rng.uniform(0.5, self.size.wanted_seconds), cancel, retries)

    def document(self, order: Order) -> ChainDocument:
        entries: list[dict[str, Any]] = []
        for wish in order.wishes:
            action: dict[str, Any] = {"kind": "reboot"}
            if wish.kind != "reboot":
                kwargs = {"key": wish.key, "seconds": wish.seconds, "fails": wish.fails}
                data = {"fun": "witness.mark", "kwargs": kwargs}
                action = {"kind": "call", "data": data, "repeat": wish.kind}
            target = ",".join(wish.minions)
            entries.append({"tgt": target, "tgt_type": "list", "action": action})
        return ChainDocument(order.label, tuple(entries))

    # -- people --------------------------------------------------------------------------------

    async def ask(self, what: Callable[[Any], Awaitable[Any]]) -> Any:
        """Ask the master's chain service as a person does, again and again while it is away.

        Raises:
            CatenaError: what it said.
        """
        while True:
            master = self.master.master
            if master is None or not self.master.ready:
                await asyncio.sleep(1.0)
                continue
            asked = self.stage.person(_plain(what(master.chains.service)))
            while not asked.done() and self.master.master is master:
                await asyncio.wait({asked}, timeout=0.2)
            if not asked.done():
                asked.cancel()
                await asyncio.sleep(0.5)
                raise ConnectionResetError
            return asked.result()

    async def want(self, order: Order) -> None:
        """Have one chain: make it, give it its time, perhaps cancel it or try again."""
        await asyncio.sleep(order.at)
        await self.insist(order, lambda s: s.apply(self.document(order), "root"), "applied")
        request = ChainSchedule(order.label)
        shown = await self.insist(order, lambda s: s.schedule(request, "root"), "scheduled")
        order.accepted = True
        order.chain_id = shown.id
        self.stage.tell("root", f"scheduled {order.label} as {order.chain_id}")
        if order.cancel_at is not None:
            await asyncio.sleep(order.cancel_at)
            try:
                await self.ask(lambda s: s.cancel(ChainRef(str(order.chain_id)), "root"))
                self.stage.tell("root", f"cancelled {order.label}")
            except (CatenaError, ConnectionResetError) as error:
                self.stage.tell("root", f"could not cancel {order.label}: {error!r}")
        while order.retries:
            await asyncio.sleep(self.rng.uniform(5, 60))
            if self.at_rest():
                return
            try:
                await self.ask(lambda s: s.retry(ChainRef(str(order.chain_id)), "root"))
                self.stage.tell("root", f"tries {order.label} again")
                order.retries -= 1
            except (CatenaError, ConnectionResetError):
                if self.stage.loop.now > self.size.troubled_seconds:
                    return

    async def insist(self, order: Order, what: Callable[[Any], Awaitable[Any]], done: str) -> Any:
        """Ask until it is done; an error may mean that an earlier try had done it."""
        for _ in range(200):
            try:
                return await self.ask(what)
            except (CatenaError, ConnectionResetError) as error:
                self.stage.tell("root", f"{order.label} not {done}: {error!r}")
            await asyncio.sleep(1.0)
            try:
                shown = await self.ask(lambda s: s.show(ChainRef(order.label), "root"))
            except (CatenaError, ConnectionResetError):
                continue
            if done == "scheduled" and shown.state != "draft":
                return shown
            if done == "applied":
                return shown
        raise AssertionError(f"{order.label} can't be {done}")

    # -- running -------------------------------------------------------------------------------

    def at_rest(self) -> bool:
        """Return whether nothing is left to be done."""
        return not self.checker.open_business()

    async def _live(self) -> None:
        self.master.start()
        for host in self.hosts.values():
            host.power_on()
        wants = [self.stage.person(self.want(order)) for order in self.orders]
        faults = self.faults()
        if self.faulty:
            faults.plan(self.size.troubled_seconds)
            await self.prepare()
        await asyncio.sleep(self.size.troubled_seconds if self.faulty else 5.0)
        faults.heal()
        await self.heal()
        self.stage.network.weather = Weather()
        self.stage.tell("world", "is healed")
        end = self.stage.loop.now + REST_SECONDS
        calm = 0
        while self.stage.loop.now < end and calm < 2:
            await asyncio.sleep(self.size.look_seconds)
            if self.checker.storm():
                break
            wanted = all(want.done() for want in wants)
            calm = calm + 1 if wanted and self.at_rest() else 0
        for want in wants:
            if want.done() and not want.cancelled() and want.exception() is not None:
                raise want.exception()  # type: ignore[misc]  # just asked
            want.cancel()
        self.checker.at_the_end()
        if not self.faulty and self.judged_calm:
            self.checker.all_went_well()

    def run(self) -> Outcome:
        """Let it happen."""
        loop = self.stage.loop
        witness.STAGE.append(self.stage)
        index = {**modules.INDEX, "witness": "tests.sim.witness"}
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(modules, "INDEX", index))
            stack.enter_context(self.stage.tap.opened())
            stack.callback(witness.STAGE.pop)
            stack.callback(self._end)
            stack.callback(self.checker.close)
            loop.set_exception_handler(self._unhandled)
            main = self.stage.person(self._live())
            loop.run_until_complete(main)
        violations = [*self.stage.faults, *self.checker.violations]
        facts = {"virtual_seconds": int(loop.now), "effects": len(self.stage.effects)}
        return Outcome(self.seed, violations, self.stage.trace, facts)

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Nobody caught an error: something of the product, or of this world, is broken."""
        error = context.get("exception")
        if isinstance(error, (Killed, asyncio.CancelledError)):
            return
        text = "".join(traceback.format_exception(error)) if error else ""
        self.stage.fault(f"{context.get('message')} {text}")

    def _end(self) -> None:
        for host in self.hosts.values():
            host.condemn()
            host._end_all()
        if self.master.master is not None:
            self.master.kill()
        self.stage.loop.end()


async def _plain(work: Awaitable[Any]) -> Any:
    return await work


def key_of(name: str) -> str:
    """Return a public key that follows from a name."""
    return z85.encode(name.encode().ljust(32, b"k")).decode()


def kind_of(seed: int) -> type[World]:
    """Return which kind of world belongs to *seed*."""
    if seed < ROUGH or seed % 2 == 0:
        return World
    from tests.sim.rough import RoughWorld

    return RoughWorld


def folder() -> Path:
    """Return a fresh folder, in memory where there is room."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="catena-sim-", dir=memory if memory.is_dir() else None))


def run(
    seed: int,
    below: Path,
    verbose: bool = False,
    faulty: bool = True,
    calm: bool = False,
    change: Callable[[World], None] = lambda _: None,
    kind: type[World] | None = None,
) -> Outcome:
    """Let the world of *seed* happen in a folder below *below*; return what came of it.

    Args:
        seed: see World.
        below: an existing folder; one empty database is kept there for all worlds.
        verbose, faulty: see World.
        calm: nothing befalls it but what *change* does.
        change: does something to the world before it begins.
        kind: of the world; None: as its seed says.
    """
    here = below / f"seed-{seed}"
    here.mkdir()
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        world = (kind or kind_of(seed))(seed, here, verbose, faulty and not calm)
        world.judged_calm = not calm
        change(world)
        return world.run()
    finally:
        logging.disable(before)
        shutil.rmtree(here, ignore_errors=True)
