"""Virtual time: an event loop that never waits, and the clocks of hosts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

#: When every simulated world begins.
BEGIN = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
#: Seconds by which a moment may be missed for want of precision.
RESOLUTION = 1e-6


class NothingDueError(Exception):
    """Nobody will ever do anything again."""


class _Leap:
    """In place of a selector: instead of waiting, time leaps to the next moment."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NothingDueError
        if timeout > 0:
            self._loop.now += timeout
        return []

    def close(self) -> None:
        """Nothing is open."""


class SimLoop(asyncio.BaseEventLoop):
    """An event loop whose time is virtual and whose executors work at once, in their turn.

    Args:
        rng: how long work in threads seems to take.
    """

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.now = 0.0
        self._rng = rng
        self._selector = _Leap(self)
        self._clock_resolution = RESOLUTION
        #: Around the work of executors: whose it is.
        self.around: Callable[[], AbstractContextManager[Any]] = nullcontext

    def time(self) -> float:
        """Return the seconds since the world began."""
        return self.now

    def end(self) -> None:
        """Cancel all tasks, let them end within a virtual second, and close the loop."""
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            task.cancel()
        deadline = self.now + 1
        while any(not task.done() for task in asyncio.all_tasks(self)) and self.now < deadline:
            self.call_later(0.1, self.stop)
            self.run_forever()
        self.close()

    def run_in_executor(  # type: ignore[override]  # the base's is typed for real executors
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Do the work now; its outcome comes a moment later, as from a thread."""
        future: asyncio.Future[Any] = self.create_future()
        try:
            with self.around():
                settle, value = future.set_result, func(*args)
        except BaseException as error:  # noqa: BLE001  # it belongs to who waits
            settle, value = future.set_exception, error
        delay = self._rng.choice((0.0, 0.0, 0.0, 0.002, 0.02))
        self.call_later(delay, lambda: future.done() or settle(value))
        return future

    def call_soon_threadsafe(  # type: ignore[override]  # the base's is typed by its arguments
        self, callback: Any, *args: Any, context: Any = None
    ) -> Any:
        """There is one thread at a time."""
        return self.call_soon(callback, *args, context=context)

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps."""


class HostClock:
    """The clocks of one host (`core.clock.Clock`): a wall clock that people set, and one that
    counts from the boot."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._booted = -1000.0
        #: By how much the wall clock is wrong, seconds.
        self.wrong = 0.0

    def now(self) -> datetime:
        """Return the wall clock."""
        return BEGIN + timedelta(seconds=self._loop.now + self.wrong)

    def monotonic(self) -> float:
        """Return the seconds since the boot."""
        return self._loop.now - self._booted

    def boot(self) -> None:
        """Count from now; the wall clock goes on by its battery."""
        self._booted = self._loop.now

    def move(self, uptime: float) -> None:
        """Become the clock of another host, which has been up for *uptime* seconds."""
        self._booted = self._loop.now - uptime
