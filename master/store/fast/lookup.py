"""Selects needed for every job and return: compiled once, and run by SQLite's driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from catena.master.store.fast import direct

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Form:
    """A select in SQLite's form."""

    text: str
    #: Names of its parameters, in order.
    names: Sequence[str]
    #: For each column the converter of the stored value; None if there is nothing to convert.
    readers: Sequence[Callable[[Any], Any] | None]


class Lookup(Generic[R]):
    """A select of at most one row.

    Args:
        statement: with plain parameters and distinct column names.
        record: makes the result; called with the values of the columns, in their order.
    """

    def __init__(self, statement: sa.Select[Any], record: Callable[..., R]) -> None:
        self._statement = statement
        self._record = record
        self._form: _Form | None = None

    def one(self, conn: sa.Connection, values: Mapping[str, Any]) -> R | None:
        """Return the record of the row, or None if there is no row.

        Args:
            conn: the running transaction.
            values: of all parameters, each in its stored form.

        Raises:
            sqlalchemy.exc.DBAPIError: as from `Connection.execute`.
        """
        raw = direct.sqlite(conn)
        if raw is None:
            row = conn.execute(self._statement, values).one_or_none()
            return None if row is None else self._record(*row)
        form = self._form
        if form is None:
            form = self._form = self._compiled(conn.dialect)
        found = direct.run(raw, form.text, [values[name] for name in form.names]).fetchone()
        if found is None:
            return None
        return self._record(
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
        return _Form(str(compiled), tuple(compiled.positiontup), readers)
