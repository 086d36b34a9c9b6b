"""What a template may use up: time, and what one operator may make of small numbers."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from types import FrameType
from typing import Any, Iterator, Optional

from catena.core.errors import LimitError

#: Bits of the largest number that `**` may give.
MAX_POWER_BITS = 1_000_000
#: An error that somebody's code swallowed comes again after so many seconds.
_AGAIN_SECONDS = 1.0


@contextmanager
def limited_time(seconds: float) -> Iterator[None]:
    """Raise a LimitError where what happens inside takes more than *seconds* of processor time.

    Waiting for a program or for the network does not count. The limit holds in the main thread of
    a process, where jobs run; a limit around it goes on to hold.
    """

    def stop(number: int, frame: Optional[FrameType]) -> None:
        raise LimitError(f"the template took more than {seconds:g} seconds of processor time")

    free = signal.getsignal(signal.SIGVTALRM) in (signal.SIG_DFL, None)
    if not free or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)


def check_operator(operator: str, left: Any, right: Any, longest: int) -> None:
    """Refuse what an operator would make too large to hold.

    Args:
        operator: "*" or "**".
        left: its left side.
        right: its right side.
        longest: characters or items that a repetition may give.

    Raises:
        LimitError: it is too large.
    """
    if operator == "**":
        whole = isinstance(left, int) and isinstance(right, int)
        if whole and left.bit_length() * max(right, 0) > MAX_POWER_BITS:
            raise LimitError("the result of ** is too large")
        return
    for many, times in ((left, right), (right, left)):
        if isinstance(many, (str, bytes, list, tuple)) and isinstance(times, int):
            if len(many) * times > longest:
                raise LimitError(f"the result of * has more than {longest} characters or items")
