from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa


@pytest.fixture
def conn(request: pytest.FixtureRequest) -> Iterator[sa.Connection]:
    """Yield a connection to a new database with the table `BOX` of the test's module."""
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        request.module.BOX.create(connection)
        yield connection
    engine.dispose()
