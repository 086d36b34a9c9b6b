"""Failed reactions, stored until they succeed or are discarded."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from catena.core.errors import RecordError
from catena.master.events import reaction_rows
from catena.master.store.database import Store
from catena.master.store.metadata import StoreCorruptError
from catena.reactors.retries import Failed

LOG = logging.getLogger(__name__)


class FailedReactionStore:
    """The table of failed reactions (`reactors.retries.RetryStore`)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def load(self) -> Sequence[Failed]:
        """Return all failed reactions, oldest first; log and skip a damaged row."""
        ids = await self._store.read(reaction_rows.ids)
        found = [await self._one(row_id) for row_id in ids]
        return [failed for failed in found if failed is not None]

    async def _one(self, row_id: int) -> Failed | None:
        try:
            # The reaction may have been removed after the list of ids was read.
            return await self._store.read(lambda conn: reaction_rows.failed(conn, row_id))
        except (RecordError, StoreCorruptError, TypeError, ValueError) as error:
            # One damaged row must not stop the reactor, on which every chain depends.
            LOG.error("failed reaction %d can't be read and is not retried: %s", row_id, error)
            return None

    async def keep(self, failed: Failed) -> Failed:
        """Store *failed*, replacing one with the same key; return it with its row id.

        Raises:
            StoreUnavailableError: nothing was stored.
        """
        return await self._store.write(lambda conn: reaction_rows.keep(conn, failed))

    async def drop(self, row: int) -> None:
        """Remove a row, if it exists."""
        await self._store.write(lambda conn: reaction_rows.drop(conn, row))
