"""Failed reactions, stored until they succeed or are discarded."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import sqlalchemy as sa

from catena.core.errors import RecordError
from catena.core.events import Event
from catena.core.records import decode, encode
from catena.master.store.database import Store
from catena.master.store.fast.serials import insert_many
from catena.master.store.tables import REACTIONS
from catena.reactors.reaction import Reaction
from catena.reactors.retries import Failed

LOG = logging.getLogger(__name__)

_SIZE = sa.func.length(REACTIONS.c.event, type_=sa.Integer) + sa.func.coalesce(
    sa.func.length(REACTIONS.c.reaction, type_=sa.Integer), 0
)


class KeptReactions:
    """The table of failed reactions (`reactors.retries.RetryStore`)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def load(self) -> Sequence[Failed]:
        """Return all failed reactions, oldest first; log and skip a damaged row."""
        heads = sa.select(REACTIONS.c.id).order_by(REACTIONS.c.id)
        rows = await self._store.read(lambda conn: conn.execute(heads).scalars().all())
        found = [await self._one(row) for row in rows]
        return [failed for failed in found if failed is not None]

    async def _one(self, row: int) -> Failed | None:
        query = sa.select(REACTIONS, _SIZE.label("size")).where(REACTIONS.c.id == row)

        def read(conn: sa.Connection) -> Failed | None:
            found = conn.execute(query).first()
            # The reaction may have been removed after the list of rows was read.
            return None if found is None else _failed(found)

        try:
            return await self._store.read(read)
        except (RecordError, TypeError, ValueError) as error:
            # One damaged row must not stop the reactor, on which every chain depends.
            LOG.error("failed reaction %d can't be read, and is not tried again: %s", row, error)
            return None

    async def keep(self, failed: Failed) -> Failed:
        """Store *failed*, replacing one with the same key; return it with its row id.

        Raises:
            StoreUnavailableError: nothing was stored.
        """
        return await self._store.write(lambda conn: _keep(conn, failed))

    async def drop(self, row: int) -> None:
        """Remove a row, if it exists."""
        gone = sa.delete(REACTIONS).where(REACTIONS.c.id == row)
        await self._store.write(lambda conn: conn.execute(gone))


def _keep(conn: sa.Connection, failed: Failed) -> Failed:
    # A path and the id of an entry have no length limit, but a column has.
    digest = sha256(failed.key.encode("utf-8", "backslashreplace")).hexdigest()
    changing = {"error": failed.error, "attempts": failed.attempts, "due": failed.due}
    # Also finds a row that a killed master stored before it advanced the reactor's position.
    query = sa.select(REACTIONS.c.id, _SIZE).where(REACTIONS.c.digest == digest)
    known = conn.execute(query).first()
    if known is not None:
        conn.execute(sa.update(REACTIONS).where(REACTIONS.c.id == known[0]).values(changing))
        return replace(failed, id=known[0], size=known[1])
    reaction = encode(failed.reaction) if failed.reaction else None
    row = {
        "digest": digest,
        "event": encode(failed.event),
        "file": failed.file,
        "reaction": reaction,
        "ahead": failed.ahead,
        "since": failed.since,
        **changing,
    }
    (number,) = insert_many(conn, REACTIONS.c.id, [row])
    size = conn.execute(sa.select(_SIZE).where(REACTIONS.c.id == number)).scalar_one()
    return replace(failed, id=number, size=size)


def _failed(row: sa.Row[tuple[object, ...]]) -> Failed:
    return Failed(
        # Its data may have keys of any type, as in YAML.
        event=Event(**row.event),
        file=row.file,
        reaction=decode(Reaction, row.reaction) if row.reaction else None,
        error=row.error,
        since=row.since,
        ahead=row.ahead,
        attempts=row.attempts,
        due=row.due,
        id=row.id,
        size=row.size,
    )
