"""Fewer B-trees are written per transaction.

The unique index of events holds those of minions alone: the master's own have no number there, yet
each of its transactions wrote a page of that index. On SQLite the keys of requests are stored in
the tree of their primary key and no longer in a table beside it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_UNIQUE = "uq_event_source_event_id"
_OF_MINIONS = sa.text("event_id IS NOT NULL")
_HIGHEST = "SELECT seq FROM sqlite_sequence WHERE name = 'event'"


def upgrade() -> None:
    """Make the constraint a partial index and rebuild the table of requests."""
    highest = _highest()
    with op.batch_alter_table("event", table_kwargs={"sqlite_autoincrement": True}) as table:
        table.drop_constraint(_UNIQUE, type_="unique")
    _restore(highest)
    op.create_index(
        _UNIQUE,
        "event",
        ["source", "event_id"],
        unique=True,
        sqlite_where=_OF_MINIONS,
        postgresql_where=_OF_MINIONS,
    )
    _rebuild_requests(with_rowid=False)


def downgrade() -> None:
    """Go back to a constraint on all events and a table with row ids."""
    highest = _highest()
    op.drop_index(_UNIQUE, "event")
    with op.batch_alter_table("event", table_kwargs={"sqlite_autoincrement": True}) as table:
        table.create_unique_constraint(_UNIQUE, ["source", "event_id"])
    _restore(highest)
    _rebuild_requests(with_rowid=True)


def _highest() -> int | None:
    """Return the highest number that SQLite has given to an event, also of those deleted since."""
    conn = op.get_bind()
    if conn.dialect.name != "sqlite":
        return None
    return conn.exec_driver_sql(_HIGHEST).scalar()


def _restore(highest: int | None) -> None:
    """Let the numbers of events go on: a rebuilt table would count from its highest row."""
    if highest is None:
        return
    conn = op.get_bind()
    conn.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = 'event'")
    conn.exec_driver_sql("INSERT INTO sqlite_sequence (name, seq) VALUES ('event', ?)", (highest,))


def _rebuild_requests(*, with_rowid: bool) -> None:
    if op.get_bind().dialect.name != "sqlite":
        return
    kwargs = {"sqlite_with_rowid": with_rowid}
    with op.batch_alter_table("client_request", recreate="always", table_kwargs=kwargs):
        pass
