"""Brings a database to the schema that this version needs."""

from __future__ import annotations

import sqlalchemy as sa

from catena.core.errors import CatenaError

#: Revision of the newest file in migrations/versions (r0001_core.py, ...). Known here so that a
#: start with an up to date database need not import Alembic (240 ms); a new migration raises it.
HEAD = "0014"


class SchemaError(CatenaError):
    """The database belongs to a newer version."""


def current(engine: sa.Engine) -> str:
    """Return the revision of the database; "" for an empty one."""
    if not sa.inspect(engine).has_table("alembic_version"):
        return ""
    with engine.connect() as conn:
        found = conn.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return str(found or "")


def upgrade(engine: sa.Engine) -> None:
    """Run the migrations that *engine*'s database lacks.

    Raises:
        SchemaError: the database has a revision that this version doesn't know.
    """
    found = current(engine)
    if found == HEAD:
        return
    if found > HEAD:
        raise SchemaError(
            f"the database has schema {found}, this version knows {HEAD}: "
            "install the version that made it"
        )
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "catena.master.store:migrations")
    config.set_main_option("path_separator", "os")
    with engine.connect() as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, "head")
