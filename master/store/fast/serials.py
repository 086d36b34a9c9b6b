"""Inserts of many rows whose keys the database assigns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from catena.master.store.fast.many_rows import ManyRows


def insert_many(
    conn: sa.Connection, key: sa.Column[Any], rows: Sequence[Mapping[str, Any]]
) -> Sequence[int]:
    """Insert rows into the table of *key*, all with the same columns; return their keys in order.

    SQLite would run a statement per row to return keys. It needs none: one connection writes at a
    time, and what it inserts without a pause is numbered without a gap.
    """
    if not rows:
        return ()
    if conn.dialect.name == "sqlite":
        columns = tuple(rows[0])
        last = _insert(key.table, columns).last_key(conn, list(map(itemgetter(*columns), rows)))
        return range(last - len(rows) + 1, last + 1)
    returning = sa.insert(key.table).returning(key, sort_by_parameter_order=True)
    return [int(value) for value in conn.execute(returning, rows).scalars()]


@cache
def _insert(table: sa.FromClause, columns: tuple[str, ...]) -> ManyRows:
    assert isinstance(table, sa.Table)
    return ManyRows(sa.insert(table), columns)
