"""Worker processes for what costs CPU: pillar, reactor files, calls on the master's own host.

A task runs in a child with limits on memory and time; a child that hangs, dies or grows is ended
and replaced, and only its own task fails. Children talk over their stdin and stdout in frames of a
4-byte length and MessagePack.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from dataclasses import dataclass
from typing import Any

import msgpack

from catena.core.errors import CatenaError, TryLaterError
from catena.master.workers.turns import Turns

LOG = logging.getLogger(__name__)

#: Largest answer of a task.
FRAME_BYTES = 64 * 1024 * 1024
#: A child is replaced after so many tasks: what templates leak dies with it.
TASKS_PER_CHILD = 1000
#: A child that nobody needed for so long ends: each is a quarter of a master. The next task waits
#: the sixth of a second that a new one takes.
REST_SECONDS = 60.0
#: Tasks that may wait for a child in one line; more are refused rather than kept.
WAITING_LIMIT = 10_000


class WorkerDiedError(CatenaError):
    """The worker process died or hung while it worked on this."""


class TaskFailedError(CatenaError):
    """The task raised an error in its worker."""


@dataclass
class _Child:
    process: asyncio.subprocess.Process
    done: int = 0
    #: When it was needed last, by the loop's clock.
    used: float = 0.0


class Workers:
    """A bounded pool of worker processes.

    Args:
        settings: what each child is told first: the master's settings as plain data.
        count: children at most; each is started when first needed.
        timeout_seconds: how long one task may take.
        rest_seconds: how long a child is kept that nobody needs.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        count: int,
        timeout_seconds: float,
        rest_seconds: float = REST_SECONDS,
    ) -> None:
        self._settings = settings
        self._timeout = timeout_seconds
        self._rest_seconds = rest_seconds
        self._turns = Turns(count)
        self._idle: list[_Child] = []
        self._all: set[asyncio.subprocess.Process] = set()
        self._resting: asyncio.Task[None] | None = None

    async def call(self, task: str, params: dict[str, Any], line: str = "") -> Any:
        """Run *task* (a name of master.workers.tasks.TASKS) in a child and return its value.

        Args:
            task: its name.
            params: its arguments.
            line: where it waits for a child; each line gets its turns, however long others are.
                "": that of its task.

        Raises:
            TaskFailedError: the task refused or failed; the message is its own.
            WorkerDiedError: it took too long, or its process died.
            TryLaterError: too many tasks wait in this line already.
        """
        place = line or task
        waiting = self._turns.waiting(place)
        if waiting >= WAITING_LIMIT:
            raise TryLaterError(f"{waiting} tasks wait for a worker process")
        async with self._turns.turn(place):
            return await self._run(task, params)

    async def _run(self, task: str, params: dict[str, Any]) -> Any:
        child = self._idle.pop() if self._idle else await self._start()
        try:
            frame = {"task": task, "params": params}
            async with asyncio.timeout(self._timeout):
                answer = await _exchange(child, frame)
        except TimeoutError:
            await self._end(child)
            raise WorkerDiedError(f"{task} took longer than {self._timeout:.0f} s") from None
        except (EOFError, ConnectionError):
            await self._end(child)
            raise WorkerDiedError(f"the worker process died during {task}") from None
        except BaseException:
            # Cancelled in the middle: what the child still says belongs to nobody.
            await self._end(child)
            raise
        child.done += 1
        if child.done >= TASKS_PER_CHILD:
            await self._end(child)
        else:
            self._keep(child)
        if "error" in answer:
            raise TaskFailedError(answer["error"])
        return answer["value"]

    def _keep(self, child: _Child) -> None:
        child.used = asyncio.get_running_loop().time()
        self._idle.append(child)
        if self._resting is None or self._resting.done():
            self._resting = asyncio.create_task(self._end_idle())

    async def _end_idle(self) -> None:
        """End each child once it was idle for long; the one that was used last is used next."""
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
