"""Statements that are run for many rows at once.

SQLAlchemy looks up every value of every row by name and type. For the three statements that store
a return, that took as long as SQLite itself. Here a statement is compiled once per database, and a
row is a tuple with known positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from catena.master.store.fast import direct

_LAST = "SELECT last_insert_rowid()"
_Bind = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Form:
    """A statement in the form of one database."""

    text: str
    #: For each value of the driver: its name, its position in a row, and its converter.
    values: tuple[tuple[str, int, _Bind | None], ...]
    #: Whether the driver takes values by position instead of by name.
    positional: bool

    def bound_one(self, row: Sequence[Any]) -> list[Any]:
        """Return the values of a single row for a driver that takes them by position."""
        return [row[at] if bind is None else bind(row[at]) for _, at, bind in self.values]

    def bound(self, rows: Sequence[Sequence[Any]]) -> list[Any]:
        # Convert column by column, because most columns need no conversion.
        columns = list(zip(*rows, strict=True))
        placed = zip(
            *(
                columns[place] if bind is None else map(bind, columns[place])
                for _, place, bind in self.values
            ),
            strict=True,
        )
        if self.positional:
            return list(placed)
        names = [name for name, _, _ in self.values]
        return [dict(zip(names, row, strict=True)) for row in placed]


class ManyRows:
    """An insert or update for many rows.

    Args:
        statement: an insert, or an update whose values and conditions are named parameters.
        names: content of a row, in order: columns of the insert, or all those parameters.
    """

    def __init__(self, statement: sa.Insert | sa.Update, names: Sequence[str]) -> None:
        self._statement = statement
        self._names = tuple(names)
        self._forms: dict[str, _Form] = {}

    def run(self, conn: sa.Connection, rows: Sequence[Sequence[Any]]) -> int:
        """Run the statement for each of *rows* in order; return the number of changed rows.

        Raises:
            sqlalchemy.exc.DBAPIError: as from `Connection.execute`.
        """
        if not rows:
            return 0
        return int(self._run(conn, rows).rowcount)

    def _run(self, conn: sa.Connection, rows: Sequence[Sequence[Any]]) -> Any:
        """Return the driver's cursor, or SQLAlchemy's result."""
        form = self._forms.get(conn.dialect.name)
        if form is None:
            form = self._forms[conn.dialect.name] = self._form(conn.dialect)
        raw = direct.sqlite(conn)
        if raw is None:
            return conn.exec_driver_sql(form.text, form.bound(rows))
        if len(rows) == 1:
            return direct.run(raw, form.text, form.bound_one(rows[0]))
        return direct.run_many(raw, form.text, form.bound(rows))

    def last_key(self, conn: sa.Connection, rows: Sequence[Sequence[Any]]) -> int:
        """Run an SQLite insert for *rows*, at least one; return the row id of the last.

        Raises:
            sqlalchemy.exc.DBAPIError: as from `Connection.execute`.
        """
        cursor = self._run(conn, rows)
        if len(rows) > 1:
            # The cursor of an executemany() has no lastrowid.
            return int(direct.run(cursor.connection, _LAST).fetchone()[0])
        return int(cursor.lastrowid)

    def _form(self, dialect: sa.Dialect) -> _Form:
        compiled: Any = self._statement.compile(
            dialect=dialect,
            column_keys=list(self._names) if self._statement.is_insert else None,
            for_executemany=True,
        )
        names = compiled.positiontup if compiled.positional else list(compiled.binds)
        values = [
            (
                name,
                self._names.index(name),
                compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect),
            )
            for name in names
        ]
        return _Form(str(compiled), tuple(values), compiled.positional)
