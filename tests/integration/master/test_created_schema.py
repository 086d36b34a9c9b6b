"""A created database has the same schema as a migrated one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from catena.master.store import schema
from tests.support.postgres_server import PostgresServer


@pytest.fixture(params=["sqlite", "postgresql"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Return the URLs of two empty databases."""
    if request.param == "sqlite":
        return [f"sqlite:///{tmp_path / name}" for name in ("created.db", "migrated.db")]
    server: PostgresServer = request.getfixturevalue("postgres")
    return [server.new_database(), server.new_database()]


def described(inspector: sa.Inspector, table: str) -> dict[str, Any]:
    """Return all that a database says of a table, in no particular order."""
    columns = inspector.get_columns(table)
    constraints = (
        *inspector.get_foreign_keys(table),
        *inspector.get_unique_constraints(table),
        *inspector.get_check_constraints(table),
    )
    indexes = inspector.get_indexes(table)
    for index in indexes:
        # SQLite keeps the text of a rule, which has two signs for "not equal".
        options = index["dialect_options"]
        options.update({key: str(value).replace("!=", "<>") for key, value in options.items()})
    return {
        "columns": sorted(str(column | {"type": str(column["type"])}) for column in columns),
        "key": inspector.get_pk_constraint(table),
        "constraints": sorted(map(str, constraints)),
        "indexes": sorted(map(str, indexes)),
    }


def read(engine: sa.Engine) -> dict[str, dict[str, Any]]:
    """Return the whole schema of a database, and its revision."""
    inspector = sa.inspect(engine)
    found = {name: described(inspector, name) for name in inspector.get_table_names()}
    if engine.dialect.name == "sqlite":
        with engine.connect() as conn:
            made = conn.exec_driver_sql("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
            for name, sql in made:
                text = sql or ""
                options = {word: word in text for word in ("AUTOINCREMENT", "WITHOUT ROWID")}
                found.setdefault(name, {})["options"] = options
    return {"revision": {"number": schema.current(engine)}, **found}


def test_new_store_has_the_schema_of_the_migrations(urls: list[str]) -> None:
    schemas = []
    for url, make in zip(urls, (schema.upgrade, schema.migrate), strict=True):
        engine = sa.create_engine(url)
        make(engine)
        schemas.append(read(engine))
        engine.dispose()
    created, migrated = schemas
    assert len(created) > 20
    assert created.keys() == migrated.keys()
    for name, table in created.items():
        assert table == migrated[name], name
