"""Jobs begun by a minion, and the job ids that it may choose."""

from __future__ import annotations

import pytest

from catena.cli.output.table import clock
from catena.client.requests.jobs import JobList
from catena.core.job import JobProgress
from catena.master.jobs import own_job_rows
from catena.transport.messages import (
    Failure,
    JobProgressed,
    JobReceived,
    JobRejected,
    JobReturned,
    ReturnStored,
)
from tests.integration.master.bench import a_master, a_return


@pytest.mark.parametrize(
    "jid",
    ["9" * 20, "0" * 20, "20260301120099999999", "19691231235959999999", "../../../../../etc/x"],
)
async def test_own_job_of_a_minion_is_refused_when_its_jid_is_not_a_time(jid: str) -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        for message in (
            JobReceived(jid, 1),
            JobRejected(jid, "no"),
            JobProgressed(JobProgress(jid, 1, "started")),
            JobReturned(a_return(jid)),
        ):
            await web1.say(message)
        assert [f.code for f in web1.got(Failure)] == ["UsageError"] * 4
        assert await master.views.list(JobList()) == []


async def test_own_job_of_a_minion_keeps_a_jid_in_the_past() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        for jid in ("20260301115900000000", "19700101000100000000"):
            await web1.answer(jid)  # began itself: startup_states
            assert await master.states(jid) == {"web1": "done"}


async def test_steps_of_an_own_job_of_a_minion_are_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_master() as master:
        web1, web2 = await master.connect("web1", "web2")
        own = "20260301115900000000"  # `catena call state.apply` on the host
        for seq in range(1, 4):
            await web1.step(own, seq, "state")
        assert web1.got(Failure) == []
        await web1.answer(own)
        assert await master.states(own) == {"web1": "done"}
        await web2.step(own)
        assert [found.code for found in web2.got(Failure)] == ["NotAllowedError"]
    assert "web1 at" not in caplog.text


@pytest.mark.parametrize(
    "jid", ["20260301120000000001", "20260301123000000000", "99991231235959999999"]
)
async def test_return_of_a_minion_with_a_fast_clock_is_stored_under_a_jid_of_the_master(
    jid: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        for _ in range(2):
            await web1.answer(jid, "mine")
        assert [stored.jid for stored in web1.got(ReturnStored)] == [jid, jid]
        (job,) = await master.views.list(JobList())
        shown = await master.views.show(job.jid)
        assert job.jid != jid and shown.metadata == {"own_jid": jid}
        ret = shown.minions["web1"].ret
        assert ret is not None and (ret.value, ret.jid) == ("mine", job.jid)
        assert (await master.submit()).jid.startswith("202603011200000000")
    assert f"job {jid}, which the minion began itself" in caplog.text


async def test_return_is_stored_when_another_minion_used_its_jid_first() -> None:
    async with a_master() as master:
        evil, web1 = await master.connect("evil", "web1")
        jid = "20260301115900000000"
        await evil.answer(jid, "evil")
        for _ in range(2):
            await web1.answer(jid, "mine")
        assert [stored.jid for stored in web1.got(ReturnStored)] == [jid, jid]
        jobs = {job.user: job.jid for job in await master.views.list(JobList())}
        assert jobs["evil"] == jid and len(jobs) == 2
        shown = await master.views.show(jobs["web1"])
        assert shown.metadata == {"own_jid": jid}
        ret = shown.minions["web1"].ret
        assert ret is not None and ret.value == "mine"


@pytest.mark.parametrize("poison", ["20260301120099999999", "20260301125959999999"])
async def test_store_opens_when_it_contains_a_jid_that_is_not_a_time(poison: str) -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        first = await master.submit()
        # As an older version adopted it.
        own = own_job_rows.OwnJob("web1", a_return(poison))
        await master.store.write(lambda conn: own_job_rows.insert(conn, own, poison, 0.0))
        await master.jobs.open()
        second = await master.submit()
        assert first.jid < second.jid < "20260301120001"
        await web1.answer(second.jid)
        assert await master.states(second.jid) == {"web1": "done"}


@pytest.mark.parametrize("seconds", [-9e10, 1e11, float("nan"), float("-inf")])
async def test_times_that_no_date_has_are_refused(seconds: float) -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        own = "20260301115900000000"
        await web1.answer(own, started=seconds)
        await web1.answer(own, duration_seconds=seconds)
        await web1.say(JobProgressed(JobProgress(own, 1, "started", when=seconds)))
        assert [found.code for found in web1.got(Failure)] == ["LimitError"] * 3
        assert await master.views.list(JobList()) == []


async def test_earliest_time_of_a_minion_can_be_shown() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        await web1.answer("20260301115900000000", started=-59e9)
        (line,) = await master.views.list(JobList())
        assert clock(line.issued, with_date=True).startswith("100-")
