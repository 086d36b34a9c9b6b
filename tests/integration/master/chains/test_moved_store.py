"""A store that moves between hosts with different uptimes and wall clocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.job import FunctionCall
from catena.master.jobs.model import JobRequest
from tests.integration.master.chains.bench import HOUR, Bench, a_bench, key, ret, row
from tests.support.postgres_server import PostgresServer

START = "mgractionchains.start"
REBOOT: tuple[str, dict[str, Any]] = ("reboot", {})
DAY = 24 * HOUR
#: Uptimes of the first and the second host.
UPTIMES = ((40.0, 200 * DAY), (200 * DAY, 40.0))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return ""
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


async def _wait_for_boot(bench: Bench) -> None:
    """Bring a chain to the point where its only action waits for the minion's new boot."""
    chain = await bench.begin("patch", REBOOT)
    view = await bench.show("patch")
    (action,) = view["minions"][0]["actions"]
    (jid,) = await bench.job_ids(START)
    armed = {key(chain, action["action_id"], 1): row(True, "armed")}
    await bench.returns(ret(jid, START, armed))
    assert await bench.states("patch") == ["RUNNING"]


@pytest.mark.parametrize(("first", "second"), UPTIMES)
async def test_boundary_that_waits_survives_a_move_of_the_store_and_fails_at_its_deadline(
    tmp_path: Path, url: str, first: float, second: float
) -> None:
    async with a_bench(tmp_path, url=url) as bench:
        await bench.move_to_host(1, uptime=first)
        await _wait_for_boot(bench)
        allowed = bench.rules.boundary_seconds
        bench.clock.advance(60)
        for number, uptime in ((2, second), (1, first + 120)):
            await bench.move_to_host(number, uptime=uptime)
            await bench.chains.scheduler.tick()
            assert await bench.states("patch") == ["RUNNING"]
        bench.clock.advance(allowed - 90)
        await bench.chains.scheduler.tick()
        assert await bench.states("patch") == ["RUNNING"]
        bench.clock.advance(60)
        await bench.chains.scheduler.tick()
        assert await bench.states("patch") == ["FAILED"]


@pytest.mark.parametrize("ahead", [-400 * DAY, 400 * DAY])
async def test_boundary_fails_at_its_deadline_when_the_new_host_has_a_wrong_clock(
    bench: Bench, ahead: float
) -> None:
    await _wait_for_boot(bench)
    await bench.move_to_host(2, uptime=5.0, ahead=ahead)
    await bench.chains.scheduler.tick()
    assert await bench.states("patch") == ["RUNNING"]
    bench.clock.advance(bench.rules.boundary_seconds + 1)
    await bench.chains.scheduler.tick()
    assert await bench.states("patch") == ["FAILED"]


@pytest.mark.parametrize(("first", "second"), UPTIMES)
async def test_queued_job_survives_a_move_of_the_store_and_expires(
    tmp_path: Path, url: str, first: float, second: float
) -> None:
    async with a_bench(tmp_path, url=url) as bench:
        await bench.move_to_host(1, uptime=first)
        await bench.jobs.submit(JobRequest("root", FunctionCall("test.ping"), minions=("web1",)))
        for number, uptime in ((2, second), (1, first + 60)):
            bench.clock.advance(60)
            await bench.move_to_host(number, uptime=uptime)
            assert await bench.jobs.expire() == 0
        bench.clock.advance(DAY - 180)
        assert await bench.jobs.expire() == 0
        bench.clock.advance(120)
        assert await bench.jobs.expire() == 1


async def test_queued_job_expires_when_the_new_host_has_a_slow_clock(
    bench: Bench,
) -> None:
    await bench.jobs.submit(JobRequest("root", FunctionCall("test.ping"), minions=("web1",)))
    await bench.move_to_host(2, uptime=5.0, ahead=-400 * DAY)
    assert await bench.jobs.expire() == 0
    bench.clock.advance(DAY + 1)
    assert await bench.jobs.expire() == 1
