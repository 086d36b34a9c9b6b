"""Rows whose key the database counts: many at once, and the keys that they got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

_LAST = sa.select(sa.func.last_insert_rowid())


def insert_many(
    conn: sa.Connection, key: sa.Column[Any], rows: Sequence[Mapping[str, Any]]
) -> Sequence[int]:
    """Insert rows into the table of *key*, all with the same columns; return their keys in order.

    SQLite would run a statement per row to return keys. It needs none: one connection writes at a
    time, and what it inserts without a pause is numbered without a gap.
    """
    if not rows:
        return ()
    insert = sa.insert(key.table)
    if conn.dialect.name == "sqlite":
        conn.execute(insert, rows)
        last = int(conn.execute(_LAST).scalar_one())
        return range(last - len(rows) + 1, last + 1)
    returning = insert.returning(key, sort_by_parameter_order=True)
    return [int(value) for value in conn.execute(returning, rows).scalars()]
