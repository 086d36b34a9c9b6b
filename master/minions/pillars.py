"""Pillar of minions, compiled in worker processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from catena.core.clock import Clock
from catena.core.errors import CatenaError
from catena.master.workers.pool import Workers
from catena.transport.messages import PillarReply, PillarRequest

#: Targets by pillar use pillars that are at most so old.
FRESH_SECONDS = 60.0
KEPT = 10_000

Grains = Callable[[str], Awaitable[dict[str, Any]]]


class PillarService:
    """Compiles pillar for whom the connection says, from the grains that the store holds.

    Args:
        workers: the processes that do it.
        grains: stored grains of a minion.
        clock: for the age of kept pillars.
    """

    def __init__(self, workers: Workers, grains: Grains, clock: Clock) -> None:
        self._workers = workers
        self._grains = grains
        self._clock = clock
        self._kept: dict[str, tuple[float, Mapping[str, Any]]] = {}

    async def compile(
        self, minion: str, request: PillarRequest, line: str = "pillar"
    ) -> PillarReply:
        """Return the pillar of *minion*, or why there is none.

        Args:
            minion: whose.
            request: which.
            line: where it waits for a process (`Workers.call`).
        """
        params = {
            "minion": minion,
            "grains": await self._grains(minion),
            "saltenv": request.saltenv,
            "pillarenv": request.pillarenv,
            "override": request.override,
        }
        try:
            found = await self._workers.call("pillar", params, line)
        except CatenaError as error:
            return PillarReply({}, (f"pillar: {error}",))
        return PillarReply(found["pillar"], tuple(found["errors"]))

    async def pillars(self, minions: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return the pillars of *minions* for targeting; a broken one matches nothing."""
        now = self._clock.monotonic()
        stale = [
            name
            for name in minions
            if name not in self._kept or now - self._kept[name][0] > FRESH_SECONDS
        ]
        asked = (self.compile(name, PillarRequest(), "targets") for name in stale)
        replies = await asyncio.gather(*asked)
        for name, reply in zip(stale, replies, strict=True):
            self._kept[name] = (now, {} if reply.errors else reply.pillar)
        found = {name: self._kept[name][1] for name in minions if name in self._kept}
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return found
