"""Alembic's environment, which uses the connection of the store."""

from __future__ import annotations

from alembic import context

from catena.master.store.metadata import METADATA


def run() -> None:
    """Run the migrations of one upgrade in one transaction."""
    connection = context.config.attributes["connection"]
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        render_as_batch=True,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
