"""One master at a time on one database."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
import sqlalchemy as sa

from catena.core.errors import InvalidStateError, TryLaterError
from catena.master.store import lock, sole
from catena.master.store.database import Store
from catena.master.store.sole import NotAloneError
from catena.master.store.tables import FACTS
from tests.integration.master.bench import a_master
from tests.support.postgres_server import PostgresServer
from tests.support.waiting import PATIENCE_SECONDS, wait_until


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_database()


def cut_lock(url: str) -> None:
    """End the connection that holds the lock, as a failover or a firewall does."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        raw = conn.connection.dbapi_connection
        found = sole.holder(raw)
        assert found is not None
        conn.exec_driver_sql(f"SELECT pg_terminate_backend({found.backend})")
        wait_until(lambda: sole.holder(raw) is None, "the end of the connection")
    engine.dispose()


async def put(store: Store, name: str) -> None:
    await store.write(lambda conn: conn.execute(sa.insert(FACTS).values(name=name, value="x")))


async def written(store: Store) -> set[str]:
    """Return the names that tests have `put` into a database."""
    query = sa.select(FACTS.c.name).where(FACTS.c.value == "x")
    return set(await store.read(lambda conn: conn.execute(query).scalars().all()))


async def test_second_master_on_postgresql_is_refused_with_the_name_of_the_first(
    url: str,
) -> None:
    async with a_master(database=url) as first:
        expected = rf"catena master pid {os.getpid()} on \S+ .*since 20\d\d-.*Stop that master"
        with pytest.raises(NotAloneError, match=expected):
            async with a_master(database=url):
                pass
        with pytest.raises(NotAloneError, match="another master has the database"):
            with sole.held(url, "start"):
                pass
        await put(first.store, "still")
    async with a_master(database=url) as second:
        await put(second.store, "again")


async def test_tool_that_changes_the_schema_keeps_masters_away(url: str) -> None:
    with sole.held(url, "upgrade"):
        with pytest.raises(NotAloneError, match="catena upgrade pid"):
            async with a_master(database=url):
                pass


def test_unreachable_database_server_is_reported(tmp_path: Path) -> None:
    url = f"postgresql+psycopg://test@/none?host={tmp_path}"
    with pytest.raises(TryLaterError, match="the database can't be reached: "):
        with sole.held(url, "start"):
            pass


async def test_two_databases_of_one_server_can_each_have_a_master(
    url: str, postgres: PostgresServer
) -> None:
    other = postgres.new_database()
    async with a_master(database=url) as first, a_master(database=other) as second:
        await put(first.store, "of-first")
        await put(second.store, "of-second")
        assert await written(first.store) == {"of-first"}
        assert await written(second.store) == {"of-second"}


async def test_lost_lock_is_reacquired_before_the_next_write(url: str) -> None:
    lost: list[str] = []
    async with a_master(database=url) as master:
        master.store.on_lock_lost = lost.append
        cut_lock(url)
        await put(master.store, "after")
        with pytest.raises(NotAloneError):
            with sole.held(url, "start"):
                pass
    assert not lost


@pytest.mark.parametrize("ended", [False, True])
async def test_master_stops_when_another_one_had_the_database_meanwhile(
    url: str, ended: bool
) -> None:
    async with a_master(database=url) as first:
        cut_lock(url)
        second = Store(url, alone=True)
        await second.open()
        if ended:
            await second.close()
        # Nothing is to be stored: the master looks by itself.
        with pytest.raises(NotAloneError):
            await first.store.prove_alone()
        with pytest.raises(NotAloneError):
            await put(first.store, "too late")
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await first.run() == 1
        if not ended:
            await second.close()
    names = Store(url)
    await names.open()
    query = sa.select(FACTS.c.name).where(FACTS.c.name == "too late")
    assert await names.read(lambda conn: conn.execute(query).first()) is None
    await names.close()


def test_own_lost_connection_does_not_block_a_master(url: str) -> None:
    """The server notices a cut connection late: until then it holds the lock."""
    engine = sa.create_engine(url)
    claim = sole.Sole()
    ghost = engine.raw_connection()
    claim.take(ghost.dbapi_connection)
    connection = engine.raw_connection()
    claim.take(connection.dbapi_connection)
    found = sole.holder(connection.dbapi_connection)
    assert found is not None
    assert found.name == claim.name
    ghost.invalidate()
    connection.close()
    engine.dispose()


@pytest.mark.parametrize("way", ["symbolic link", "hard link", "folder", "file"])
def test_second_master_on_one_file_is_refused_under_every_name_of_it(
    tmp_path: Path, way: str
) -> None:
    first = tmp_path / "one" / "master.db"
    first.parent.mkdir(mode=0o700)
    first.touch(mode=0o600)
    other = tmp_path / "two" / "master.db"
    if way == "folder":
        other.parent.symlink_to(first.parent)
    else:
        other.parent.mkdir(mode=0o700)
        if way == "symbolic link":
            other.symlink_to(first)
        elif way == "hard link":
            other.hardlink_to(first)
        else:
            other = first
    with lock.held(first, "a second one"):
        with pytest.raises(InvalidStateError, match="a master runs with it"):
            with lock.held(other, "a second one"):
                pass
    with lock.held(other, "a second one"):
        pass


def test_refusal_names_the_process_that_holds_the_file(tmp_path: Path) -> None:
    database = tmp_path / "master.db"
    with lock.held(database, "a second one"):
        expected = rf"\(pid {os.getpid()} on \S+, since 20\d\d-\S+Z\)"
        with pytest.raises(InvalidStateError, match=expected):
            with lock.held(database, "a second one"):
                pass
    lock.path_of(database).write_bytes(b"\x00{")
    with lock.held(database, "restoring it"):
        pass
