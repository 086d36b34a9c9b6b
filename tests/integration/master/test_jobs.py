"""Jobs from their submission to their stored return, with failures in between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from catena.client.replies.jobs import JobOutputItem
from catena.client.requests.jobs import JobList
from catena.core.errors import NotFoundError, UsageError
from catena.core.job import FunctionCall, JobProgress, JobReturn
from catena.core.records import encode
from catena.master.executions.model import EventItem
from catena.master.jobs.model import JobRequest, Submitted
from catena.master.jobs.service import NoMatchError
from catena.master.store.database import StoreUnavailableError
from catena.master.store.tables import RETURNS
from catena.transport.messages import (
    Failure,
    JobCancel,
    JobOrder,
    JobRejected,
    JobReturned,
    ReturnStored,
)
from catena.transport.wire import MessageTooLargeError
from tests.integration.master.bench import Bench, a_master, a_return


async def test_job_is_sent_to_a_connected_minion_and_its_return_stored_before_the_ack() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        done = await master.submit("web1", args=(1,), kwargs={"k": 2})
        (spec,) = web1.orders()
        assert (spec.jid, spec.fun, spec.args, spec.kwargs) == (
            done.jid,
            "test.ping",
            (1,),
            {"k": 2},
        )
        assert await master.states(done.jid) == {"web1": "sent"}
        await web1.receive(done.jid)
        assert await master.states(done.jid) == {"web1": "received"}
        await web1.step(done.jid)
        assert await master.states(done.jid) == {"web1": "running"}
        await web1.answer(done.jid, {"a": b"\x00", 1: None})
        assert await master.states(done.jid) == {"web1": "done"}
        assert web1.got(ReturnStored) == [ReturnStored(done.jid)]
        shown = await master.views.show(done.jid)
        ret = shown.minions["web1"].ret
        assert ret is not None and ret.value == {"a": b"\x00", 1: None}
        assert shown.ended is not None
        tags = [event.tag for event in await master.events(f"salt/job/{done.jid}/*")]
        assert tags == [f"salt/job/{done.jid}/new", f"salt/job/{done.jid}/ret/web1"]


async def test_absent_minion_receives_its_job_when_it_connects() -> None:
    async with a_master() as master:
        web1 = await master.accept("web1")
        done = await master.submit()
        assert done.missing == ("web1",)
        assert await master.states(done.jid) == {"web1": "queued"}
        await web1.hello()
        assert [spec.jid for spec in web1.orders()] == [done.jid]
        assert await master.states(done.jid) == {"web1": "sent"}


async def test_job_that_a_full_connection_refuses_is_sent_in_the_next_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        with monkeypatch.context() as patch:
            patch.setattr(master.wire, "send", lambda *_: False)
            done = await master.submit()
            assert await master.states(done.jid) == {"web1": "queued"}
        await master.jobs.resend()
        assert await master.states(done.jid) == {"web1": "sent"}
        assert [spec.jid for spec in web1.orders()] == [done.jid]


async def test_failed_round_forgets_no_minion_with_queued_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def locked(*_: object) -> None:
        raise StoreUnavailableError

    async with a_master() as master:
        (web1,) = await master.connect("web1")
        with monkeypatch.context() as patch:
            patch.setattr(master.wire, "send", lambda *_: False)
            done = await master.submit()
        with monkeypatch.context() as patch:
            patch.setattr("catena.master.jobs.rows.unacknowledged", locked)
            with pytest.raises(StoreUnavailableError):
                await master.jobs.resend()
        await master.jobs.resend()
        assert [spec.jid for spec in web1.orders()] == [done.jid]


async def test_only_unacknowledged_orders_are_resent() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        first, second = await master.submit(), await master.submit()
        await web1.receive(second.jid)
        await web1.reconnect(second.jid)
        assert [s.jid for s in web1.orders()] == [first.jid, second.jid, first.jid]
        master.hand.advance(31.0)
        await master.jobs.resend()
        assert [s.jid for s in web1.orders()][3:] == [first.jid]


async def test_job_named_in_the_hello_counts_as_received() -> None:
    async with a_master() as master:
        web1 = await master.accept("web1")
        done = await master.submit()
        await web1.hello(done.jid)
        assert web1.orders() == []
        assert await master.states(done.jid) == {"web1": "received"}


async def test_received_job_missing_from_a_hello_is_lost_and_its_late_return_is_stored() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        done = await master.submit()
        await web1.receive(done.jid)
        await web1.reconnect()
        assert await master.states(done.jid) == {"web1": "lost"}
        await web1.answer(done.jid, "after all")
        assert await master.states(done.jid) == {"web1": "lost"}
        shown = (await master.views.show(done.jid)).minions["web1"]
        assert shown.late is True
        assert shown.ret is not None and shown.ret.value == "after all"
        assert web1.got(ReturnStored) == [ReturnStored(done.jid)]


async def test_expired_job_is_not_sent_later() -> None:
    async with a_master(job_expiry_hours=1) as master:
        web1 = await master.accept("web1")
        done = await master.submit()
        master.hand.advance(3601.0)
        assert await master.jobs.expire() == 1
        await web1.hello()
        assert web1.orders() == []
        assert await master.states(done.jid) == {"web1": "expired"}
        assert (await master.views.list(JobList(active=True))) == []


async def details(master: Bench, jid: str) -> dict[str, str]:
    shown = await master.views.show(jid)
    return {name: f"{one.state}: {one.detail}" for name, one in shown.minions.items()}


async def test_expired_job_says_why_each_minion_did_not_get_it() -> None:
    async with a_master(job_expiry_hours=1) as master:
        await master.connect("a", "b")
        await master.accept("gone")
        done = await master.submit(batch="1")
        assert await master.states(done.jid) == {"a": "sent", "b": "held", "gone": "held"}
        master.hand.advance(3601.0)
        assert await master.jobs.expire() == 2
        late = "expired: not delivered in time; "
        assert await details(master, done.jid) == {
            "a": "sent: ",
            "b": late + "it waited for a place in its batch",
            "gone": late + "the minion was not connected",
        }


async def test_expired_job_of_a_connected_minion_does_not_call_it_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_master(job_expiry_hours=1) as master:
        await master.connect("web1")
        monkeypatch.setattr(master.wire, "send", lambda *_: False)
        done = await master.submit()
        master.hand.advance(3601.0)
        assert await master.jobs.expire() == 1
        why = "the minion was connected, but the order could not be sent to it"
        assert await details(master, done.jid) == {
            "web1": f"expired: not delivered in time; {why}"
        }


async def test_queued_jobs_survive_a_clock_that_is_set_ahead() -> None:
    async with a_master(job_expiry_hours=1) as master:
        web1 = await master.accept("web1")
        done = await master.submit()
        master.hand.step(86_400.0)
        assert await master.jobs.expire() == 0
        shown = await master.views.show(done.jid)
        assert shown.not_after == pytest.approx(master.hand.now().timestamp() + 3600, abs=1)
        master.hand.advance(1800.0)
        await web1.hello()
        (order,) = web1.got(JobOrder)
        assert order.spec.not_after - order.now == pytest.approx(1800.0, abs=1)


async def test_repeated_return_is_stored_once_and_acked_twice() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        done = await master.submit()
        await web1.answer(done.jid, "first")
        await web1.answer(done.jid, "second")
        assert web1.got(ReturnStored) == [ReturnStored(done.jid)] * 2
        shown = await master.views.show(done.jid)
        ret = shown.minions["web1"].ret
        assert ret is not None and ret.value == "first"
        assert len(await master.events(f"salt/job/{done.jid}/ret/*")) == 1


@pytest.mark.parametrize("retcode", [2**31, -(2**31) - 1])
async def test_exit_code_beyond_the_range_of_the_store_is_refused(retcode: int) -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        done = await master.submit()
        await web1.answer(done.jid, retcode=retcode)
        assert [f.code for f in web1.got(Failure)] == ["LimitError"]
        await web1.answer(done.jid, retcode=2**31 - 1)
        assert await master.states(done.jid) == {"web1": "done"}


async def test_return_for_another_minions_job_is_refused() -> None:
    async with a_master() as master:
        _, evil = await master.connect("web1", "evil")
        done = await master.submit("web1")
        await evil.answer(done.jid, "forged")
        (failure,) = evil.got(Failure)
        assert failure.code == "NotAllowedError"
        assert await master.states(done.jid) == {"web1": "sent"}
        assert evil.got(ReturnStored) == []


async def test_rejected_job_ends_with_the_minions_reason() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        done = await master.submit()
        await web1.say(JobRejected(done.jid, "expired while it waited"))
        shown = (await master.views.show(done.jid)).minions["web1"]
        assert (shown.state, shown.detail) == ("rejected", "expired while it waited")


async def test_cancel_ends_unsent_deliveries_and_stops_running_ones() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        await master.accept("away")
        done = await master.submit()
        await web1.receive(done.jid)
        assert await master.jobs.cancel(done.jid, user="anna") == {
            "away": "cancelled",
            "web1": "stopping",
        }
        assert web1.got(JobCancel) == [JobCancel(done.jid, "cancelled by anna")]
        await web1.answer(done.jid, "killed", success=False, retcode=143)
        assert await master.states(done.jid) == {"away": "cancelled", "web1": "cancelled"}
        assert await master.jobs.cancel(done.jid) == {"away": "cancelled", "web1": "cancelled"}


async def test_cancellation_reaches_a_minion_that_reconnects_with_the_running_job() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        done = await master.submit()
        await web1.receive(done.jid)
        web1.link.cut("test")
        await master.jobs.cancel(done.jid, user="anna")
        web1.pump()
        await web1.hello(done.jid)
        assert web1.got(JobCancel) == [JobCancel(done.jid, "cancelled by anna")]


async def test_cancelled_order_that_was_lost_is_not_resent() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        done = await master.submit()
        assert [spec.jid for spec in web1.orders()] == [done.jid]
        web1.link.cut("test")
        await master.jobs.cancel_open("web1", "its key was deleted by anna")
        web1.pump()
        await web1.hello()
        assert len(web1.orders()) == 1
        assert await master.states(done.jid) == {"web1": "cancelled"}


async def test_lost_order_is_resent_when_the_clock_is_set_back() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        done = await master.submit()
        master.hand.step(-86_400.0)
        for seconds, sent in ((0.0, 2), (1.0, 2), (31.0, 3)):
            master.hand.advance(seconds)
            await master.jobs.resend()
            await master.settle()
            assert [spec.jid for spec in web1.orders()] == [done.jid] * sent


async def test_repeated_request_with_one_key_creates_one_job() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        first = await master.submit(idempotency_key="k1")
        again = await master.submit(idempotency_key="k1")
        other = await master.submit(idempotency_key="k1", user="anna")
        assert (again.jid, again.minions, again.repeated) == (first.jid, ("web1",), True)
        assert other.jid != first.jid
        assert [spec.jid for spec in web1.orders()] == [first.jid, other.jid]


async def test_target_without_a_match_or_with_an_unknown_id_is_an_error() -> None:
    async with a_master() as master:
        await master.connect("web1")
        with pytest.raises(NoMatchError, match="No minions matched the target"):
            await master.submit("db*")
        with pytest.raises(NotFoundError, match="did you mean 'web1'"):
            await master.submit("web2")
        with pytest.raises(NotFoundError, match="did you mean 'web1'"):
            await master.submit("web1,wep1", tgt_type="list")
        assert (await master.submit("os:Debian", tgt_type="grain")).minions == ("web1",)
        with pytest.raises(NoMatchError):
            await master.submit("G@os:Suse or db*", tgt_type="compound")
        assert (await master.views.list(JobList()))[0].target == "os:Debian"


async def test_job_list_counts_failed_returns() -> None:
    async with a_master() as master:
        web1, web2 = await master.connect("web1", "web2")
        good, bad = await master.submit("*"), await master.submit("*")
        await web1.answer(good.jid)
        await web1.answer(bad.jid, success=False, retcode=1)
        await web2.answer(bad.jid, retcode=2)
        failed = {item.jid: item.failed for item in await master.views.list(JobList())}
        assert failed == {good.jid: 0, bad.jid: 2}


async def test_unencodable_arguments_are_refused_before_anything_is_stored() -> None:
    async with a_master() as master:
        await master.connect("web1")
        with pytest.raises(MessageTooLargeError):
            await master.submit(args=("x" * 3_000_000,))
        with pytest.raises(UsageError):
            await master.submit(args=({1, 2},))
        assert await master.views.list(JobList()) == []


async def test_followed_job_yields_every_item_and_ends_with_the_states() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        await master.accept("away")
        items: list[dict[str, Any]] = []
        started = asyncio.Event()

        async def follow() -> None:
            async for item in master.views.follow_new(
                JobRequest("root", FunctionCall("test.ping", tgt="*"))
            ):
                items.append(encode(item))
                started.set()

        task = asyncio.create_task(follow())
        await started.wait()
        await master.settle()
        jid = items[0]["jid"]
        await web1.step(jid, 1, "started")
        await web1.step(jid, 2, "state", key="x")
        await web1.answer(jid, 7)
        await master.jobs.cancel(jid, ["away"], "anna")
        await asyncio.wait_for(task, 60)
        kinds = [(i.get("type"), i.get("minion"), i.get("state")) for i in items]
        assert kinds[0] == ("new", None, None)
        assert ("delivery", "away", "queued") in kinds
        assert [i["kind"] for i in items if i.get("type") == "progress"] == ["started", "state"]
        assert kinds.index(("return", "web1", None)) < kinds.index(("delivery", "web1", "done"))
        states = {"away": "cancelled", "web1": "done"}
        assert items[-1] == {"jid": jid, "states": states}
        replayed = [getattr(item, "type", "end") async for item in master.views.follow(jid)]
        assert replayed == "new progress progress return delivery delivery end".split()


class Watcher:
    """An observer that records, and refuses when told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.refuse = False

    def on_return(self, conn: sa.Connection, minion: str, ret: JobReturn) -> Sequence[EventItem]:
        if self.refuse:
            raise RuntimeError("no")
        self.calls.append(("return", minion))
        return [("test/returned", {"id": minion})]

    def on_progress(
        self, conn: sa.Connection, minion: str, progress: JobProgress
    ) -> Sequence[EventItem]:
        self.calls.append((progress.kind, minion))
        return ()

    def on_delivery(
        self, conn: sa.Connection, minion: str, jid: str, state: str, detail: str
    ) -> Sequence[EventItem]:
        self.calls.append((state, minion))
        return ()

    def on_output(self, conn: sa.Connection, jid: str, item: JobOutputItem) -> None:
        self.calls.append((item.text, item.minion))


