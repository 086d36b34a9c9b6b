"""Limit the processor time of a host's request in this process.

A template from a host may contain an endless loop. The renderer's own limit uses a signal, which
only reaches the main thread; visits to hosts run in other threads.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from catena.core.errors import LimitError

#: Maximum seconds of processor time for one request.
SECONDS = 60.0
_LOOK_SECONDS = 0.5


class TooSlowError(LimitError):
    """A request of a host took too much processor time."""

    def __init__(self, text: str = "it took more processor time than a host may ask for") -> None:
        super().__init__(text)


@contextmanager
def limited(seconds: float = SECONDS) -> Iterator[None]:
    """Raise a TooSlowError if the block takes more than *seconds* of processor time.

    Waiting does not count. Blocks must not be nested.
    """
    turn = _Turn(seconds)
    try:
        yield
    finally:
        while not turn.over:
            try:
                turn.end()
            except TooSlowError:
                # The error arrived after the end of the block and is ignored.
                continue


class _Turn:
    """A block of code in this thread, and the thread that watches it."""

    def __init__(self, seconds: float) -> None:
        self.over = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        self._ends = time.clock_gettime(self._clock) + seconds
        threading.Thread(target=self._watch, daemon=True).start()

    def end(self) -> None:
        with self._lock:
            # Discard an error that was not delivered yet; it must not hit later code.
            _raise_in(self._thread, None)
            self.over = True
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            with self._lock:
                # Repeatedly, because code in the block may catch the error.
                if not self.over and time.clock_gettime(self._clock) > self._ends:
                    _raise_in(self._thread, TooSlowError)


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    what = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)
