"""Fixtures of all tests of the master."""

from __future__ import annotations

import pytest

from tests.support import postgres_server
from tests.support.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> PostgresServer:
    """Return the server of this process, on which each test makes a database of its own."""
    return postgres_server.server()
