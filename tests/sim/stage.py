"""What all simulated parts share: time, random numbers, the network, the tap, the trace."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from tests.sim.clockwork import HostClock, SimLoop
from tests.sim.disk import Tap
from tests.sim.network import Network
from tests.sim.prints import Prints
from tests.sim.tasks import Program, Turn


@dataclass(frozen=True)
class Effect:
    """What a witness outside of the product saw an action do."""

    at: float
    minion: str
    #: Name that the world gave the action: unique over all chains.
    key: str
    #: "begins" or "ends".
    what: str
    epoch: int


class Stage:
    """See the module.

    Args:
        seed: everything that happens follows from it.
        verbose: keep every step on a disk in the trace too.
    """

    def __init__(self, seed: int, verbose: bool = False) -> None:
        self.rng = random.Random(seed)
        self.loop = SimLoop(random.Random(seed + 1))
        self.turn = Turn()
        self.verbose = verbose
        self.trace: list[str] = []
        self.effects: list[Effect] = []
        #: What jobs print while they run; None: nothing.
        self.prints: Prints | None = None
        self.faults: list[str] = []
        #: Judges effects: host, key, what.
        self.on_effect: Callable[[Any, str, str], None] = lambda *_: None
        #: Share of ordered reboots that happen.
        self.reboots_work = 1.0
        #: Tasks of people; all others are the master's and die with it.
        self.people: set[asyncio.Task[Any]] = set()
        self._counts: Counter[str] = Counter()
        self.tap = Tap(self.turn, self._step)
        self.network = Network(self.loop, random.Random(seed + 2), self.tell)

    def clock(self) -> HostClock:
        """Return the clocks of one more host."""
        return HostClock(self.loop)

    def soon(self, act: Callable[[], object]) -> Any:
        """Do something next."""
        return self.loop.call_soon(act)

    def later(self, seconds: float, act: Callable[[], object]) -> Any:
        """Do something in a while."""
        return self.loop.call_later(seconds, act)

    def person(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let somebody outside of the simulated programs do something."""
        task = self.loop.create_task(work)
        self.people.add(task)
        task.add_done_callback(self.people.discard)
        return task

    def count(self, what: str) -> int:
        """Return 1, 2, 3…"""
        self._counts[what] += 1
        return self._counts[what]

    def counted(self, what: str) -> int:
        """Return the last number that `count` gave; 0: none."""
        return self._counts[what]

    def identity(self) -> bytes:
        """Return 16 bytes that nobody has yet."""
        return self.count("identity").to_bytes(16, "big")

    def tell(self, who: str, what: str) -> None:
        """Write one line of the trace."""
        self.trace.append(f"{self.loop.now:10.3f} {who}: {what}")

    def fault(self, text: str) -> None:
        """Something happened that must not."""
        self.tell("FAULT", text)
        self.faults.append(text)

    def effect(self, host: Any, key: str, what: str, epoch: int) -> None:
        """A witness saw something."""
        self.tell(host.name, f"** {key} {what}")
        self.effects.append(Effect(self.loop.now, host.name, key, what, epoch))
        self.on_effect(host, key, what)

    def _step(self, program: Program, call: str, path: str) -> None:
        if self.verbose:
            short = path.replace(program.host.disk.prefix, "")
            self.tell(program.name, f"{call} {short}")
