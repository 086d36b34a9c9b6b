"""Delayed receipts of orders; a quick return makes the receipt unnecessary.

A plain command in a warm process takes some milliseconds. A receipt would cost a message, a
transition of the delivery and an item for watchers, for a state that nobody sees. It is therefore
sent only if the job takes longer. The delay is safe: the order is durable, and a master without a
receipt resends it after half a minute.
"""

from __future__ import annotations

import math
from typing import Dict, List

#: Seconds that a return may take to make the receipt unnecessary.
QUICK_SECONDS = 0.25


class Receipts:
    """The orders to confirm, with the time of the receipt; oldest first."""

    def __init__(self) -> None:
        self._due: Dict[str, float] = {}

    def add(self, jid: str, now: float) -> None:
        """Confirm *jid* after QUICK_SECONDS, unless its return comes first."""
        self._due.setdefault(jid, now + QUICK_SECONDS)

    def drop(self, jid: str) -> None:
        """Cancel a receipt, because another message about *jid* is sent."""
        self._due.pop(jid, None)

    def clear(self) -> None:
        """Cancel all receipts; a new connection reports all open jobs anyway."""
        self._due.clear()

    def take(self, now: float) -> List[str]:
        """Return the jids to confirm now, each once."""
        if not self._due:
            return []
        taken = [jid for jid, due in self._due.items() if due <= now]
        for jid in taken:
            del self._due[jid]
        return taken

    def next_due(self) -> float:
        """Return when `take` next returns something, monotonic."""
        return next(iter(self._due.values()), math.inf)
