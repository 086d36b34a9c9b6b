"""The database of a test's master: a file of SQLite, or one of a PostgreSQL server."""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from tests.support.postgres_server import PostgresServer, postgres_server

#: "postgresql" makes the master's tests run on PostgreSQL (make test-postgres).
VARIABLE = "CATENA_TEST_DATABASE"
ON_POSTGRES = os.environ.get(VARIABLE, "") == "postgresql"


def new_database(path: Path) -> str:
    """Return the URL of an empty database: SQLite's file *path*, or one of PostgreSQL."""
    return _server().new_database() if ON_POSTGRES else f"sqlite:///{path}"


@cache
def _server() -> PostgresServer:
    """Start the server of this process; it stops when the process ends."""
    stack = ExitStack()
    server = stack.enter_context(postgres_server())
    atexit.register(stack.close)
    return server
