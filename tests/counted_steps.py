"""How much work a call is, in lines of Python: the same on every machine and at every load.

Processor time is no measure for a test: some machines count it in ticks of 10 ms.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType


def counted(call: Any) -> tuple[Any, int]:
    """What `call()` answers, and how many lines of Python were run for it in this thread."""
    lines = 0

    def trace(frame: FrameType, event: str, value: Any) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        answer = call()
    finally:
        sys.settrace(before)
    return answer, lines
