"""States of one function in a row, shown to it together before the first of them runs.

What each of them does alone may cost less for many: file.managed brings the contents of a hundred
new files to the disk with one wait (its mark's `ahead`). A state still does its work when it has
its turn, or never, where its requisites say so.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Sequence

from catena.core.context import Context
from catena.states.compiler.call import Callees
from catena.states.compiler.model import REQUISITES, Low

#: So many at once; fewer than so many are not worth it.
MOST, LEAST = 256, 8
#: A state with another keyword may do more than its own work, or do it elsewhere.
_HARMLESS = REQUISITES - {"prereq", "prereq_in"} | {"order", "failhard"}


class Ahead:
    """The stretch of states that a run is in.

    Args:
        lows: in the order in which they run.
        callees: the functions of the run.
    """

    def __init__(self, lows: Sequence[Low], callees: Callees) -> None:
        self._lows = lows
        self._callees = callees
        #: Position behind the stretch.
        self._end = 0
        self._open = ExitStack()

    def turn(self, context: Context, position: int) -> None:
        """End the stretch that lies before *position*, and begin the one that it opens.

        Raises:
            CommandExecutionError: what was put off to the end of a stretch could not be done.
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
        """End the stretch; see `turn`."""
        self._end = 0
        self._open.close()

    def _stretch(self, position: int) -> int:
        """Return the position behind the states that belong to the one at *position*."""
        first = self._lows[position]
        last = min(position + MOST, len(self._lows))
        for end in range(position, last):
            low = self._lows[end]
            if (low.state, low.fun) != (first.state, first.fun) or low.keywords.keys() - _HARMLESS:
                return max(end, position + 1)
        return last
