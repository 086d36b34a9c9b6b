"""Selects that are asked with every job and return: compiled once, and told by SQLite's driver."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from catena.master.store.fast import direct


@dataclass(frozen=True, slots=True)
class _Form:
    """A select as SQLite takes it."""

    text: str
    #: Names of its parameters, in the order of their places.
    names: Sequence[str]
    #: Makes a row of the columns' values.
    row: Callable[..., Any]
    #: For each column what makes a value of what is stored; None: that is it.
    readers: Sequence[Callable[[Any], Any] | None]


class Lookup:
    """A select of at most one row.

    Args:
        statement: its parameters are plain ones, and the names of its columns all different.
    """

    def __init__(self, statement: sa.Select[Any]) -> None:
        self._statement = statement
        self._form: _Form | None = None

    def one(self, conn: sa.Connection, values: Mapping[str, Any]) -> Any:
        """Return the row, whose columns are attributes, or None.

        Args:
            conn: the running transaction.
            values: of all parameters, each as it is stored.

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
