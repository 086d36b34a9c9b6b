"""Rate limits for one minion or one address."""

from __future__ import annotations

from collections.abc import Callable

#: Maximum number of buckets; the least recently used ones are dropped (they are full again).
REMEMBERED = 20_000


class RateLimit:
    """A token bucket per name.

    Args:
        per_second: how fast tokens come back.
        burst: how many may be spent at once.
        monotonic: seconds since boot.
    """

    def __init__(self, per_second: float, burst: float, monotonic: Callable[[], float]) -> None:
        self._rate = per_second
        self._burst = burst
        self._now = monotonic
        #: name -> (tokens, time of the last use).
        self._buckets: dict[str, tuple[float, float]] = {}

    def allow(self, name: str, cost: float = 1.0) -> bool:
        """Spend *cost* tokens of *name*; return False and spend none if it has fewer.

        A cost above the burst is allowed with a full bucket, and leaves a debt.
        """
        now = self._now()
        tokens, when = self._buckets.pop(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - when) * self._rate)
        allowed = tokens >= min(cost, self._burst)
        self._buckets[name] = (tokens - cost if allowed else tokens, now)
        while len(self._buckets) > REMEMBERED:
            del self._buckets[next(iter(self._buckets))]
        return allowed
