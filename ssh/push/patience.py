"""How much processor time a host's question may take of this process.

Templates that a host has rendered here may be loops without end. The renderer's own limit is a
signal, which only the main thread of a process hears; visits to hosts are threads.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from catena.core.errors import LimitError

#: For one question.
SECONDS = 60.0
_LOOK_SECONDS = 0.5


class TooSlowError(LimitError):
    """What a host asked for took too much processor time."""

    def __init__(self, text: str = "it took more processor time than a host may ask for") -> None:
        super().__init__(text)


@contextmanager
def limited(seconds: float = SECONDS) -> Iterator[None]:
    """Raise a TooSlowError where what happens inside takes more than *seconds* of processor time.

    Waiting does not count. Not to be nested.
    """
    turn = _Turn(seconds)
    try:
        yield
    finally:
        while not turn.over:
            try:
                turn.end()
            except TooSlowError:
                # It came while we were ending: too late to matter.
                continue


class _Turn:
    """One question on its way in this thread, and a thread that watches it."""

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
            # An error that has not reached this thread yet must not hit what comes next.
            _raise_in(self._thread, None)
            self.over = True
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            with self._lock:
                # Again and again, where somebody's code swallows it.
                if not self.over and time.clock_gettime(self._clock) > self._ends:
                    _raise_in(self._thread, TooSlowError)


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    what = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)
