"""The `catena call`s of this host in the minion's queue."""

from __future__ import annotations

from typing import Callable, Dict

#: Receives a position in the queue; 0: the call may run.
Turn = Callable[[int], None]


class QueuedCalls:
    """Sends each call its position in the queue whenever the position changes."""

    def __init__(self) -> None:
        self._turns: Dict[str, Turn] = {}
        #: Key of each call -> the last position sent to it.
        self._sent: Dict[str, int] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._turns

    def add(self, key: str, turn: Turn) -> None:
        """Add a call; *key* is its name in the queue."""
        self._turns[key] = turn

    def remove(self, key: str) -> bool:
        """Remove a call that is done or has disconnected; return False if it is unknown."""
        self._sent.pop(key, None)
        return self._turns.pop(key, None) is not None

    def start(self, key: str) -> None:
        """Let a call run."""
        self._turns[key](0)

    def move(self, key: str, position: int) -> None:
        """Send a queued call its position if that has changed."""
        if self._sent.get(key) != position:
            self._sent[key] = position
            self._turns[key](position)