async def test_observer_sees_each_fact_once_and_its_error_rolls_the_fact_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_master() as master:
        watcher = Watcher()
        master.jobs.observe(watcher)
        (web1,) = await master.connect("web1")
        done = await master.submit()
        await web1.receive(done.jid)
        await web1.step(done.jid)
        await web1.step(done.jid)  # the same sequence number again
        watcher.refuse = True
        await web1.answer(done.jid)
        assert web1.got(ReturnStored) == []
        assert await master.states(done.jid) == {"web1": "running"}
        watcher.refuse = False
        await web1.answer(done.jid)
        await web1.answer(done.jid)
        assert watcher.calls == [
            ("received", "web1"), ("running", "web1"), ("started", "web1"), ("return", "web1"),
        ]  # fmt: skip
        assert len(await master.events("test/returned")) == 1
    assert "a JobReturned failed" in caplog.text


async def test_work_within_the_submission_is_stored_atomically_with_the_job() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")

        def refuse(conn: sa.Connection, submitted: Submitted) -> None:
            raise UsageError("changed my mind")

        with pytest.raises(UsageError, match="changed my mind"):
            await master.jobs.submit(
                JobRequest("root", FunctionCall("test.ping", tgt="*")), refuse
            )
        assert web1.orders() == []
        assert await master.views.list(JobList()) == []


async def test_jids_increase_when_the_clock_goes_back_across_a_restart() -> None:
    async with a_master() as master:
        await master.accept("web1")
        first = await master.submit()
        master.hand.step(-3600)
        await master.jobs.open()
        second = await master.submit()
        assert second.jid > first.jid


async def test_repeated_returns_of_two_hundred_minions_are_stored_once() -> None:
    async with a_master() as master:
        scripts = await _many(master, 200)
        done = await master.submit()
        for script in scripts:
            for _ in range(2):
                script.link.send("control", _returned(done.jid))
        await master.settle()
        assert set((await master.states(done.jid)).values()) == {"done"}
        count = sa.select(sa.func.count()).select_from(RETURNS)
        assert await master.store.read(lambda conn: conn.execute(count).scalar()) == 200
        assert all(len(script.got(ReturnStored)) == 2 for script in scripts)


async def _many(master: Bench, count: int) -> list[Any]:
    scripts = [await master.accept(f"m{number:04}") for number in range(count)]
    await asyncio.gather(*(script.hello() for script in scripts))
    return scripts


def _returned(jid: str) -> Any:
    return JobReturned(a_return(jid))
