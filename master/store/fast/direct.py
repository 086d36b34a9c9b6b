"""Shortcut for statements to SQLite: text and values go directly to the driver.

SQLAlchemy makes a context, a cursor and a result for each statement. For the dozen small
statements of a job and its return, that took as long as SQLite and the disk together. Errors are
still those of SQLAlchemy. Other databases are used only through SQLAlchemy, which handles broken
connections.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa


def sqlite(conn: sa.Connection) -> sqlite3.Connection | None:
    """Return the driver's own connection of *conn*; None if it is not SQLite's."""
    found = conn.connection.dbapi_connection
    return found if isinstance(found, sqlite3.Connection) else None


def run(raw: sqlite3.Connection, text: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
    """Run one statement in the running transaction.

    Raises:
        sqlalchemy.exc.DBAPIError: as from `Connection.execute`.
    """
    try:
        return raw.execute(text, values)
    except sqlite3.Error as error:
        raise _sqlalchemy_error(error, text) from error


def run_many(raw: sqlite3.Connection, text: str, rows: Sequence[Sequence[Any]]) -> sqlite3.Cursor:
    """Run one statement for each of *rows*; raises as `run`."""
    try:
        return raw.executemany(text, rows)
    except sqlite3.Error as error:
        raise _sqlalchemy_error(error, text) from error


@contextmanager
def transaction(conn: sa.Connection) -> Iterator[None]:
    """Commit what the block writes, or roll it back if it raises, like `Connection.begin`.

    SQLAlchemy begins its own transaction when it executes a statement. It then uses the driver's
    transaction (see `begin`), and both end together.

    Raises:
        sqlalchemy.exc.DBAPIError: it cannot begin or be committed; it is rolled back.
    """
    raw = sqlite(conn)
    if raw is None:
        with conn.begin():
            yield
        return
    run(raw, "BEGIN IMMEDIATE")
    try:
        yield
        if conn.in_transaction():
            conn.commit()
        else:
            run(raw, "COMMIT")
    except BaseException:
        conn.rollback()
        raw.rollback()
        raise


def begin(conn: sa.Connection) -> None:
    """Begin the driver's transaction for one of SQLAlchemy, unless `transaction` has done so.

    Call it when SQLAlchemy begins a transaction.
    """
    raw = sqlite(conn)
    assert raw is not None
    if not raw.in_transaction:
        run(raw, "BEGIN IMMEDIATE")


@contextmanager
def apart(conn: sa.Connection) -> Iterator[None]:
    """Roll back only the block if it raises, not what preceded it.

    Like `Connection.begin_nested`, which compiles the statements of its savepoint each time. That
    took longer than a small function inside.
    """
    _execute(conn, "SAVEPOINT one")
    try:
        yield
    except BaseException:
        # A lost connection has rolled back the whole transaction.
        if not conn.invalidated:
            _execute(conn, "ROLLBACK TO SAVEPOINT one")
            _execute(conn, "RELEASE SAVEPOINT one")
        raise
    _execute(conn, "RELEASE SAVEPOINT one")


def _execute(conn: sa.Connection, text: str) -> None:
    raw = sqlite(conn)
    if raw is None:
        conn.exec_driver_sql(text)
    else:
        run(raw, text)


def _sqlalchemy_error(error: sqlite3.Error, text: str) -> BaseException:
    return sa.exc.DBAPIError.instance(text, (), error, sqlite3.Error)
