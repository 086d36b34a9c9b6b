"""Inserts return the keys that the database gave to their rows."""

from __future__ import annotations

import sqlalchemy as sa

from catena.master.store.fast.serials import KeyedInsert, insert_many

BOX = sa.Table(
    "box",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(8), nullable=False),
    sa.Column("size", sa.Integer, nullable=False, server_default="1"),
)


def stored(conn: sa.Connection) -> list[tuple[int, str, int]]:
    return [tuple(row) for row in conn.execute(sa.select(BOX).order_by(BOX.c.id))]


def test_keyed_insert_returns_keys_in_the_order_of_its_rows(conn: sa.Connection) -> None:
    insert = KeyedInsert(BOX.c.id, ("size", "name"))
    keys = [*insert.run(conn, [(5, "a")]), *insert.run(conn, [(6, "b"), (7, "c")])]
    assert list(zip(keys, "abc", (5, 6, 7), strict=True)) == stored(conn)


def test_keyed_insert_of_no_rows_returns_no_keys(conn: sa.Connection) -> None:
    assert list(KeyedInsert(BOX.c.id, ("name",)).run(conn, [])) == []


def test_insert_many_takes_rows_of_one_column(conn: sa.Connection) -> None:
    keys = insert_many(conn, BOX.c.id, [{"name": "a"}, {"name": "b"}])
    assert stored(conn) == [(keys[0], "a", 1), (keys[1], "b", 1)]
