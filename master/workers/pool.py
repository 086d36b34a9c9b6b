"""Pool of worker processes for CPU-bound tasks: pillar, reactor files, calls on the master's host.

A task runs in a child process with limits on memory and time. A child that hangs, dies or exceeds
its memory limit is killed and replaced; only its own task fails. The master and its children
exchange frames over stdin and stdout: a 4-byte length (big-endian), then MessagePack.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

from catena.core.errors import CatenaError, TryLaterError
from catena.master.workers.fair_semaphore import FairSemaphore

LOG = logging.getLogger(__name__)

#: Maximum size of a task's answer in bytes.
FRAME_BYTES = 64 * 1024 * 1024
#: Number of tasks after which a child is replaced, which frees memory that templates leaked.
TASKS_PER_CHILD = 1000
#: Seconds after which an idle child is ended. A child uses a quarter of the master's memory; a new
#: one starts in a sixth of a second.
REST_SECONDS = 60.0
#: Maximum number of tasks in one queue; further ones are refused.
WAITING_LIMIT = 10_000


class WorkerDiedError(CatenaError):
    """The worker process died or exceeded the time limit during a task."""


class TaskFailedError(CatenaError):
    """The task raised an error in its worker."""


@dataclass
class _Child:
    process: asyncio.subprocess.Process
    done: int = 0
    #: Time of the last use, by the event loop's clock.
    used: float = 0.0


class Workers:
    """A bounded pool of worker processes.

    Args:
        settings: the master's settings as plain data; the first frame that each child receives.
        count: maximum number of children; each is started on demand.
        timeout_seconds: time limit of one task.
        rest_seconds: seconds after which an idle child is ended.
        engine_tasks: tasks of engines: name -> module with a function `task`. The first such task
            in a child imports the module, so other tasks do not pay for the import.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        count: int,
        timeout_seconds: float,
        rest_seconds: float = REST_SECONDS,
        engine_tasks: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._timeout = timeout_seconds
        self._rest_seconds = rest_seconds
        self._engine_tasks = dict(engine_tasks or {})
        self._slots = FairSemaphore(count)
        self._idle: list[_Child] = []
        self._all: set[asyncio.subprocess.Process] = set()
        self._resting: asyncio.Task[None] | None = None

    async def call(self, task: str, params: dict[str, Any], queue: str = "") -> Any:
        """Run a task in a child process and return its value.

        Args:
            task: name of the task, from TASKS of master.workers.process or of an engine.
            params: arguments of the task.
            queue: name of the queue in which the task waits for a child; queues are served
                round-robin. "": the task's name.

        Raises:
            TaskFailedError: the task failed; the message is the task's own.
            WorkerDiedError: the task exceeded the time limit, or its process died.
            TryLaterError: the queue is full.
        """
        queue = queue or task
        waiting = self._slots.waiting(queue)
        if waiting >= WAITING_LIMIT:
            raise TryLaterError(f"{waiting} tasks already wait for a worker process")
        async with self._slots.slot(queue):
            return await self._run(task, params)

    async def _run(self, task: str, params: dict[str, Any]) -> Any:
        child = self._idle.pop() if self._idle else await self._start()
        try:
            module = self._engine_tasks.get(task, "")
            frame = {"task": task, "module": module, "params": params}
            async with asyncio.timeout(self._timeout):
                answer = await _exchange(child, frame)
        except TimeoutError:
            await self._end(child)
            raise WorkerDiedError(f"{task} took longer than {self._timeout:.0f} s") from None
        except (EOFError, ConnectionError):
            await self._end(child)
            raise WorkerDiedError(f"the worker process died during {task}") from None
        except BaseException:
            # The caller was cancelled: a late answer of this child would go to the next caller.
            await self._end(child)
            raise
        child.done += 1
        if child.done >= TASKS_PER_CHILD:
            await self._end(child)
        else:
            self._put_back(child)
        if "error" in answer:
            raise TaskFailedError(answer["error"])
        return answer["value"]

    def _put_back(self, child: _Child) -> None:
        child.used = asyncio.get_running_loop().time()
        self._idle.append(child)
        if self._resting is None or self._resting.done():
            self._resting = asyncio.create_task(self._end_idle())

    async def _end_idle(self) -> None:
        """End children that are idle for too long, the longest idle first."""
        loop = asyncio.get_running_loop()
        while self._idle:
            wait = self._idle[0].used + self._rest_seconds - loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
            else:
                await self._end(self._idle.pop(0))

    async def _start(self) -> _Child:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-m", "catena.master.workers.process",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=FRAME_BYTES,
        )  # fmt: skip
        self._all.add(process)
        child = _Child(process)
        try:
            await _send(child, self._settings)
        except ConnectionError:
            await self._end(child)
            raise WorkerDiedError("a worker process died at its start") from None
        except BaseException:
            await self._end(child)
            raise
        return child

    async def _end(self, child: _Child) -> None:
        with contextlib.suppress(ProcessLookupError):
            child.process.kill()
        await child.process.wait()
        self._all.discard(child.process)

    async def stop(self) -> None:
        """End every child."""
        if self._resting is not None:
            self._resting.cancel()
        for process in list(self._all):
            await self._end(_Child(process))
        self._idle.clear()


async def _send(child: _Child, data: Any) -> None:
    assert child.process.stdin is not None
    body: bytes = msgpack.packb(data, use_bin_type=True)
    child.process.stdin.write(len(body).to_bytes(4, "big") + body)
    await child.process.stdin.drain()


async def _exchange(child: _Child, data: Any) -> dict[str, Any]:
    await _send(child, data)
    assert child.process.stdout is not None
    try:
        size = int.from_bytes(await child.process.stdout.readexactly(4), "big")
        if size > FRAME_BYTES:
            raise EOFError
        body = await child.process.stdout.readexactly(size)
    except asyncio.IncompleteReadError as error:
        raise EOFError from error
    answer: dict[str, Any] = msgpack.unpackb(body, raw=False, strict_map_key=False)
    return answer
