"""When a minion connects, pings, gives up a connection, and tries again (sans-IO).

The first attempt of a process is immediate. Every later one waits: longer after each failure, and
never as long as the neighbour's wait, so that a thousand minions do not come back in one moment.
"""

from __future__ import annotations

from enum import Enum
from typing import Callable

from catena.core.frozen import dataclass


@dataclass(frozen=True)
class ReconnectRules:
    """All times in seconds."""

    #: Wait after the first failure; doubles with each, up to the largest; half of it is random.
    first: float = 1.0
    largest: float = 60.0
    #: An attempt that has not succeeded by then failed.
    attempt: float = 12.0
    #: A name that has no address by then has none; doubles with each failure.
    resolve: float = 3.0
    #: A connection that was up and broke: at most this long, at random.
    broken_spread: float = 4.0
    #: The master restarts or is busy: all its minions come back within this.
    herd_spread: float = 10.0
    ping_interval: float = 15.0
    #: So many pings without a sign of the master's program end a connection.
    missed_pings: int = 3
    #: New traffic keys and fresh names after this; each minion a little earlier at random.
    key_age: float = 24 * 3600.0
    key_age_spread: float = 3600.0


class Phase(str, Enum):
    """Where the connection stands."""

    waiting = "waiting"
    trying = "trying"
    up = "up"


class Due(str, Enum):
    """What is to be done now."""

    nothing = "nothing"
    connect = "connect"
    #: The attempt took too long.
    give_up = "give_up"
    ping = "ping"
    #: The master's program has not been heard for too long.
    silent = "silent"
    #: The traffic keys are old.
    aged = "aged"


class Cause(str, Enum):
    """Why there is no connection; decides the wait."""

    #: Not reachable, refused, or the handshake failed: back off.
    failed = "failed"
    #: It was up and broke.
    broken = "broken"
    #: The master said that it goes, or is busy.
    herd = "herd"
    #: We ended it to make a better one.
    renewed = "renewed"
    #: The master said when to ask again (a pending key): no failure.
    told = "told"


class Reconnect:
    """The decisions of one connection; every method takes the monotonic time.

    Args:
        rules: see ReconnectRules.
        random: uniform in [0, 1).
        now: monotonic seconds.
    """

    def __init__(self, rules: ReconnectRules, random: Callable[[], float], now: float) -> None:
        self.phase = Phase.waiting
        #: Attempts in a row that led to nothing.
        self.failures = 0
        self.rules = rules
        self._random = random
        #: When waiting: the next attempt. When trying: its end.
        self._at = now
        self._end = now
        self._ping_at = now
        self._old_at = now
        self._unanswered = 0

    def due(self, now: float) -> Due:
        """Return what is to be done; ask again after doing it."""
        if now < self.deadline():
            return Due.nothing
        if self.phase is Phase.waiting:
            return Due.connect
        if self.phase is Phase.trying:
            return Due.give_up
        if now >= self._old_at:
            return Due.aged
        return Due.silent if self._unanswered >= self.rules.missed_pings else Due.ping

    def deadline(self) -> float:
        """Return when `due` will next have something."""
        return min(self._ping_at, self._old_at) if self.phase is Phase.up else self._at

    def tried(self, now: float) -> None:
        """Note that an attempt has begun."""
        self.phase = Phase.trying
        patience = self.rules.resolve * 2.0 ** min(self.failures, 30)
        self._at = now + min(self.rules.attempt, patience)
        self._end = now + self.rules.attempt

    def found(self) -> None:
        """Note that there is an address to connect to: the attempt has its full time."""
        if self.phase is Phase.trying:
            self._at = self._end

    def came_up(self, now: float) -> None:
        """Note that the handshake succeeded."""
        self.phase = Phase.up
        self._unanswered = 0
        self._ping_at = now + self.rules.ping_interval
        self._old_at = now + self.rules.key_age - self._random() * self.rules.key_age_spread

    def settled(self) -> None:
        """Note that the master took us: earlier failures no longer count."""
        self.failures = 0

    def heard(self) -> None:
        """Note a message of the master's program."""
        self._unanswered = 0

    def pinged(self, now: float) -> None:
        """Note that a ping was sent."""
        self._unanswered += 1
        self._ping_at = now + self.rules.ping_interval

    def lost(self, now: float, cause: Cause, at_least: float = 0.0) -> float:
        """Note that there is no connection; return how long the next attempt waits.

        Args:
            now: monotonic seconds.
            cause: see Cause.
            at_least: seconds that the master asked for.
        """
        self.phase = Phase.waiting
        wait = self._wait(cause)
        if at_least > wait:
            # All who were told the same number must not come back in the same moment.
            wait = at_least * (1 + self._random() / 4)
        self._at = now + wait
        return wait

    def _wait(self, cause: Cause) -> float:
        rules = self.rules
        if cause in (Cause.renewed, Cause.told):
            return 0.0
        if cause is Cause.herd:
            return self._random() * rules.herd_spread
        if cause is Cause.broken and self.failures == 0:
            self.failures = 1
            return self._random() * rules.broken_spread
        wait = min(rules.largest, rules.first * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return wait / 2 + self._random() * wait / 2
