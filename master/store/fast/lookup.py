"""Selects needed for every job and return: compiled once, and run by SQLite's driver."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from catena.master.store.fast import direct


@dataclass(frozen=True, slots=True)
class _Form:
    """A select in SQLite's form."""

    text: str
    #: Names of its parameters, in order.
    names: Sequence[str]
    #: Makes a row from the columns' values.
    row: Callable[..., Any]
    #: For each column the converter of the stored value; None if there is nothing to convert.
    readers: Sequence[Callable[[Any], Any] | None]


class Lookup:
    """A select of at most one row.

    Args:
        statement: with plain parameters and distinct column names.
    """

    def __init__(self, statement: sa.Select[Any]) -> None:
        self._statement = statement
        self._form: _Form | None = None

    def one(self, conn: sa.Connection, values: Mapping[str, Any]) -> Any:
        """Return the row, with its columns as attributes, or None.

        Args:
            conn: the running transaction.
            values: of all parameters, each in its stored form.

        Raises:
            sqlalchemy.exc.DBAPIError: as from `Connection.execute`.
        """
        raw = direct.sqlite(conn)
        if raw is None:
            return conn.execute(self._statement, values).one_or_none()
        form = self._form
        if form is None:
            form = self._form = self._compiled(conn.dialect)
        found = direct.run(raw, form.text, [values[name] for name in form.names]).fetchone()
        if found is None:
            return None
        return form.row(
            *[
                value if read is None else read(value)
                for value, read in zip(found, form.readers, strict=True)
            ]
        )

    def _compiled(self, dialect: sa.Dialect) -> _Form:
        compiled: Any = self._statement.compile(dialect=dialect)
        columns = self._statement.selected_columns
        readers = [
            column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns
        ]
        row: Callable[..., Any] = namedtuple("Row", columns.keys())  # type: ignore[misc]
        return _Form(str(compiled), tuple(compiled.positiontup), row, readers)
