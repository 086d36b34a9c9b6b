"""Selects by the driver return the values that SQLAlchemy returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa

from catena.master.store.fast.lookup import Lookup
from catena.master.store.metadata import MessagePackType

BOX = sa.Table(
    "box",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(8), nullable=False),
    sa.Column("full", sa.Boolean(), nullable=False),
    sa.Column("content", MessagePackType),
    sa.Column("since", sa.Double),
)
SELECT = sa.select(BOX, BOX.c.id.label("again")).where(
    BOX.c.name == sa.bindparam("b_name"), BOX.c.id > sa.bindparam("b_id")
)


class Box(NamedTuple):
    id: int
    name: str
    full: bool
    content: Any
    since: float
    again: int


THIS = Lookup(SELECT, Box)


@pytest.fixture
def conn() -> Iterator[sa.Connection]:
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        BOX.create(connection)
        row = {"id": 1, "name": "a", "full": True, "content": {"b": [b"\0", None]}, "since": 2.0}
        connection.execute(sa.insert(BOX), [row, {**row, "id": 2, "name": "b", "content": None}])
        yield connection
    engine.dispose()


@pytest.mark.parametrize("name", ["a", "b"])
def test_row_has_the_values_that_sqlalchemy_gives(conn: sa.Connection, name: str) -> None:
    values = {"b_id": 0, "b_name": name}
    found, known = THIS.one(conn, values), conn.execute(SELECT, values).one()
    assert found is not None
    assert tuple(found) == tuple(known)
    assert [type(value) for value in found] == [type(value) for value in known]
    assert (found.name, found.full, found.content, found.again) == (
        name, True, known.content, known.id,
    )  # fmt: skip


def test_lookup_of_a_missing_row_returns_none(conn: sa.Connection) -> None:
    assert THIS.one(conn, {"b_name": "a", "b_id": 1}) is None


def test_errors_are_those_of_sqlalchemy(conn: sa.Connection) -> None:
    conn.exec_driver_sql("DROP TABLE box")
    with pytest.raises(sa.exc.OperationalError, match="no such table"):
        Lookup(SELECT, Box).one(conn, {"b_name": "a", "b_id": 1})
