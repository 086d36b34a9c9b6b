"""Simulation runs in which users pause and continue chains, everywhere or on one minion.

- I17: once a pause is confirmed, no order that starts or resumes its run is sent where it is
  paused, and no chunk begins there that was not ordered before, until somebody continues it.
  After that it comes to an end like any other.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from typing import Any, NamedTuple

from catena.client.requests.chains import ChainPause
from catena.core.chain_calls import RESUME, START
from catena.core.errors import CatenaError, InvalidStateError, NotFoundError
from catena.core.job import JobSpec
from catena.master.store.execution_tables import PAUSES
from catena.transport import wire
from catena.transport.messages import JobOrder
from tests.sim import store_views as views
from tests.sim.checker import Checker
from tests.sim.host import Host
from tests.sim.world import Order, World

_EVERYWHERE = ""


class _Paused(NamedTuple):
    """A pause that the master has confirmed and that nobody has begun to end."""

    chain_id: int
    minion: str


class PausedWorld(World):
    """See the module."""

    #: A minion that resumes by itself asks nobody: no pause holds it back.
    local_share = 0.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._luck = random.Random(self.seed + 7)
        self.confirmed: set[_Paused] = set()

    def judge(self) -> Checker:
        """As World."""
        return PausedChecker(self)

    async def want(self, order: Order) -> None:
        """As World, while somebody else pauses the chain now and then."""
        luck = random.Random(self._luck.random())
        pausing = self.stage.person(self._pause_at_times(order, luck))
        await super().want(order)
        await pausing

    async def _pause_at_times(self, order: Order, luck: random.Random) -> None:
        while not order.accepted:
            await asyncio.sleep(0.5)
        names = sorted({name for wish in order.wishes for name in wish.minions})
        for _ in range(luck.choice((1, 2, 3))):
            await asyncio.sleep(luck.choice((0.0, luck.uniform(0, 3), luck.uniform(0, 40))))
            minion = luck.choice((_EVERYWHERE, luck.choice(names)))
            paused = _Paused(order.chain_id, minion)
            asked = ChainPause(str(order.chain_id), (minion,) if minion else ())
            if not await self._insist("pause", asked):
                continue
            self.confirmed.add(paused)
            await asyncio.sleep(luck.choice((0.5, luck.uniform(0, 20), 100.0)))
            self.confirmed.discard(paused)
            await self._insist("continue_", asked)

    async def _insist(self, verb: str, asked: ChainPause) -> bool:
        """Ask until it is done; return False where there is nothing to do any more."""
        what = f"{verb} {asked.chain} {', '.join(asked.minions) or 'everywhere'}"
        while True:
            try:
                await self.ask(lambda service: getattr(service, verb)(asked, "root"))
            except (InvalidStateError, NotFoundError) as error:
                self.stage.tell("root", f"{what}: {error}")
                return False
            except (CatenaError, ConnectionResetError) as error:
                self.stage.tell("root", f"{what}: {error!r}")
                await asyncio.sleep(1.0)
                continue
            self.stage.tell("root", what)
            return True


class PausedChecker(Checker):
    """Judges what begins and what is sent while a chain is paused."""

    _world: PausedWorld

    def __init__(self, world: PausedWorld) -> None:
        super().__init__(world)
        world.stage.network.on_send = self._at_send
        #: Chain, epoch and minion -> the jobs that were sent there.
        self._sent: defaultdict[tuple[int, int, str], set[str]] = defaultdict(set)

    def _at_send(self, minion: str, socket: str, frame: bytes) -> None:
        if socket != "control":
            return
        message = wire.unpack(frame, socket="control", receiver="minion").message
        if not isinstance(message, JobOrder) or message.spec.fun not in (START, RESUME):
            return
        chain_id, epoch = _run_of(message.spec)
        if self._is_paused(chain_id, minion):
            text = f"job {message.spec.jid} ({message.spec.fun}) is sent to {minion}"
            self.wrong("I17", f"{text}, where chain {chain_id} is paused")
        self._sent[chain_id, epoch, minion].add(message.spec.jid)

    def _is_paused(self, chain_id: int, minion: str) -> bool:
        """Return whether a chain is paused on a minion, as people know and as is stored."""
        known = {_Paused(chain_id, place) for place in (_EVERYWHERE, minion)}
        if not known & self._world.confirmed:
            return False
        query = f"SELECT 1 FROM {PAUSES.name} p JOIN run r ON r.id = p.run"
        query += " WHERE r.ref = ? AND p.minion IN ('', ?)"
        return bool(self.ask(query, str(chain_id), minion))

    def at_effect(self, host: Host, key: str, what: str) -> None:
        """As Checker; a chunk needs an order of its own."""
        super().at_effect(host, key, what)
        if what != "begins":
            return
        run = self.run_of(host, key)
        if not self._is_paused(run.chain_id, host.name):
            return
        query = f"SELECT chunk FROM {views.EXECUTION} WHERE action_id = ? AND epoch = ?"
        (row,) = self.ask(query, run.action_id, run.epoch)
        sent = self._sent[run.chain_id, run.epoch, host.name]
        if len(sent) < row["chunk"]:
            text = f"{key} begins in chunk {row['chunk']} on {host.name} after {len(sent)} orders"
            self.wrong("I17", f"{text}, and its chain is paused there")


def _run_of(spec: JobSpec) -> tuple[int, int]:
    """Return chain and epoch that a job starts or resumes; zeros where it names none."""
    if spec.fun == START:
        return int(spec.args[0]), int(spec.metadata.get("epoch", 0))
    return int(spec.kwargs.get("actionchain_id", 0)), int(spec.kwargs.get("epoch", 0))
