"""Show consecutive states of one function to that function before the first of them runs.

The function (`ahead` of its mark) can prepare many states at lower cost: file.managed writes the
contents of a hundred new files with one fsync. Each state still runs in its order, or not at all
if its requisites forbid it.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Sequence

from catena.core.context import Context
from catena.states.compiler.call import Callees
from catena.states.compiler.model import REQUISITES, Low

#: Maximum and minimum number of states that are prepared together.
MOST, LEAST = 256, 8
#: Keywords that a prepared state may have; with others it may do more work, or elsewhere.
_HARMLESS = REQUISITES - {"prereq", "prereq_in"} | {"order", "failhard"}


class Ahead:
    """The sequence of consecutive states that a run has prepared.

    Args:
        lows: low states in run order.
        callees: the functions of the run.
    """

    def __init__(self, lows: Sequence[Low], callees: Callees) -> None:
        self._lows = lows
        self._callees = callees
        #: Position after the sequence.
        self._end = 0
        self._open = ExitStack()

    def turn(self, context: Context, position: int) -> None:
        """End the sequence before *position*, and start the one that begins there.

        Raises:
            CommandExecutionError: work deferred to the end of a sequence failed.
        """
        if position < self._end:
            return
        self.close()
        self._end = self._stretch(position)
        if self._end - position < LEAST or context.test:
            return
        first = self._lows[position]
        callee = self._callees.get(first.state, first.fun)
        if callee is not None and callee.ahead is not None:
            calls = [(low.name, low.args) for low in self._lows[position : self._end]]
            self._open.enter_context(callee.ahead(context, calls))

    def close(self) -> None:
        """End the sequence; see `turn`."""
        self._end = 0
        self._open.close()

    def _stretch(self, position: int) -> int:
        """Return the position after the sequence that starts at *position*."""
        first = self._lows[position]
        last = min(position + MOST, len(self._lows))
        for end in range(position, last):
            low = self._lows[end]
            if (low.state, low.fun) != (first.state, first.fun) or low.keywords.keys() - _HARMLESS:
                return max(end, position + 1)
        return last
