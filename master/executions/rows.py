"""Queries on the tables that engines share; all functions run in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from catena.master.executions.model import Execution, Run
from catena.master.store.execution_tables import EXECUTIONS, RUNS

#: Selects the columns of `Run`.
RUN_ROWS: sa.Select[Any] = sa.select(*(RUNS.c[name] for name in Run._fields))
#: Selects the columns of `Execution`.
EXECUTION_ROWS: sa.Select[Any] = sa.select(*(EXECUTIONS.c[name] for name in Execution._fields))
_INSERT_EXECUTION = sa.insert(EXECUTIONS)
_RUN = RUN_ROWS.where(RUNS.c.id == sa.bindparam("b_run"))


def runs(
    conn: sa.Connection, query: sa.Select[Any], values: Mapping[str, Any] | None = None
) -> list[Run]:
    """Return the runs of a query that is made from RUN_ROWS."""
    return [Run._make(row) for row in conn.execute(query, values or {})]


def executions(
    conn: sa.Connection, query: sa.Select[Any], values: Mapping[str, Any] | None = None
) -> list[Execution]:
    """Return the executions of a query that is made from EXECUTION_ROWS."""
    return [Execution._make(row) for row in conn.execute(query, values or {})]


def run(conn: sa.Connection, run_id: int) -> Run | None:
    """Return a run by its id; None if it does not exist."""
    row = conn.execute(_RUN, {"b_run": run_id}).first()
    return None if row is None else Run._make(row)


def insert_run(conn: sa.Connection, values: Mapping[str, Any]) -> int:
    """Store a run; return its id. `Ledger.open` records its beginning in the history."""
    key = conn.execute(sa.insert(RUNS).values(values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def insert_executions(conn: sa.Connection, values: Sequence[Mapping[str, Any]]) -> None:
    """Store executions."""
    if values:
        conn.execute(_INSERT_EXECUTION, list(values))
