"""Chains end after a restoration of the store while their minions have continued."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from catena.client.requests.chains import ChainRef, ChainSchedule
from catena.core.ids import jid_time
from catena.core.job import FunctionCall
from catena.master.jobs.model import JobRequest
from catena.master.store import restored
from catena.master.store.tables import DELIVERIES
from tests.integration.master.chains.bench import HOUR, Bench
from tests.integration.master.chains.restoration import back_in_time

START = "mgractionchains.start"
CMD: tuple[str, dict[str, Any]] = ("cmd", {"cmd": "true"})


async def delivery(bench: Bench, jid: str) -> tuple[str, str]:
    query = sa.select(DELIVERIES.c.state, DELIVERIES.c.detail).where(DELIVERIES.c.jid == jid)
    row = await bench.store.read(lambda conn: conn.execute(query).one())
    return row.state, row.detail


async def begin(bench: Bench) -> None:
    await bench.begin("patch", CMD)


async def test_chain_unknown_to_its_minion_fails_at_the_first_hello(
    tmp_path: Path,
) -> None:
    async def after(bench: Bench) -> None:
        (jid,) = await bench.job_ids(START)
        await bench.chains.scheduler.tick()
        assert (await bench.show("patch"))["state"] == "dispatched"
        # It was sent by the lost database, and may have run: it is not sent again.
        assert await bench.says_hello() == []
        assert await delivery(bench, jid) == ("lost", restored.REASON)
        assert (await bench.show("patch"))["state"] == "failed"
        assert await bench.states("patch") == ["LOST"]
        new = await bench.jobs.submit(
            JobRequest("root", FunctionCall("test.ping"), minions=("web1",))
        )
        assert await bench.says_hello() == [new.jid]

    told = await back_in_time(tmp_path, begin, after)
    assert told[0].split(":")[0] == "chain 1 (patch) was running"
    assert "(mgractionchains.start) was open on web1: it ends as lost on" in told[1]


async def test_chain_with_a_running_job_continues(
    tmp_path: Path,
) -> None:
    async def after(bench: Bench) -> None:
        (jid,) = await bench.job_ids(START)
        assert await bench.says_hello(jid) == []
        assert (await delivery(bench, jid))[0] == "received"
        assert (await bench.show("patch"))["state"] == "dispatched"
        # What it had and no longer names has ended in the lost database.
        await bench.says_hello()
        assert (await bench.show("patch"))["state"] == "failed"

    await back_in_time(tmp_path, begin, after)


async def test_chain_that_was_due_since_the_backup_fails_and_later_ones_stay_scheduled(
    tmp_path: Path,
) -> None:
    async def before(bench: Bench) -> None:
        for label, seconds in (("soon", 60), ("tomorrow", 24 * HOUR)):
            await bench.apply(label, CMD)
            at = bench.clock.now().timestamp() + seconds
            await bench.chains.service.schedule(ChainSchedule(label, at), "alice")

    async def after(bench: Bench) -> None:
        for _ in range(2):
            await bench.chains.scheduler.tick()
            soon = await bench.show("soon")
            assert (soon["state"], soon["reason"]) == ("failed", restored.REASON)
            assert (await bench.show("tomorrow"))["state"] == "scheduled"
            assert await bench.job_ids(START) == []
            await bench.restart()
        # A person looks, and asks for it: that is a new order.
        await bench.chains.service.retry(ChainRef("soon"), "alice")
        await bench.chains.scheduler.tick()
        assert len(await bench.job_ids(START)) == 1

    told = await back_in_time(tmp_path, before, after)
    assert told == [
        "chain 1 (soon) became due after the backup: it fails, as it may have run",
        "chain 2 (tomorrow) is scheduled and starts at its due time",
    ]


async def test_queued_job_of_an_absent_minion_expires_or_is_lost(
    tmp_path: Path,
) -> None:
    async def before(bench: Bench) -> None:
        await bench.jobs.submit(
            JobRequest("root", FunctionCall("cmd.run"), minions=("web1", "web2"))
        )

    async def after(bench: Bench) -> None:
        (jid,) = await bench.job_ids("cmd.run")
        assert await bench.says_hello(minion="web2") == []
        bench.clock.advance(25 * HOUR)
        assert await bench.jobs.expire() == 1
        query = sa.select(DELIVERIES.c.state).where(DELIVERIES.c.jid == jid)
        query = query.order_by(DELIVERIES.c.minion)
        states = await bench.store.read(lambda conn: list(conn.execute(query).scalars()))
        assert states == ["expired", "lost"]

    await back_in_time(tmp_path, before, after, ("web1", "web2"))


async def test_jids_of_the_lost_store_are_not_reused_when_its_clock_was_ahead(
    tmp_path: Path,
) -> None:
    jids: list[str] = []

    async def submit(bench: Bench) -> None:
        request = JobRequest("root", FunctionCall("test.ping"), minions=("web1",))
        jids.append((await bench.jobs.submit(request)).jid)

    async def before(bench: Bench) -> None:
        bench.clock.advance(HOUR)
        await submit(bench)

    await back_in_time(tmp_path, before, submit)
    # The lost master counted on from the first one, by a microsecond with each job.
    assert jid_time(jids[1]) - jid_time(jids[0]) > timedelta(seconds=5)
