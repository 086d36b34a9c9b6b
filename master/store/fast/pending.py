"""A cheap future, for messages that wait until their commit is durable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import Any

log = logging.getLogger(__name__)


class Pending:
    """The end of a piece of work, with the interface of `asyncio.Future`, for many messages.

    A future schedules each callback in the event loop with a context and a handle, which took a
    tenth of the loop's time per stored return. Here `set_result` and `set_exception` call the
    callbacks directly, always in the loop's thread. A Pending cannot be cancelled.
    """

    __slots__ = ("_callbacks", "_done", "_error", "_value")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Pending], object]] = []
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Return whether the work has ended."""
        return self._done

    def cancelled(self) -> bool:
        """Return False."""
        return False

    def exception(self) -> BaseException | None:
        """Return the error with which the work ended, or None."""
        return self._error

    def add_done_callback(self, fn: Callable[[Pending], object]) -> None:
        """Call *fn* with this object when the work ends, or at once if it has ended."""
        if self._done:
            fn(self)
        else:
            self._callbacks.append(fn)

    def set_result(self, value: Any) -> None:
        """Record the successful end of the work."""
        self._value = value
        self._end()

    def set_exception(self, error: BaseException) -> None:
        """Record that the work ended with an error."""
        self._error = error
        self._end()

    def _end(self) -> None:
        self._done = True
        callbacks, self._callbacks = self._callbacks, []
        for fn in callbacks:
            try:
                fn(self)
            except Exception:  # an error of one callback must not affect the others
                log.exception("a callback after a commit failed")

    def __await__(self) -> Generator[Any, None, Any]:
        if not self._done:
            ended = asyncio.Event()
            self.add_done_callback(lambda _: ended.set())
            yield from ended.wait().__await__()
        if self._error is not None:
            raise self._error
        return self._value
