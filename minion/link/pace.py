"""How fast a minion may tell its master events: what comes faster the master drops and counts.

A master protects itself from a minion that storms. One that only has much to tell for a moment
must not lose anything by that: it is told the rate with the Welcome, and keeps to it.
"""

from __future__ import annotations

#: What may be told at once is what comes in so many seconds at the rate. The master takes twice as
#: much: all of that finds room there once more when its connection was lost.
BURST_SECONDS = 1.0


class Pace:
    """A bucket of tokens, one for each event; endless until a rate is set."""

    def __init__(self) -> None:
        self._rate = 0.0
        self._tokens = 0.0
        self._at = 0.0

    def set(self, per_second: float, now: float) -> None:
        """Keep to a rate from now on; 0: to none. The same one again changes nothing."""
        if per_second != self._rate:
            self._rate, self._at = per_second, now
            self._tokens = self._most()

    def take(self, wanted: int, now: float) -> int:
        """Return how many of *wanted* events may be told now; they count as told."""
        if not self._rate:
            return wanted
        self._tokens = min(self._most(), self._tokens + (now - self._at) * self._rate)
        self._at = now
        allowed = max(0, min(wanted, int(self._tokens)))
        self._tokens -= allowed
        return allowed

    def charge(self, count: int) -> None:
        """Count so many events as told, whether they may be or not."""
        self._tokens -= count

    def due(self, wanted: int) -> float:
        """Return when so many (or all that may go at once) may be told, monotonic seconds."""
        if not self._rate:
            return self._at
        missing = min(float(wanted), self._most()) - self._tokens
        return self._at + max(0.0, missing) / self._rate

    def _most(self) -> float:
        return max(1.0, BURST_SECONDS * self._rate)
