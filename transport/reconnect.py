"""When a minion connects, pings, gives up a connection, and tries again (sans-IO).

The first attempt of a process is immediate. Each later one waits, longer after each failure. The
waits are random, so that a thousand minions do not reconnect at the same moment.
"""

from __future__ import annotations

from enum import Enum
from typing import Callable

from catena.core.frozen import dataclass


@dataclass(frozen=True)
class ReconnectRules:
    """All times in seconds."""

    #: Wait after the first failure; doubles with each up to the maximum below. Half is random.
    first: float = 1.0
    largest: float = 60.0
    #: Time after which an attempt without success has failed.
    attempt: float = 12.0
    #: Time after which a name without an address counts as unresolved; doubles with each failure.
    resolve: float = 3.0
    #: Maximum random wait after an established connection broke.
    broken_spread: float = 4.0
    #: Maximum random wait after the master restarted or was busy, when all its minions return.
    herd_spread: float = 10.0
    ping_interval: float = 15.0
    #: Number of unanswered pings after which a connection is ended.
    missed_pings: int = 3
    #: Age at which a connection is replaced to renew traffic keys and addresses; randomly earlier.
    key_age: float = 24 * 3600.0
    key_age_spread: float = 3600.0


class LinkPhase(str, Enum):
    """State of the connection."""

    waiting = "waiting"
    trying = "trying"
    up = "up"


class LinkAction(str, Enum):
    """What to do now."""

    nothing = "nothing"
    connect = "connect"
    #: End the attempt: it took too long.
    give_up = "give_up"
    ping = "ping"
    #: The master's program has not answered for too long.
    silent = "silent"
    #: The traffic keys are too old.
    aged = "aged"


class DisconnectCause(str, Enum):
    """Why there is no connection; determines the wait."""

    #: Not reachable, refused, or the handshake failed: back off.
    failed = "failed"
    #: An established connection broke.
    broken = "broken"
    #: The master reported that it stops or is busy.
    herd = "herd"
    #: The minion ended it in order to make a new one.
    renewed = "renewed"
    #: The master named the time of the next attempt (a pending key); not a failure.
    told = "told"


class Reconnect:
    """The decisions of one connection; every method takes the monotonic time in seconds.

    Args:
        rules: see ReconnectRules.
        random: returns uniform random numbers in [0, 1).
        now: monotonic seconds.
    """

    def __init__(self, rules: ReconnectRules, random: Callable[[], float], now: float) -> None:
        self.phase = LinkPhase.waiting
        #: Consecutive failed attempts.
        self.failures = 0
        self.rules = rules
        self._random = random
        #: While waiting: the time of the next attempt. While trying: the end of the attempt.
        self._at = now
        self._end = now
        self._ping_at = now
        self._old_at = now
        self._unanswered = 0

    def due(self, now: float) -> LinkAction:
        """Return what to do; call it again after doing that."""
        if now < self.deadline():
            return LinkAction.nothing
        if self.phase is LinkPhase.waiting:
            return LinkAction.connect
        if self.phase is LinkPhase.trying:
            return LinkAction.give_up
        if now >= self._old_at:
            return LinkAction.aged
        return (
            LinkAction.silent if self._unanswered >= self.rules.missed_pings else LinkAction.ping
        )

    def deadline(self) -> float:
        """Return the time at which `due` will next return an action."""
        return min(self._ping_at, self._old_at) if self.phase is LinkPhase.up else self._at

    def tried(self, now: float) -> None:
        """Record that an attempt has begun."""
        self.phase = LinkPhase.trying
        patience = self.rules.resolve * 2.0 ** min(self.failures, 30)
        self._at = now + min(self.rules.attempt, patience)
        self._end = now + self.rules.attempt

    def found(self) -> None:
        """Record that the name was resolved: the attempt now has its full time."""
        if self.phase is LinkPhase.trying:
            self._at = self._end

    def came_up(self, now: float) -> None:
        """Record that the handshake succeeded."""
        self.phase = LinkPhase.up
        self._unanswered = 0
        self._ping_at = now + self.rules.ping_interval
        self._old_at = now + self.rules.key_age - self._random() * self.rules.key_age_spread

    def settled(self) -> None:
        """Record that the master accepted the minion; reset the count of failures."""
        self.failures = 0

    def heard(self) -> None:
        """Record a message of the master's program."""
        self._unanswered = 0

    def pinged(self, now: float) -> None:
        """Record that a ping was sent."""
        self._unanswered += 1
        self._ping_at = now + self.rules.ping_interval

    def lost(self, now: float, cause: DisconnectCause, at_least: float = 0.0) -> float:
        """Record that there is no connection; return the wait before the next attempt in seconds.

        Args:
            now: monotonic seconds.
            cause: see DisconnectCause.
            at_least: minimum wait in seconds that the master asked for.
        """
        self.phase = LinkPhase.waiting
        wait = self._wait(cause)
        if at_least > wait:
            # Randomise the wait: the master may have sent the same number to all its minions.
            wait = at_least * (1 + self._random() / 4)
        self._at = now + wait
        return wait

    def _wait(self, cause: DisconnectCause) -> float:
        rules = self.rules
        if cause in (DisconnectCause.renewed, DisconnectCause.told):
            return 0.0
        if cause is DisconnectCause.herd:
            return self._random() * rules.herd_spread
        if cause is DisconnectCause.broken and self.failures == 0:
            self.failures = 1
            return self._random() * rules.broken_spread
        wait = min(rules.largest, rules.first * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return wait / 2 + self._random() * wait / 2
