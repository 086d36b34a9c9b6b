"""What a message waits for until its commit is durable: a future that costs next to nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import Any

log = logging.getLogger(__name__)


class Pending:
    """The end of a piece of work, as `asyncio.Future` tells it, for the thousands of messages.

    A future has each of those who wait called by the loop in a turn of its own, with a context and
    a handle: of what a stored return cost the loop that was a tenth. Here they are called at once
    by who settles it. All of it happens in the loop's thread. It can't be cancelled.
    """

    __slots__ = ("_callbacks", "_done", "_error", "_value")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Pending], object]] = []
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Return whether it has ended."""
        return self._done

    def cancelled(self) -> bool:
        """Return False."""
        return False

    def exception(self) -> BaseException | None:
        """Return the error that it ended with, or None."""
        return self._error

    def add_done_callback(self, fn: Callable[[Pending], object]) -> None:
        """Call *fn* with this once it has ended; now, if it has."""
        if self._done:
            fn(self)
        else:
            self._callbacks.append(fn)

    def set_result(self, value: Any) -> None:
        """End it well."""
        self._value = value
        self._end()

    def set_exception(self, error: BaseException) -> None:
        """End it with an error."""
        self._error = error
        self._end()

    def _end(self) -> None:
        self._done = True
        callbacks, self._callbacks = self._callbacks, []
        for fn in callbacks:
            try:
                fn(self)
            except Exception:  # one's fault must not keep the others waiting for ever
                log.exception("something that follows a commit failed")

    def __await__(self) -> Generator[Any, None, Any]:
        if not self._done:
            ended = asyncio.Event()
            self.add_done_callback(lambda _: ended.set())
            yield from ended.wait().__await__()
        if self._error is not None:
            raise self._error
        return self._value
