"""Where chunks are rendered: those of a few actions in a thread, others in worker processes.

While a worker process starts, a thread renders about 10,000 actions. What worker processes render
holds up neither the event loop nor the other threads of the master.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Protocol

from catena.core import failpoints
from catena.core.errors import TryLaterError
from catena.master.chains import batches
from catena.master.chains.batches import BATCH_BYTES, Batch, RenderedBatch
from catena.master.workers.pool import WorkerDiedError

LOG = logging.getLogger(__name__)

#: The task of worker processes, and the queue in which batches wait for one.
TASK = "chunks"
#: Chains of at most this many actions, over all minions, are rendered in a thread.
FEW_ACTIONS = 10_000
#: How often a batch is given to a worker process before the chain waits for its next try.
ATTEMPTS = 3
#: Batches of one chain that are rendered or written at a time.
TOGETHER = 4


class ChunksNotRenderedError(TryLaterError):
    """Worker processes died or hung over a batch of chunks."""


class TaskWorkers(Protocol):
    """The part of `workers.pool.Workers` that renders chunks."""

    async def call(self, task: str, params: dict[str, Any], line: str = "") -> Any:
        """Run a task in a worker process; return its value."""


class ChunkRenderer:
    """Renders batches of chunks.

    Args:
        workers: None: everything is rendered in threads.
    """

    def __init__(self, workers: TaskWorkers | None = None) -> None:
        self._workers = workers
        #: Two threads would take the interpreter's lock from each other.
        self._thread = asyncio.Lock()

    def for_chain(self, plans: Batch) -> list[tuple[Batch, bool]]:
        """Return the batches of a chain, and of each whether a worker process renders it."""
        many = sum(len(plan.actions) for plan in plans.values()) > FEW_ACTIONS
        apart = many and self._workers is not None
        # A larger batch is the chain of one minion, and may not fit into a worker's answer.
        return [(batch, apart and size <= BATCH_BYTES) for batch, size in batches.batches(plans)]

    async def render(self, batch: Batch, *, apart: bool) -> RenderedBatch:
        """Render a batch.

        Args:
            batch: of `for_chain`.
            apart: in a worker process.

        Raises:
            ChunksNotRenderedError: worker processes died or hung over it.
            TryLaterError: too many batches wait already.
            TaskFailedError: it needs more memory than a worker process may have.
        """
        failpoints.hit("master.chain.batch")
        if self._workers is None or not apart:
            async with self._thread:
                return await asyncio.to_thread(batches.rendered, batch)
        params = batches.pack(batch)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return batches.unpack_rendered(await self._call(params))
            except WorkerDiedError as error:
                LOG.warning("chunks of chain %s, try %d: %s", params["chain"], attempt, error)
                last = error
        raise ChunksNotRenderedError(f"{len(batch)} minions' chunks: {last}") from last

    async def _call(self, params: dict[str, Any]) -> Mapping[str, Any]:
        assert self._workers is not None
        found: Mapping[str, Any] = await self._workers.call(TASK, params, TASK)
        return found
