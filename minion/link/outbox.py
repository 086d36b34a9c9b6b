"""What this minion still has to tell the master, said again until the master has stored it.

Returns lie in their job folders, events in `event_log`; here is only which of them are open and
when each is due again. Nothing is held in memory but keys: a minion that was cut off for days does
not grow.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Callable, Dict, Optional

from catena.core.frozen import dataclass

#: First pause before something is said again, and the longest one.
RETRY_SECONDS = 15.0
RETRY_LIMIT_SECONDS = 300.0
#: Said and not yet acked, at most, on a new connection: a master that comes back is not flooded by
#: each minion. Each ack of it makes the window larger by one, up to the second number: a master
#: that keeps up is told more at once.
WINDOW = 16
LARGEST_WINDOW = 64
#: Pause after the link took nothing more.
_FULL_SECONDS = 0.05

#: Tells one thing to the master; False when the link took nothing.
Say = Callable[[], bool]


@dataclass
class Flying:
    """Something that was said and is not acked."""

    say: Say
    #: When it is said again, and the pause after that.
    due: float
    pause: float


class Outbox:
    """When to say what; oldest first. A turn costs no more than what it says."""

    def __init__(self, window: int = WINDOW) -> None:
        self._first_window = self._window = window
        self._waiting: OrderedDict[str, Say] = OrderedDict()
        self._flying: Dict[str, Flying] = {}
        #: Nothing that flies is due before this moment.
        self._again_due = 0.0
        self._connected = False
        #: The link was full: nothing is said before this moment.
        self._full_until = 0.0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._flying)

    def __contains__(self, key: str) -> bool:
        return key in self._waiting or key in self._flying

    def add(self, key: str, say: Say) -> None:
        """Tell the master of *key* as soon as possible; once, however often it is added."""
        if key not in self:
            self._waiting[key] = say

    def acked(self, key: str) -> bool:
        """Forget *key*; False when it is not (or no longer) here."""
        if self._flying.pop(key, None) is not None:
            self._window = min(self._window + 1, max(LARGEST_WINDOW, self._first_window))
            return True
        return self._waiting.pop(key, None) is not None

    def connected(self, now: float) -> None:
        """Say everything anew on a new connection: what the old one took may be lost."""
        self._connected, self._full_until = True, 0.0
        self._window = self._first_window
        again = OrderedDict((key, one.say) for key, one in self._flying.items())
        again.update(self._waiting)
        self._waiting = again
        self._flying.clear()

    def lost(self) -> None:
        """Say nothing until connected again."""
        self._connected = False

    def service(self, now: float) -> None:
        """Say what is due, within the window."""
        if not self._connected or now < self._full_until:
            return
        if not (self._say_again(now) and self._say_more(now)):
            self._full_until = now + _FULL_SECONDS

    def next_due(self) -> Optional[float]:
        """Return when `service` has something to do next; None: nothing, or not connected."""
        if not self._connected or not len(self):
            return None
        if self._waiting and len(self._flying) < self._window:
            return self._full_until
        return max(self._again_due, self._full_until)

    def _say_again(self, now: float) -> bool:
        """Say what nobody has answered; return whether the link took it."""
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
        """Say what was not said yet; return whether the link took it."""
        while self._waiting and len(self._flying) < self._window:
            key, say = next(iter(self._waiting.items()))
            if not say():
                return False
            # Gone by now where it could not be told at all.
            if self._waiting.pop(key, None) is not None:
                due = now + RETRY_SECONDS
                self._again_due = min(self._again_due, due) if self._flying else due
                self._flying[key] = Flying(say, due, min(2 * RETRY_SECONDS, RETRY_LIMIT_SECONDS))
        return True
