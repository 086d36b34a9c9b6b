"""Masters on one PostgreSQL server agree on the time, whatever the clocks of their hosts say."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from catena.core.clock import Clock, ManualClock
from catena.core.config.folders import placed
from catena.core.config.master import MasterSettings
from catena.master.daemon import Master
from catena.master.process.clocks import same_boot
from catena.master.process.server_clocks import ServerClocks
from catena.master.store.database import Store
from tests.integration.master.bench import Bench
from tests.support.postgres_server import PostgresServer

DAY = 86_400.0
RIGHT = datetime.now(UTC)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_database()


@asynccontextmanager
async def a_store(url: str) -> AsyncIterator[Store]:
    store = Store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def clocks(store: Store, wrong: float, uptime: float) -> tuple[ServerClocks, ManualClock]:
    """Return the clocks of a host whose wall clock is *wrong* by so many seconds."""
    clock = ManualClock(RIGHT + timedelta(seconds=wrong), uptime)
    return ServerClocks(store, clock, f"boot of {wrong}", "host"), clock


async def test_masters_with_wrong_clocks_read_the_same_time(url: str) -> None:
    async with a_store(url) as store:
        first, _ = clocks(store, DAY, 10.0)
        second, _ = clocks(store, -400 * DAY, 9e6)
        assert first.read().boot == f"boot of {DAY}"
        await first.look()
        await second.look()
        one, other = first.read(), second.read()
        assert one.boot == other.boot
        assert (one.host, other.host) == ("", "")
        assert abs(one.wall - other.wall) < 60
        assert abs(one.mono - other.mono) < 60
        assert abs(one.wall - RIGHT.timestamp()) < 3600


async def test_server_time_advances_between_two_readings(url: str) -> None:
    async with a_store(url) as store:
        ours, clock = clocks(store, 0.0, 10.0)
        await ours.look()
        before = ours.read()
        clock.step(5 * DAY)
        assert ours.read() == before
        clock.advance(30.0)
        after = ours.read()
        assert after.wall - before.wall == pytest.approx(30.0)
        assert after.mono - before.mono == pytest.approx(30.0)


async def test_clock_step_of_the_server_changes_only_the_wall_clock_of_all_masters(
    url: str,
) -> None:
    async with a_store(url) as store:
        first, clock = clocks(store, 0.0, 10.0)
        await first.look()
        before = first.read()
        # Seen from a host on which a day has passed, the server's clock was set back by a day.
        clock.advance(DAY)
        await first.look()
        after = first.read()
        assert after.mono - before.mono == pytest.approx(DAY, abs=60)
        assert abs(after.wall - before.wall) < 60
        second, _ = clocks(store, 0.0, 99.0)
        await second.look()
        assert second.read().mono == pytest.approx(after.mono, abs=60)


async def test_steady_clock_never_goes_back(url: str) -> None:
    async with a_store(url) as store:
        ours, clock = clocks(store, 0.0, 10.0)
        await ours.look()
        # The host's clock runs fast, by less than a step.
        clock.advance(0.9)
        before = ours.read()
        await ours.look()
        assert ours.read().mono >= before.mono
        assert same_boot(before, ours.read())


async def test_server_time_needs_no_administrator_rights(
    postgres: PostgresServer, url: str
) -> None:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        conn.exec_driver_sql("CREATE ROLE plain LOGIN")
        conn.exec_driver_sql("GRANT ALL ON SCHEMA public TO plain")
    engine.dispose()

    async with a_store(url.replace("test@", "plain@")) as store:
        ours, _ = clocks(store, 0.0, 10.0)
        await ours.look()
        assert "/" in ours.read().boot


async def test_master_uses_the_clock_of_its_database_server(url: str, tmp_path: Path) -> None:
    def master(database: str, clock: Clock | None = None) -> Master:
        settings = MasterSettings(root_dir=str(tmp_path), interface="127.0.0.1", database=database)
        return Master(placed(settings, (), tmp_path, "master"), clock)

    assert isinstance(master(url).clocks, ServerClocks)
    assert not isinstance(master("").clocks, ServerClocks)
    # A clock that is given counts alone.
    assert not isinstance(master(url, ManualClock(RIGHT)).clocks, ServerClocks)


class Running(Bench):
    """A master without network on the clocks that an installed one uses."""

    def __init__(self, settings: MasterSettings) -> None:
        self.hand = ManualClock(RIGHT)
        Master.__init__(self, settings)


async def test_master_reads_the_server_clock_at_its_start(url: str) -> None:
    with tempfile.TemporaryDirectory(prefix="cm") as folder:
        made = MasterSettings(root_dir=folder, interface="127.0.0.1", database=url)
        master = Running(placed(made, (), Path(folder), "master"))
        before = master.clocks.read().boot
        await master.start()
        try:
            assert "/" in master.clocks.read().boot
            assert master.clocks.read().boot != before
        finally:
            await master.stop()
