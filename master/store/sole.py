"""A lock that permits one master at a time for one PostgreSQL database.

The connection that writes holds a session advisory lock for the master's whole life, so every
commit is covered by the lock. The server drops the lock with the connection. A writer that
reconnects must take the lock again and check that no other master held it in between.

Session locks need a direct connection or a pooler in session mode.
"""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from catena.core.errors import InvalidStateError, TryLaterError

LOG = logging.getLogger(__name__)

#: First half of the lock's number; the second is the hash of the schema with the tables.
_CLASS = 0x63617465
_LOCK = f"{_CLASS}, hashtext(current_schema())"
#: Maximum length of an application name in PostgreSQL, which truncates longer ones.
_NAME_LIMIT = 63
_HOST_LIMIT = 30
#: Makes the server notice within 60 seconds that the host of a connection is gone.
_KEEPALIVE = {
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
#: Seconds to wait for the server to end a lost connection of this process.
_GHOST_SECONDS = 5.0
_GHOST_PAUSE_SECONDS = 0.1
#: Row of the table `fact` with the master that opened the database last.
TENURE = "tenure"
_HOLDER = f"""
    SELECT a.pid, a.application_name, a.client_addr, a.backend_start
    FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
      AND l.classid = {_CLASS} AND l.objid = (hashtext(current_schema())::bigint & 4294967295)
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class NotAloneError(InvalidStateError):
    """Another master holds the database's lock, or has held it since this one opened it."""


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The holder of the lock."""

    #: Process id of the server's end of its connection.
    backend: int
    #: Application name: `Sole.name`, or any text of another program.
    name: str
    #: Address of its host; "" for a unix socket.
    address: str
    #: ISO 8601.
    since: str

    def __str__(self) -> str:
        place = f" at {self.address}" if self.address else ""
        return f"{self.name or 'a program without a name'}{place}, since {self.since}"


class Sole:
    """This process's lock on a database.

    Args:
        purpose: "master", or another reason to lock out masters.
    """

    def __init__(self, purpose: str = "master") -> None:
        self._token = uuid.uuid4().hex
        host = socket.gethostname()[:_HOST_LIMIT]
        who = f"catena {purpose} pid {os.getpid()} on {host} {self._token[:8]}"
        #: The application name of the connection that holds the lock.
        self.name = who[:_NAME_LIMIT]
        self._open = False

    def take(self, connection: Any) -> None:
        """Take the lock on a new connection of the driver.

        Raises:
            NotAloneError: another master holds the lock, or has held it in between. The connection
                is closed.
        """
        try:
            self._take(connection)
            connection.commit()
        except BaseException:
            connection.close()
            raise

    def mark(self, conn: sa.Connection) -> None:
        """Record in the running transaction that this process now has the database."""
        conn.exec_driver_sql("DELETE FROM fact WHERE name = %s", (TENURE,))
        row = (TENURE, self._token)
        conn.exec_driver_sql("INSERT INTO fact (name, value) VALUES (%s, %s)", row)
        self._open = True

    def _take(self, connection: Any) -> None:
        for name, value in (("application_name", self.name), *_KEEPALIVE.items()):
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        give_up = time.monotonic() + _GHOST_SECONDS
        while not _locked(connection):
            found = holder(connection)
            if found is not None and found.name != self.name:
                raise NotAloneError(_refusal(found))
            if time.monotonic() > give_up:
                raise NotAloneError("can't take the database's lock, and no holder is visible")
            if found is not None:
                # A lost connection of this process that the server has not noticed yet.
                connection.execute("SELECT pg_terminate_backend(%s)", (found.backend,))
            connection.commit()
            time.sleep(_GHOST_PAUSE_SECONDS)
        if self._open and _tenure(connection) != self._token:
            raise NotAloneError(
                "another master had the database while this one had lost its connection, so data "
                "in this one's memory may be outdated; start it again"
            )


@contextmanager
def held(url: str, wanted_for: str) -> Iterator[None]:
    """Lock a PostgreSQL database against other masters while the block runs.

    Args:
        url: of the database.
        wanted_for: the purpose, shown to others.

    Raises:
        NotAloneError: another master holds the lock.
        TryLaterError: the database cannot be reached.
    """
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    sa.event.listen(engine, "connect", _taker(Sole(wanted_for)))
    try:
        try:
            connection = engine.connect()
        except sa.exc.DBAPIError as error:
            raise TryLaterError(f"the database can't be reached: {error.orig}") from None
        with connection:
            yield
    finally:
        engine.dispose()


def guard(engine: sa.Engine, sole: Sole) -> None:
    """Make every new connection of *engine* take the lock of *sole*."""
    sa.event.listen(engine, "connect", _taker(sole))


def _taker(sole: Sole) -> Any:
    return lambda connection, _record: sole.take(connection)


def holder(connection: Any) -> LockHolder | None:
    """Return the holder of the database's lock, or None.

    Args:
        connection: of the driver.
    """
    row = connection.execute(_HOLDER).fetchone()
    if row is None:
        return None
    since = row[3].isoformat(timespec="seconds") if row[3] is not None else "unknown"
    return LockHolder(int(row[0]), str(row[1] or ""), str(row[2] or ""), since)


def _locked(connection: Any) -> bool:
    row = connection.execute(f"SELECT pg_try_advisory_lock({_LOCK})").fetchone()
    return bool(row[0])


def _tenure(connection: Any) -> str:
    row = connection.execute("SELECT value FROM fact WHERE name = %s", (TENURE,)).fetchone()
    return str(row[0]) if row is not None else ""


def _refusal(found: LockHolder) -> str:
    return (
        f"another master has the database: {found}; one PostgreSQL database serves one master. "
        "Stop that master first. If its host is lost, the server drops the lock within a minute"
    )
