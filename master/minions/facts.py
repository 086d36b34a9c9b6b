"""Facts that minions have reported and the store has not committed yet.

Grains, boot id and machine id are read from the store, but a minion is welcomed before its Hello
is durable. Code that answers from stored facts must wait here first: a pillar compiled from older
grains may belong to another role.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Any

from catena.core.errors import TryLaterError

#: Maximum wait for a commit, seconds. A minion waits for its pillar for 110 s.
PATIENCE_SECONDS = 20.0


class Facts:
    """Reports of minions that are being stored.

    Args:
        patience: see PATIENCE_SECONDS.
    """

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        #: Minion -> its newest report; the store commits reports in order.
        self._coming: dict[str, asyncio.Future[Any]] = {}
        self._changes: Counter[str] = Counter()

    def coming(self, minion: str, stored: asyncio.Future[Any]) -> None:
        """Record that *minion* has reported facts; *stored* completes with their commit."""
        self._changes[minion] += 1
        self._coming[minion] = stored
        stored.add_done_callback(partial(self._settle, minion))

    def changes(self, minion: str) -> int:
        """Return the number of reports of *minion*; an increase outdates earlier results."""
        return self._changes[minion]

    async def settled(self, minion: str = "") -> None:
        """Wait until the facts reported so far by *minion* are stored; "": by all minions.

        Raises:
            TryLaterError: they were not stored in time, or could not be.
        """
        if not self._coming:
            return
        mine = self._coming.get(minion)
        waiting = [mine] if mine else [] if minion else list(self._coming.values())
        if not waiting:
            return
        _, pending = await asyncio.wait(waiting, timeout=self._patience)
        if pending:
            raise TryLaterError(
                f"grains that {minion or 'minions'} reported are not stored after "
                f"{self._patience:.0f} s; is the master's disk slow or its database locked?"
            )
        error = mine.exception() if mine and not mine.cancelled() else None
        if error is not None:
            raise TryLaterError(f"grains that {minion} reported can't be stored: {error}")

    def _settle(self, minion: str, stored: asyncio.Future[Any]) -> None:
        if self._coming.get(minion) is stored:
            del self._coming[minion]
