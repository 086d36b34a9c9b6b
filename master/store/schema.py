"""Upgrades a database to the schema of this version."""

from __future__ import annotations

import sqlalchemy as sa

from catena.core.errors import CatenaError
from catena.master.store import chain_tables, execution_tables, ssh_tables, tables
from catena.master.store.metadata import METADATA

#: Modules whose import adds the tables of this version to `METADATA`.
TABLES = (tables, execution_tables, chain_tables, ssh_tables)
#: Revision of the newest file in migrations/versions (r0001_core.py, ...). Known here so that a
#: start with an up to date database need not import Alembic (240 ms); a new migration raises it.
HEAD = "0016"
#: Alembic's own table, with the revision of the database.
_VERSIONS = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


class SchemaError(CatenaError):
    """The database belongs to a newer version."""


def current(engine: sa.Engine) -> str:
    """Return the revision of the database; "" for an empty one."""
    if not sa.inspect(engine).has_table("alembic_version"):
        return ""
    with engine.connect() as conn:
        found = conn.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return str(found or "")


def create(engine: sa.Engine) -> None:
    """Make all tables of this version in *engine*'s empty database, in one transaction.

    The migrations make the same tables; creating them at once takes a tenth of the time.
    """
    with engine.begin() as conn:
        METADATA.create_all(conn, checkfirst=False)
        _VERSIONS.create(conn)
        conn.execute(sa.insert(_VERSIONS).values(version_num=HEAD))


def migrate(engine: sa.Engine, revision: str = HEAD) -> None:
    """Run the migrations up to *revision* that *engine*'s database lacks."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "catena.master.store:migrations")
    config.set_main_option("path_separator", "os")
    with engine.connect() as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, revision)


def upgrade(engine: sa.Engine) -> None:
    """Upgrade *engine*'s database to the schema of this version, or create it if it is empty.

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
    if found:
        migrate(engine)
    else:
        create(engine)
