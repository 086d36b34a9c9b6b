"""Pillars of minions, compiled in worker processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from catena.core.clock import Clock
from catena.core.errors import CatenaError
from catena.master.minions.facts import Facts
from catena.master.workers.pool import Workers
from catena.transport.messages import PillarReply, PillarRequest

#: Maximum age in seconds of the pillars used for targets.
FRESH_SECONDS = 60.0
#: Maximum number of cached pillars.
KEPT = 10_000

Grains = Callable[[str], Awaitable[dict[str, Any]]]


class PillarService:
    """Compiles the pillar of the connected minion from its stored grains.

    Args:
        workers: the worker processes.
        grains: returns the stored grains of a minion.
        clock: for the age of cached pillars.
        facts: tells when grains have changed.
    """

    def __init__(self, workers: Workers, grains: Grains, clock: Clock, facts: Facts) -> None:
        self._workers = workers
        self._grains = grains
        self._clock = clock
        self._facts = facts
        #: Minion -> time of compilation, number of its facts report, and the pillar.
        self._kept: dict[str, tuple[float, int, Mapping[str, Any]]] = {}

    async def compile(
        self, minion: str, request: PillarRequest, queue: str = "pillar"
    ) -> PillarReply:
        """Return the pillar of *minion*, or the errors that prevent it.

        Args:
            minion: whose pillar.
            request: the request.
            queue: queue for a worker process (`Workers.call`).
        """
        try:
            grains = await self._grains(minion)
        except CatenaError as error:
            return PillarReply({}, (f"pillar: {error}",))
        params = {
            "minion": minion,
            "grains": grains,
            "saltenv": request.saltenv,
            "pillarenv": request.pillarenv,
            "override": request.override,
        }
        try:
            found = await self._workers.call("pillar", params, queue)
        except CatenaError as error:
            return PillarReply({}, (f"pillar: {error}",))
        return PillarReply(found["pillar"], tuple(found["errors"]))

    async def pillars(self, minions: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return the pillars of *minions* for targeting; one with errors matches nothing."""
        now = self._clock.monotonic()
        # Grains that arrive while a pillar is compiled outdate it.
        changes = {name: self._facts.changes(name) for name in minions}
        stale = [name for name in minions if not self._is_fresh(name, now, changes[name])]
        asked = (self.compile(name, PillarRequest(), "targets") for name in stale)
        replies = await asyncio.gather(*asked)
        for name, reply in zip(stale, replies, strict=True):
            self._kept[name] = (now, changes[name], {} if reply.errors else reply.pillar)
        found = {name: self._kept[name][2] for name in minions if name in self._kept}
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return found

    def _is_fresh(self, minion: str, now: float, changes: int) -> bool:
        at, known, _ = self._kept.get(minion, (float("-inf"), 0, {}))
        return now - at <= FRESH_SECONDS and known == changes
