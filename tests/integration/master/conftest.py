"""Fixtures of all tests of the master."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres_server import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Give a server on which each test makes a database of its own."""
    with postgres_server() as server:
        yield server
