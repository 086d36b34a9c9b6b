"""The shortest way of a statement to SQLite: its text and values, to the driver itself.

SQLAlchemy makes a context, a cursor and a result for each statement; for the dozen small ones of a
job and its return that took as long as SQLite and the disk together. What is known beforehand (the
text, the places of the values) goes past it. Errors are those of SQLAlchemy all the same. Other
databases are asked by SQLAlchemy alone, which knows how their connections break.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa


def sqlite(conn: sa.Connection) -> sqlite3.Connection | None:
    """Return the driver's own connection of *conn*; None where it is not SQLite's."""
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
        raise _told(error, text) from error


def run_many(raw: sqlite3.Connection, text: str, rows: Sequence[Sequence[Any]]) -> sqlite3.Cursor:
    """Run one statement for each of *rows*; raises as `run`."""
    try:
        return raw.executemany(text, rows)
    except sqlite3.Error as error:
        raise _told(error, text) from error


@contextmanager
def transaction(conn: sa.Connection) -> Iterator[None]:
    """Commit what the block writes, or nothing of it when it raises; as `Connection.begin`.

    SQLAlchemy has a transaction of its own in it once something asks by its means. It finds the
    driver's (see `begin`), and both end together.

    Raises:
        sqlalchemy.exc.DBAPIError: it can't begin or be committed; nothing of it is kept.
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

    To be called when SQLAlchemy begins one.
    """
    raw = sqlite(conn)
    assert raw is not None
    if not raw.in_transaction:
        run(raw, "BEGIN IMMEDIATE")


@contextmanager
def apart(conn: sa.Connection) -> Iterator[None]:
    """Keep nothing of the block when it raises, and all that was before it.

    As `Connection.begin_nested`, which compiles each statement of its savepoint anew: that took
    longer than a small function that runs inside.
    """
    _say(conn, "SAVEPOINT one")
    try:
        yield
    except BaseException:
        # With the connection all of the transaction is gone.
        if not conn.invalidated:
            _say(conn, "ROLLBACK TO SAVEPOINT one")
            _say(conn, "RELEASE SAVEPOINT one")
        raise
    _say(conn, "RELEASE SAVEPOINT one")


def _say(conn: sa.Connection, text: str) -> None:
    raw = sqlite(conn)
    if raw is None:
        conn.exec_driver_sql(text)
    else:
        run(raw, text)


def _told(error: sqlite3.Error, text: str) -> BaseException:
    return sa.exc.DBAPIError.instance(text, (), error, sqlite3.Error)
