"""Rough simulation runs: many chains on few minions, impatient users and unplanned events.

In such a world several chains overlap on one minion; people cancel, retry and release them while
others run or wait for a boot; clients lose answers and repeat their commands; clean-ups fail; the
master's store is restored from a backup or moves to another host; and one accepted minion lies.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

from catena.client.requests import chains
from catena.client.requests.chains import ChainRef, ChainSchedule
from catena.client.requests.contract import AnyAsk
from catena.core.errors import CatenaError, NotFoundError
from catena.core.job import FunctionCall
from catena.core.records import encode
from catena.master.jobs.model import JobRequest
from catena.master.requests.rights import ADMINISTRATOR, Caller
from tests.sim.hostile import NAME as EVIL
from tests.sim.hostile import Hostile
from tests.sim.rough_checker import RoughChecker
from tests.sim.rough_faults import RoughFaults
from tests.sim.world import Order, Size, Wish, World, key_of

#: Label of the chain that is meant for the hostile minion; nobody judges how it ends.
BAIT = "bait"
CLEAN = "mgractionchains.clean"
ROOT = Caller("root", ADMINISTRATOR)


class RoughWorld(World):
    """See the module."""

    strangers = (EVIL,)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        luck = self.luck = random.Random(self.seed + 5)
        #: How often an answer of the master is lost on its way to the person who asked.
        self.lost_answers = luck.choice((0.0, 0.0, 0.2, 0.5))
        troubled = self.size.troubled_seconds
        self.hostile: Hostile | None = None
        if luck.random() < 0.5:
            self.hostile = Hostile(self, key_of(EVIL), troubled + 10.0)
        self._baited = self.hostile is not None and luck.random() < 0.5
        #: Commands of people so far: each has a key of its own.
        self._commands = 0
        #: Hosts whose resume file a folder has replaced.
        self.obstructed: set[str] = set()
        #: Hosts on which a person runs the cure that the errors name.
        self.to_cure: set[str] = set()

    def drawn_size(self, seed: int) -> Size:
        """As World."""
        return Size((1, 1, 1, 2), (2, 2, 3, 4), 14.0, 35.0, 4.0)

    def judge(self) -> RoughChecker:
        """As World."""
        return RoughChecker(self)

    def faults(self) -> RoughFaults:
        """As World."""
        return RoughFaults(self)

    def drawn_order(self, number: int) -> Order:
        """As World."""
        rng, label = self.rng, f"chain{number}"
        names = tuple(self.hosts)
        wishes = []
        for order in range(rng.randint(1, 3)):
            some = names if rng.random() < 0.8 else tuple(rng.sample(names, 1))
            kind = rng.choice(("once", "idempotent", "reboot", "reboot"))
            seconds = rng.choice((0.0, 0.5, 6.0))
            fails = kind != "reboot" and rng.random() < 0.2
            wishes.append(Wish(f"{label}.{order}", order, some, kind, seconds, fails))
        cancel = rng.uniform(0.2, 25) if rng.random() < 0.4 else None
        retries = rng.choice((0, 1, 2, 3))
        return Order(label, wishes, rng.uniform(0.5, self.size.wanted_seconds), cancel, retries)

    # -- people --------------------------------------------------------------------------------

    def _keyed(self, ask: AnyAsk, record: Any, key: str) -> Callable[[Any], Awaitable[Any]]:
        """Return a request to the dispatcher; repeated under *key* it takes effect once."""

        def request(_: Any) -> Awaitable[Any]:
            master = self.master.master
            assert master is not None
            found = master.dispatcher.answer(ROOT, ask.name, encode(record), key)
            return cast(Awaitable[Any], found)

        return request

    async def ask(self, what: Callable[[Any], Awaitable[Any]]) -> Any:
        """As World; now and then the answer is lost on its way."""
        answer = await super().ask(what)
        if self.luck.random() < self.lost_answers:
            raise ConnectionResetError("the answer was lost")
        return answer

    async def want(self, order: Order) -> None:
        """Have one chain, and do with it what impatient people do."""
        await asyncio.sleep(order.at)
        order.chain_id = await self._scheduled(order)
        order.accepted = True
        self.stage.tell("root", f"scheduled {order.label} as {order.chain_id}")
        if order.cancel_at is not None:
            await asyncio.sleep(order.cancel_at)
            await self._try(order, chains.CANCEL)
        end = self.size.troubled_seconds + 30.0
        while order.retries and self.stage.loop.now < end:
            await asyncio.sleep(self.luck.uniform(1, 20))
            done = await self._try(order, chains.RETRY)
            order.retries -= done
            if self.luck.random() < 0.5:
                await self._try(order, chains.RELEASE)

    async def _scheduled(self, order: Order) -> int:
        """Make a chain and give it its time, however often it takes; return its id."""
        ref, key = ChainRef(order.label), order.label
        apply = self._keyed(chains.APPLY, self.document(order), f"{key}/apply")
        schedule = self._keyed(chains.SCHEDULE, ChainSchedule(order.label), f"{key}/schedule")
        for _ in range(200):
            try:
                found = await self.ask(lambda s: s.show(ref, "root"))
                if found.state != "draft":
                    return int(found.id)
                await self.ask(schedule)
            except NotFoundError:
                # It was never made, or a restored store has forgotten it.
                with suppress(CatenaError, ConnectionResetError):
                    await self.ask(apply)
            except (CatenaError, ConnectionResetError) as error:
                self.stage.tell("root", f"{order.label} not scheduled: {error!r}")
            await asyncio.sleep(1.0)
        raise AssertionError(f"{order.label} can't be scheduled")

    async def _try(self, order: Order, ask: AnyAsk) -> bool:
        """Give a command, and repeat it where the answer was lost; return whether it was taken."""
        self._commands += 1
        what = ask.name.partition(".")[2]
        key = f"{order.label}/{what}/{self._commands}"
        command = self._keyed(ask, ChainRef(str(order.chain_id)), key)
        for _ in range(3):
            try:
                await self.ask(command)
            except ConnectionResetError:
                await asyncio.sleep(self.luck.uniform(0.1, 2.0))
                continue
            except CatenaError:
                return False
            self.stage.tell("root", f"{what} {order.label}")
            return True
        return False

    # -- beside its chains ---------------------------------------------------------------------

    async def prepare(self) -> None:
        """As World."""
        assert isinstance(self.checker, RoughChecker)
        self.stage.person(self.checker.watch())
        if self.hostile is not None:
            self.stage.person(self.hostile.live())
        if self._baited:
            self.stage.person(self._bait())

    async def _bait(self) -> None:
        wishes = [Wish(f"{BAIT}.{order}", order, (EVIL,), "once") for order in range(2)]
        order = Order(BAIT, wishes, 0.0)
        await asyncio.sleep(self.luck.uniform(1, 20))
        for what in (
            lambda s: s.apply(self.document(order), "root"),
            lambda s: s.schedule(ChainSchedule(BAIT), "root"),
        ):
            try:
                await self.ask(what)
            except (CatenaError, ConnectionResetError) as error:
                self.stage.tell("root", f"no bait: {error!r}")

    async def heal(self) -> None:
        """As World: people run the cure that errors name where something stands in the way."""
        for name in sorted(self.to_cure):
            self.stage.person(self._cure(name))

    async def _cure(self, name: str) -> None:
        await asyncio.sleep(self.luck.uniform(5, 120))
        request = JobRequest("root", FunctionCall(CLEAN), minions=(name,))
        for _ in range(100):
            master = self.master.master
            try:
                if master is not None and self.master.ready:
                    await master.jobs.submit(request)
                    self.stage.tell("root", f"runs {CLEAN} on {name}")
                    self.to_cure.discard(name)
                    return
            except (CatenaError, asyncio.CancelledError) as error:
                self.stage.tell("root", f"no cure for {name}: {error!r}")
            await asyncio.sleep(2.0)
