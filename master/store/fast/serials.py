"""Inserts of many rows whose keys the database assigns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from catena.master.store.fast.many_rows import ManyRows


class KeyedInsert:
    """An insert that returns the keys of its rows.

    SQLite would run a statement per row to return keys. That is unnecessary: only one connection
    writes at a time, so the keys of one insert are consecutive.

    Args:
        key: the column that the database numbers; rows go into its table.
        columns: content of a row, in order.
    """

    def __init__(self, key: sa.Column[Any], columns: Sequence[str]) -> None:
        assert isinstance(key.table, sa.Table)
        self._columns = tuple(columns)
        self._many = ManyRows(sa.insert(key.table), self._columns)
        self._returning = sa.insert(key.table).returning(key, sort_by_parameter_order=True)

    def run(self, conn: sa.Connection, rows: Sequence[Sequence[Any]]) -> Sequence[int]:
        """Insert *rows*; return their keys in order.

        Raises:
            sqlalchemy.exc.DBAPIError: as from `Connection.execute`.
        """
        if not rows:
            return ()
        if conn.dialect.name == "sqlite":
            last = self._many.last_key(conn, rows)
            return range(last - len(rows) + 1, last + 1)
        values = [dict(zip(self._columns, row, strict=True)) for row in rows]
        return [int(value) for value in conn.execute(self._returning, values).scalars()]


def insert_many(
    conn: sa.Connection, key: sa.Column[Any], rows: Sequence[Mapping[str, Any]]
) -> Sequence[int]:
    """Insert rows into the table of *key*; return their keys in order.

    All rows have the same columns. `KeyedInsert` is faster for rows that are tuples.
    """
    if not rows:
        return ()
    columns = tuple(rows[0])
    # An itemgetter of one name returns the bare value.
    take = itemgetter(*columns) if len(columns) > 1 else lambda row: (row[columns[0]],)
    return _insert(key, columns).run(conn, list(map(take, rows)))


@cache
def _insert(key: sa.Column[Any], columns: tuple[str, ...]) -> KeyedInsert:
    return KeyedInsert(key, columns)
