"""Queries on failed reactions; each function runs in the transaction of its caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

import sqlalchemy as sa

from catena.core.events import Event
from catena.core.records import decode, encode
from catena.master.store.fast.serials import insert_many
from catena.master.store.tables import REACTIONS
from catena.reactors.reaction import Reaction
from catena.reactors.retries import Failed

#: Bytes of a failed reaction in the store.
_SIZE = sa.func.length(REACTIONS.c.event, type_=sa.Integer) + sa.func.coalesce(
    sa.func.length(REACTIONS.c.reaction, type_=sa.Integer), 0
)


class FailingFile(NamedTuple):
    """A reactor file with failed reactions."""

    file: str
    #: Number of its failed reactions.
    failed: int
    #: Error and number of attempts of the newest one.
    error: str
    attempts: int


def ids(conn: sa.Connection) -> Sequence[int]:
    """Return the ids of all failed reactions, oldest first."""
    return conn.execute(sa.select(REACTIONS.c.id).order_by(REACTIONS.c.id)).scalars().all()


def failed(conn: sa.Connection, row_id: int) -> Failed | None:
    """Return a failed reaction; None if it was removed.

    Raises:
        RecordError, StoreCorruptError, TypeError, ValueError: the row is damaged.
    """
    query = sa.select(REACTIONS, _SIZE.label("size")).where(REACTIONS.c.id == row_id)
    row = conn.execute(query).first()
    if row is None:
        return None
    return Failed(
        # Its data may have keys of any type, as in YAML.
        event=Event(**row.event),
        file=row.file,
        reaction=decode(Reaction, row.reaction) if row.reaction else None,
        error=row.error,
        since=row.since,
        shipped=row.ahead,
        attempts=row.attempts,
        due=row.due,
        id=row.id,
        size=row.size,
    )


def keep(conn: sa.Connection, failed: Failed) -> Failed:
    """Store *failed*, replacing one with the same key; return it with its id and size."""
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
        "ahead": failed.shipped,
        "since": failed.since,
        **changing,
    }
    (number,) = insert_many(conn, REACTIONS.c.id, [row])
    size = conn.execute(sa.select(_SIZE).where(REACTIONS.c.id == number)).scalar_one()
    return replace(failed, id=number, size=size)


def drop(conn: sa.Connection, row_id: int) -> None:
    """Remove a failed reaction, if it exists."""
    conn.execute(sa.delete(REACTIONS).where(REACTIONS.c.id == row_id))


def failing_files(conn: sa.Connection, limit: int) -> list[FailingFile]:
    """Return at most *limit* reactor files with failed reactions, by name."""
    newest = sa.func.max(REACTIONS.c.id).label("newest")
    query = sa.select(REACTIONS.c.file, sa.func.count().label("number"), newest)
    files = query.group_by(REACTIONS.c.file).order_by(REACTIONS.c.file).limit(limit).subquery()
    errors = sa.select(
        files.c.file, files.c.number, REACTIONS.c.error, REACTIONS.c.attempts
    ).join_from(files, REACTIONS, REACTIONS.c.id == files.c.newest)
    return [FailingFile._make(row) for row in conn.execute(errors.order_by(files.c.file))]
