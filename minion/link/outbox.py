"""What this minion has to send to the master, resent until the master has stored it.

Returns are in their job folders, events in `event_log`. This module only tracks which of them are
open and when each is due. It holds only keys, so that a minion without connection for days does
not grow.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Callable, Dict, Optional

from catena.core.frozen import dataclass

#: First pause before an item is resent, and the longest one, in seconds.
RETRY_SECONDS = 15.0
RETRY_LIMIT_SECONDS = 300.0
#: Maximum number of unacknowledged items on a new connection, so that a restarted master is not
#: flooded. Each acknowledgement enlarges the window by one up to the second number, so that a
#: master that keeps up receives more.
WINDOW = 16
LARGEST_WINDOW = 64
#: Pause in seconds after the link was full.
_FULL_SECONDS = 0.05

#: Sends one item to the master; returns False if the link accepted nothing.
Say = Callable[[], bool]


@dataclass
class Flying:
    """An item that was sent and is not acknowledged."""

    say: Say
    #: Time of the next attempt, and the pause after it.
    due: float
    pause: float


class Outbox:
    """Decides when to send what; oldest first. Each call costs only as much as it sends."""

    def __init__(self, window: int = WINDOW) -> None:
        self._first_window = self._window = window
        self._waiting: OrderedDict[str, Say] = OrderedDict()
        self._flying: Dict[str, Flying] = {}
        #: No sent item is due before this time.
        self._again_due = 0.0
        self._connected = False
        #: The link was full: nothing is sent before this time.
        self._full_until = 0.0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._flying)

    def __contains__(self, key: str) -> bool:
        return key in self._waiting or key in self._flying

    def add(self, key: str, say: Say) -> None:
        """Send *key* as soon as possible; adding it several times has no further effect."""
        if key not in self:
            self._waiting[key] = say

    def acked(self, key: str) -> bool:
        """Remove *key*; return False if it is not (or no longer) here."""
        if self._flying.pop(key, None) is not None:
            self._window = min(self._window + 1, max(LARGEST_WINDOW, self._first_window))
            return True
        return self._waiting.pop(key, None) is not None

    def connected(self, now: float) -> None:
        """Resend everything on a new connection, since the old one may have lost it."""
        self._connected, self._full_until = True, 0.0
        self._window = self._first_window
        again = OrderedDict((key, one.say) for key, one in self._flying.items())
        again.update(self._waiting)
        self._waiting = again
        self._flying.clear()

    def lost(self) -> None:
        """Send nothing until connected again."""
        self._connected = False

    def service(self, now: float) -> None:
        """Send what is due, within the window."""
        if not self._connected or now < self._full_until:
            return
        if not (self._say_again(now) and self._say_more(now)):
            self._full_until = now + _FULL_SECONDS

    def next_due(self) -> Optional[float]:
        """Return when `service` next has something to do; None: nothing, or not connected."""
        if not self._connected or not len(self):
            return None
        if self._waiting and len(self._flying) < self._window:
            return self._full_until
        return max(self._again_due, self._full_until)

    def _say_again(self, now: float) -> bool:
        """Resend what was not acknowledged; return whether the link accepted it."""
        if not self._flying or now < self._again_due:
            return True
        for one in list(self._flying.values()):
            if one.due <= now:
                if not one.say():
                    return False
                one.due = now + one.pause
                one.pause = min(2 * one.pause, RETRY_LIMIT_SECONDS)
        self._again_due = min((one.due for one in self._flying.values()), default=0.0)
        return True

    def _say_more(self, now: float) -> bool:
        """Send new items; return whether the link accepted them."""
        while self._waiting and len(self._flying) < self._window:
            key, say = next(iter(self._waiting.items()))
            if not say():
                return False
            # `say` removes an item that could not be sent at all.
            if self._waiting.pop(key, None) is not None:
                due = now + RETRY_SECONDS
                self._again_due = min(self._again_due, due) if self._flying else due
                self._flying[key] = Flying(say, due, min(2 * RETRY_SECONDS, RETRY_LIMIT_SECONDS))
        return True
