"""The engine's own table (`store/greeting_tables.py` and a migration of a real engine)."""

from __future__ import annotations

import sqlalchemy as sa

from catena.master.store import schema
from catena.master.store.execution_tables import RUNS
from catena.master.store.metadata import Words

_METADATA = sa.MetaData()

GREETINGS = sa.Table(
    "greeting",
    _METADATA,
    sa.Column("run", sa.ForeignKey(RUNS.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("text", Words, nullable=False),
)


def migrate(url: str) -> None:
    """Bring an empty database to the schema of the master, with the table of the engine."""
    engine = sa.create_engine(url)
    schema.upgrade(engine)
    _METADATA.create_all(engine)
    engine.dispose()
