"""The database of a test's master: a file of SQLite, or one of a PostgreSQL server."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support import postgres_server

#: "postgresql" makes the master's tests run on PostgreSQL (make test-postgres).
VARIABLE = "CATENA_TEST_DATABASE"
ON_POSTGRES = os.environ.get(VARIABLE, "") == "postgresql"


def new_database(path: Path) -> str:
    """Return the URL of an empty database: SQLite's file *path*, or one of PostgreSQL."""
    return postgres_server.server().new_database() if ON_POSTGRES else f"sqlite:///{path}"
