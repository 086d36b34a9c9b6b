"""Renders chunks: small chains in a thread, large ones in worker processes.

A thread renders about 10 000 actions in the time that a worker process needs to start. Worker
processes block neither the event loop nor the other threads of the master.
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

#: Name of the worker processes' task, and of the queue in which batches wait.
TASK = "chunks"
#: Chains of at most this many actions, over all minions, are rendered in a thread.
FEW_ACTIONS = 10_000
#: Number of worker processes that may die over a batch before the chain's start fails.
ATTEMPTS = 3
#: Maximum number of batches of one chain that are rendered or written at the same time.
TOGETHER = 4


class ChunksNotRenderedError(TryLaterError):
    """Worker processes died or hung while they rendered a batch."""


class TaskWorkers(Protocol):
    """The part of `workers.pool.Workers` that renders chunks."""

    async def call(self, task: str, params: dict[str, Any], queue: str = "") -> Any:
        """Run a task in a worker process; return its value."""


class ChunkRenderer:
    """Renders batches of chunks.

    Args:
        workers: the worker processes; None: everything is rendered in a thread.
    """

    def __init__(self, workers: TaskWorkers | None = None) -> None:
        self._workers = workers
        #: Allows one rendering thread at a time; two would compete for the interpreter's lock.
        self._thread = asyncio.Lock()

    def for_chain(self, plans: Batch) -> list[tuple[Batch, bool]]:
        """Return the batches of a chain, each with whether a worker process renders it."""
        many = sum(len(plan.actions) for plan in plans.values()) > FEW_ACTIONS
        apart = many and self._workers is not None
        # A larger batch is the chain of one minion and may exceed the size of a worker's answer.
        return [(batch, apart and size <= BATCH_BYTES) for batch, size in batches.batches(plans)]

    async def render(self, batch: Batch, *, apart: bool) -> RenderedBatch:
        """Render a batch.

        Args:
            batch: a batch of `for_chain`.
            apart: whether a worker process renders it.

        Raises:
            ChunksNotRenderedError: worker processes died or hung while they rendered it.
            TryLaterError: too many batches wait already.
            TaskFailedError: the batch needs more memory than a worker process may have.
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
                LOG.warning(
                    "rendering chunks of chain %s failed, attempt %d of %d: %s",
                    params["chain"],
                    attempt,
                    ATTEMPTS,
                    error,
                )
                last = error
        raise ChunksNotRenderedError(
            f"the chunks of {len(batch)} minions could not be rendered: {last}"
        ) from last

    async def _call(self, params: dict[str, Any]) -> Mapping[str, Any]:
        assert self._workers is not None
        found: Mapping[str, Any] = await self._workers.call(TASK, params, TASK)
        return found
