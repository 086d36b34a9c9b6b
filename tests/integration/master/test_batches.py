"""Batched jobs and subsets: which minions begin, wait, or never begin."""

from __future__ import annotations

import pytest

from catena.core.errors import UsageError
from catena.master.jobs import batch
from catena.transport.messages import JobRejected
from catena.transport.wire import MessageTooLargeError
from tests.integration.master.bench import a_master


async def test_failhard_cancels_minions_that_have_not_begun_after_a_failure() -> None:
    async with a_master() as master:
        a, b, c = await master.connect("a", "b", "c")
        await master.accept("absent")
        done = await master.submit(batch="1", batch_failhard=True)
        await a.answer(done.jid)
        assert b.orders()
        await b.answer(done.jid, success=False, retcode=1)
        assert not c.orders()
        assert await master.states(done.jid) == {
            "a": "done", "absent": "cancelled", "b": "done", "c": "cancelled",
        }  # fmt: skip


async def test_failhard_counts_a_rejected_job_as_a_failure() -> None:
    async with a_master() as master:
        a, b = await master.connect("a", "b")
        done = await master.submit(batch="1", batch_failhard=True)
        await a.say(JobRejected(done.jid, "no"))
        assert not b.orders()
        assert await master.states(done.jid) == {"a": "rejected", "b": "cancelled"}


async def test_batch_continues_after_a_failure_without_failhard() -> None:
    async with a_master() as master:
        a, b = await master.connect("a", "b")
        done = await master.submit(batch="1")
        await a.answer(done.jid, success=False, retcode=1)
        assert b.orders()


async def test_batch_wait_delays_the_next_minion() -> None:
    async with a_master() as master:
        a, b = await master.connect("a", "b")
        done = await master.submit(batch="1", batch_wait=30.0)
        await a.answer(done.jid)
        for seconds, begun in ((0.0, False), (29.0, False), (2.0, True)):
            master.hand.advance(seconds)
            await master.jobs.resend()
            await master.settle()
            assert bool(b.orders()) is begun


async def test_batch_wait_ends_when_the_clock_is_set_back() -> None:
    async with a_master() as master:
        a, b = await master.connect("a", "b")
        done = await master.submit(batch="1", batch_wait=30.0)
        await a.answer(done.jid)
        master.hand.step(-86_400.0)
        await master.jobs.resend()
        await master.settle()
        assert b.orders()


async def test_subset_picks_connected_minions_first() -> None:
    async with a_master() as master:
        await master.connect("a", "b")
        for name in ("c", "d", "e"):
            await master.accept(name)
        done = await master.submit(subset=2)
        assert done.minions == ("a", "b")
        assert len((await master.submit(subset=4)).minions) == 4
        assert len((await master.submit(subset=9)).minions) == 5


@pytest.mark.parametrize("count", [1, 2, 3])
def test_subset_contains_no_minion_twice(count: int) -> None:
    names = ["a", "b", "c", "d"]
    for _ in range(50):
        picked = batch.subset(names, count, {"b", "c"})
        assert len(set(picked)) == len(picked) == count
        assert set(picked) <= set(names)
        assert count < 2 or {"b", "c"} <= set(picked)


def test_batch_options_without_a_batch_are_refused() -> None:
    from catena.client.requests.jobs import RunJob
    from catena.master.jobs.handlers import batch_wait

    with pytest.raises(UsageError, match="need a batch"):
        batch_wait(RunJob("*", "test.ping", batch_failhard=True))
    with pytest.raises(UsageError, match="from 0 to a year"):
        batch_wait(RunJob("*", "test.ping", batch="1", batch_wait=-1.0))


async def test_batch_limits_running_minions_and_skips_absent_ones() -> None:
    async with a_master() as master:
        scripts = await master.connect("a", "b", "c", "d")
        await master.accept("absent")
        done = await master.submit(batch="2")
        busy = [s for s in scripts if s.orders()]
        assert [s.name for s in busy] == ["a", "b"]
        await scripts[0].answer(done.jid)
        assert [s.name for s in scripts if s.orders()] == ["a", "b", "c"]
        await scripts[1].say(JobRejected(done.jid, "no"))
        assert [s.name for s in scripts if s.orders()] == ["a", "b", "c", "d"]
        assert await master.states(done.jid) == {
            "a": "done", "absent": "held", "b": "rejected", "c": "sent", "d": "sent",
        }  # fmt: skip


async def test_batch_continues_when_a_minion_disconnects_before_it_has_the_job() -> None:
    async with a_master() as master:
        a, b = await master.connect("a", "b")
        await master.submit(batch="1")
        a.link.cut("power cut")
        await master.jobs.resend()
        assert len(b.orders()) == 1


@pytest.mark.parametrize("batch", ["0", "-1", "abc", "0%", "101%", "1.5"])
async def test_invalid_batch_size_is_refused(batch: str) -> None:
    async with a_master() as master:
        await master.accept("web1")
        with pytest.raises(UsageError, match="batch"):
            await master.submit(batch=batch)


async def test_oversized_job_is_refused_in_a_batch_without_connected_minions() -> None:
    async with a_master() as master:
        web1 = await master.accept("web1")
        with pytest.raises(MessageTooLargeError):
            await master.submit(args=("x" * 3_000_000,), batch="1")
        behind = await master.submit()
        await web1.hello()
        assert [spec.jid for spec in web1.orders()] == [behind.jid]
