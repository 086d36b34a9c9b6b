"""The rate at which a minion sends events; the master drops and counts faster ones.

The limit protects the master from a minion that floods it. A minion with a short burst must not
lose events because of it: the Welcome contains the rate, and the minion complies.
"""

from __future__ import annotations

#: Size of a burst, as seconds at the rate. The master accepts twice as much, so that a burst
#: can be resent after a lost connection.
BURST_SECONDS = 1.0


class Pace:
    """A token bucket with one token per event; unlimited until a rate is set."""

    def __init__(self) -> None:
        self._rate = 0.0
        self._tokens = 0.0
        self._at = 0.0

    def set(self, per_second: float, now: float) -> None:
        """Set the rate; 0: unlimited. Setting the same rate again changes nothing."""
        if per_second != self._rate:
            self._rate, self._at = per_second, now
            self._tokens = self._most()

    def take(self, wanted: int, now: float) -> int:
        """Return how many of *wanted* events may be sent now; they count as sent."""
        if not self._rate:
            return wanted
        self._tokens = min(self._most(), self._tokens + (now - self._at) * self._rate)
        self._at = now
        allowed = max(0, min(wanted, int(self._tokens)))
        self._tokens -= allowed
        return allowed

    def charge(self, count: int) -> None:
        """Count events as sent, whether the rate permits them or not."""
        self._tokens -= count

    def due(self, wanted: int) -> float:
        """Return the monotonic time at which *wanted* events (or a full burst) may be sent."""
        if not self._rate:
            return self._at
        missing = min(float(wanted), self._most()) - self._tokens
        return self._at + max(0.0, missing) / self._rate

    def _most(self) -> float:
        return max(1.0, BURST_SECONDS * self._rate)
