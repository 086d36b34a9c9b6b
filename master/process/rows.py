"""Queries on the facts of the master and on the time of a PostgreSQL server."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from catena.master.store.tables import FACTS

_NOW = sa.text(
    "SELECT extract(epoch FROM clock_timestamp()), extract(epoch FROM pg_postmaster_start_time()),"
    " system_identifier FROM pg_control_system()"
)


class ServerNow(NamedTuple):
    """The clock of a PostgreSQL server and its incarnation."""

    #: Seconds since the epoch, as is the start of the server.
    wall: float
    started: float
    #: Identifier of the database cluster.
    identifier: int


def server_now(conn: sa.Connection) -> ServerNow:
    """Return the time of a PostgreSQL server."""
    wall, started, identifier = conn.execute(_NOW).one()
    return ServerNow(float(wall), float(started), identifier)


def fact(conn: sa.Connection, name: str) -> str | None:
    """Return the value of a fact, or None."""
    value = conn.execute(sa.select(FACTS.c.value).where(FACTS.c.name == name)).scalar()
    return None if value is None else str(value)


def insert_fact(conn: sa.Connection, name: str, value: str) -> None:
    """Store a new fact."""
    conn.execute(sa.insert(FACTS).values(name=name, value=value))


def update_fact(conn: sa.Connection, name: str, value: str) -> bool:
    """Replace the value of a fact; return False if there is no such fact."""
    change = sa.update(FACTS).where(FACTS.c.name == name).values(value=value)
    return bool(conn.execute(change).rowcount)
