"""Receipts of orders that most likely need none: the return comes first, and says more.

A plain command in a process that was there is done in some milliseconds. A receipt would be a
message, a move of its delivery and an item for who watches, all for a state that nobody sees. It
is said when the job takes longer. Nothing hangs on it meanwhile: the order is kept for good, and
a master that has no word of it sends it again half a minute later.
"""

from __future__ import annotations

import math
from typing import Dict, List

#: How long a return may take that comes without a receipt.
QUICK_SECONDS = 0.25


class Receipts:
    """Which orders are still to be confirmed, and when; oldest first."""

    def __init__(self) -> None:
        self._due: Dict[str, float] = {}

    def add(self, jid: str, now: float) -> None:
        """Confirm *jid* soon, unless its return comes before."""
        self._due.setdefault(jid, now + QUICK_SECONDS)

    def drop(self, jid: str) -> None:
        """Another word of *jid* goes out."""
        self._due.pop(jid, None)

    def clear(self) -> None:
        """Whatever is open is said anew on the next connection."""
        self._due.clear()

    def take(self, now: float) -> List[str]:
        """Return what is to be confirmed now, once."""
        if not self._due:
            return []
        taken = [jid for jid, due in self._due.items() if due <= now]
        for jid in taken:
            del self._due[jid]
        return taken

    def next_due(self) -> float:
        """Return when `take` gives something, monotonic."""
        return next(iter(self._due.values()), math.inf)
