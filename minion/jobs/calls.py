"""The `catena call`s of this host that wait in the minion's queue, or hold a place in it."""

from __future__ import annotations

from typing import Callable, Dict, Optional

from catena.core.frozen import dataclass

#: Receives a position in the queue; 0: the call may run.
Turn = Callable[[int], None]


@dataclass
class _Call:
    turn: Turn
    #: Position that the call was sent last.
    position: Optional[int] = None


class QueuedCalls:
    """Sends each call its position in the queue whenever that changes."""

    def __init__(self) -> None:
        self._calls: Dict[str, _Call] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._calls

    def add(self, key: str, turn: Turn) -> None:
        """Take a call; *key* is its name in the queue."""
        self._calls[key] = _Call(turn)

    def remove(self, key: str) -> bool:
        """Forget a call that is done or gone; False: it is not here."""
        return self._calls.pop(key, None) is not None

    def start(self, key: str) -> None:
        """Let a call run."""
        self._calls[key].turn(0)

    def move(self, key: str, position: int) -> None:
        """Send a waiting call its position, if that has changed."""
        call = self._calls[key]
        if call.position != position:
            call.position = position
            call.turn(position)
