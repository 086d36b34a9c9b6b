"""Bulk statements store the same rows as single statements."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from catena.master.store.fast.many_rows import ManyRows
from catena.master.store.metadata import MessagePackType, Ready, Words

BOX = sa.Table(
    "box",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("label", Words, nullable=False, server_default=""),
    sa.Column("full", sa.Boolean(), nullable=False),
    sa.Column("content", MessagePackType),
)
INSERT = ManyRows(sa.insert(BOX), ("id", "content", "full", "label"))
FILL = ManyRows(
    sa.update(BOX)
    .where(BOX.c.id == sa.bindparam("b_id"), BOX.c.full == sa.bindparam("b_was"))
    .values(full=sa.bindparam("b_full"), label=sa.bindparam("b_label")),
    ("b_id", "b_was", "b_full", "b_label"),
)


def rows(conn: sa.Connection) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in conn.execute(sa.select(BOX).order_by(BOX.c.id))]


def test_values_are_stored_by_the_types_of_their_columns(conn: sa.Connection) -> None:
    changed = INSERT.run(
        conn,
        [
            (1, {"a": [b"\0", None]}, True, "a\0b"),
            (2, Ready.of([1]), False, ""),
            (3, None, 1, "x"),
        ],
    )
    assert changed == 3
    assert rows(conn) == [
        (1, "a\ufffdb", True, {"a": [b"\0", None]}),
        (2, "", False, [1]),
        (3, "x", True, None),
    ]


def test_update_says_how_many_rows_it_changed(conn: sa.Connection) -> None:
    INSERT.run(conn, [(1, None, False, ""), (2, None, True, ""), (3, None, False, "")])
    assert FILL.run(conn, [(n, False, True, "full") for n in (1, 2, 3, 4)]) == 2
    assert [row[1] for row in rows(conn)] == ["full", "", "full"]


def test_one_row_or_no_row_can_be_stored(conn: sa.Connection) -> None:
    assert INSERT.run(conn, [(1, None, True, "")]) == 1
    assert INSERT.run(conn, []) == 0
    assert len(rows(conn)) == 1


def test_duplicate_row_is_refused(conn: sa.Connection) -> None:
    INSERT.run(conn, [(1, None, True, "")])
    with pytest.raises(sa.exc.IntegrityError):
        INSERT.run(conn, [(2, None, True, ""), (1, None, True, "")])


def test_driver_that_takes_names_gets_them() -> None:
    from sqlalchemy.dialects import postgresql

    form = FILL._form(postgresql.dialect(paramstyle="pyformat"))  # type: ignore[no-untyped-call]
    assert "%(b_label)s" in form.text
    assert form.bound([(1, False, True, "a\0")]) == [
        {"b_full": True, "b_label": "a\ufffd", "b_id": 1, "b_was": False}
    ]
