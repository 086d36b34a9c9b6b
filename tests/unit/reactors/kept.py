"""A store of failed reactions in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catena.reactors.retries import Failed


class KeptInMemory:
    """A `reactors.retries.RetryStore` in memory."""

    def __init__(self) -> None:
        self.rows: dict[int, Failed] = {}
        self._last = 0

    async def load(self) -> Sequence[Failed]:
        return list(self.rows.values())

    async def keep(self, failed: Failed) -> Failed:
        known = [row for row, other in self.rows.items() if other.key == failed.key]
        self._last += not known
        kept = replace(failed, id=known[0] if known else self._last)
        self.rows[kept.id] = kept
        return kept

    async def drop(self, row: int) -> None:
        self.rows.pop(row, None)
