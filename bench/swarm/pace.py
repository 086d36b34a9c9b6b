"""How many connections may be on their way at a time: as many as the master has time for."""

from __future__ import annotations

#: A master that is short of CPU is still asked by so many at a time.
FEWEST = 4


class Pace:
    """Fewer at a time when some were in vain, slowly more when they succeed (as TCP does it).

    A handshake that the master has no time for within its limit is lost with all the work on it,
    and made anew: with as many under way as on an idle machine, a busy one did little else.

    Args:
        most: where nothing is in vain.
    """

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._room = self._most

    @property
    def room(self) -> int:
        """Return how many may be under way now."""
        return int(self._room)

    def succeeded(self) -> None:
        """One got through."""
        self._room = min(self._most, self._room + 1 / self._room)

    def failed(self) -> None:
        """Some of those under way were in vain; to be said once for all of them."""
        self._room = max(float(FEWEST), self._room / 2)
