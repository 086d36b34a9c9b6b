"""Transactions and errors of SQLite's driver equal those by SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from catena.master.store.fast import direct

BOX = sa.Table("box", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True))
ADD = "INSERT INTO box (id) VALUES (?)"


def _by_hand(connection: object, _record: object) -> None:
    connection.isolation_level = None  # type: ignore[attr-defined]  # as the store has it


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    made = sa.create_engine(f"sqlite:///{tmp_path / 'box.db'}")
    sa.event.listen(made, "connect", _by_hand)
    sa.event.listen(made, "begin", direct.begin)
    BOX.create(made)
    yield made
    made.dispose()


@pytest.fixture
def conn(engine: sa.Engine) -> Iterator[sa.Connection]:
    with engine.connect() as connection:
        yield connection


def put(conn: sa.Connection, *numbers: int) -> None:
    raw = direct.sqlite(conn)
    assert raw is not None
    for number in numbers:
        direct.run(raw, ADD, (number,))


def there(engine: sa.Engine) -> list[int]:
    with engine.connect() as other:
        return list(other.execute(sa.select(BOX.c.id).order_by(BOX.c.id)).scalars())


def test_transaction_of_the_driver_alone_is_committed(
    engine: sa.Engine, conn: sa.Connection
) -> None:
    with direct.transaction(conn):
        put(conn, 1, 2)
    assert there(engine) == [1, 2]


def test_sqlalchemy_statements_join_the_direct_transaction(
    engine: sa.Engine, conn: sa.Connection
) -> None:
    for start in (1, 11):
        with direct.transaction(conn):
            put(conn, start)
            conn.execute(sa.insert(BOX).values(id=start + 1))
            put(conn, start + 2)
        assert not conn.in_transaction()
    assert there(engine) == [1, 2, 3, 11, 12, 13]


@pytest.mark.parametrize("both", [False, True])
def test_failed_direct_transaction_leaves_nothing(
    engine: sa.Engine, conn: sa.Connection, both: bool
) -> None:
    with pytest.raises(RuntimeError), direct.transaction(conn):
        put(conn, 1)
        if both:
            conn.execute(sa.insert(BOX).values(id=2))
        raise RuntimeError
    with direct.transaction(conn):
        put(conn, 3)
    assert there(engine) == [3]


def test_errors_are_those_of_sqlalchemy(conn: sa.Connection) -> None:
    with pytest.raises(sa.exc.IntegrityError, match="UNIQUE"), direct.transaction(conn):
        put(conn, 1, 1)
    raw = direct.sqlite(conn)
    assert raw is not None
    with pytest.raises(sa.exc.OperationalError, match="no such table"):
        direct.run_many(raw, "INSERT INTO bag VALUES (?)", [(1,)])


def test_direct_transaction_can_be_retried_after_a_lock(
    engine: sa.Engine, conn: sa.Connection
) -> None:
    with engine.connect() as other:
        for each in (conn, other):
            raw = direct.sqlite(each)
            assert raw is not None
            raw.execute("PRAGMA busy_timeout=1")
        with direct.transaction(other):
            with pytest.raises(sa.exc.OperationalError, match="locked"), direct.transaction(conn):
                raise AssertionError("it has begun")
    with direct.transaction(conn):
        put(conn, 1)
    assert there(engine) == [1]


def test_failed_savepoint_leaves_the_rest_of_the_transaction(
    engine: sa.Engine, conn: sa.Connection
) -> None:
    with direct.transaction(conn):
        with direct.apart(conn):
            put(conn, 1)
        with pytest.raises(sa.exc.IntegrityError), direct.apart(conn):
            put(conn, 2, 1)
        with direct.apart(conn):
            put(conn, 3)
    assert there(engine) == [1, 3]
