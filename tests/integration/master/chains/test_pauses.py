"""Paused chains send nothing, are shown as paused, and continue on request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from catena.client.replies.chains import PauseView
from catena.client.requests import contracts
from catena.client.requests.chains import ChainList, ChainRef, ChainSchedule
from catena.core.errors import InvalidStateError, NotFoundError, TryLaterError
from catena.core.fsm import Actor
from catena.core.job import FunctionCall
from catena.master.chains import pauses as chain_pauses
from catena.master.jobs.delivery import Delivery, DeliveryEvent
from catena.master.jobs.model import JobRequest
from catena.master.requests import verb
from catena.master.requests.dispatcher import Dispatcher
from catena.master.requests.once import RequestLog
from catena.master.requests.rights import ADMINISTRATOR, Caller
from catena.master.store.execution_tables import PAUSES
from catena.master.store.tables import MINIONS
from tests.integration.master.chains.bench import HOUR, Bench, a_bench, key, ret, row
from tests.integration.master.chains.restoration import back_in_time
from tests.integration.master.chains.steps import (
    CMD,
    REBOOT,
    RESUME,
    START,
    bring_to_reboot,
    continue_,
    doctor,
    ids,
    pass_time,
    pause,
    set_delivery_state,
    states,
)

DAY = 24 * HOUR


async def ordered_resume(bench: Bench, **kwargs: int) -> str:
    """Order a resume as the reaction to a start does; return its job."""
    call = FunctionCall(RESUME, kwargs=kwargs, metadata={"suma-action-chain": True})
    return (await bench.jobs.submit(JobRequest("Reactor", call, minions=("web1",)))).jid


async def pauses(bench: Bench) -> list[str]:
    query = sa.select(PAUSES.c.minion).order_by(PAUSES.c.minion)
    return await bench.store.read(lambda conn: list(conn.execute(query).scalars()))


async def scheduled(bench: Bench, label: str = "night", seconds: float = 60) -> int:
    chain = await bench.apply(label, CMD)
    at = bench.clock.now().timestamp() + seconds
    await bench.chains.service.schedule(ChainSchedule(str(chain), at), "alice")
    return chain


# -- before the first job ----------------------------------------------------------------------


@pytest.mark.parametrize("days", [0, 3])
async def test_paused_chain_is_dispatched_only_when_it_is_continued(
    bench: Bench, days: int
) -> None:
    await scheduled(bench)
    await pause(bench, "night")
    await pass_time(bench, 120 + days * DAY)
    await bench.restart()
    await bench.chains.scheduler.tick()
    assert (await bench.show("night"))["state"] == "scheduled"
    assert await bench.job_ids(START) == []
    await continue_(bench, "night")
    await bench.chains.scheduler.tick()
    assert (await bench.show("night"))["state"] == "dispatched"


async def test_continued_chain_keeps_a_time_that_is_still_to_come(bench: Bench) -> None:
    await scheduled(bench, seconds=600)
    due = (await bench.show("night"))["due"]
    await pause(bench, "night")
    await pass_time(bench, 60)
    await continue_(bench, "night")
    await bench.chains.scheduler.tick()
    view = await bench.show("night")
    assert (view["state"], view["due"]) == ("scheduled", due)


async def test_chain_that_is_paused_while_it_is_rendered_is_not_dispatched(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scheduled(bench)
    bench.clock.advance(61)
    submit = bench.jobs.submit

    async def paused_before(*args: Any, **kwargs: Any) -> Any:
        await pause(bench, "night")
        return await submit(*args, **kwargs)

    monkeypatch.setattr(bench.jobs, "submit", paused_before)
    await bench.chains.scheduler.tick()
    assert (await bench.show("night"))["state"] == "scheduled"
    assert await bench.job_ids(START) == []


async def test_pause_of_one_minion_does_not_affect_the_others(tmp_path: Path) -> None:
    async with a_bench(tmp_path, ("web1", "web2")) as bench:
        await scheduled(bench)
        await pause(bench, "night", "web1")
        await pass_time(bench, 61)
        assert await states(bench, START) == [("web1", "paused"), ("web2", "queued")]
        assert await bench.says_hello(minion="web1") == []
        assert await bench.says_hello(minion="web2") == await bench.job_ids(START)
        await continue_(bench, "night", "web1")
        assert await bench.says_hello(minion="web1") == await bench.job_ids(START)


async def test_continue_of_one_minion_leaves_the_others_paused(tmp_path: Path) -> None:
    async with a_bench(tmp_path, ("web1", "web2", "web3")) as bench:
        await bench.begin("night", CMD)
        await pause(bench, "night")
        assert {state for _, state in await states(bench, START)} == {"paused"}
        await continue_(bench, "night", "web2")
        assert await pauses(bench) == ["web1", "web3"]
        assert [state for _, state in await states(bench, START)] == ["paused", "queued", "paused"]
        await continue_(bench, "night")
        assert await pauses(bench) == []
        assert {state for _, state in await states(bench, START)} == {"queued"}


# -- jobs that wait for their minions ----------------------------------------------------------


async def test_paused_job_does_not_expire_and_is_sent_when_continued(bench: Bench) -> None:
    await bench.begin("night", CMD)
    await pause(bench, "night")
    await pass_time(bench, 3 * DAY)
    await bench.jobs.expire()
    assert await bench.says_hello() == []
    await bench.restart()
    assert await bench.says_hello() == []
    assert await states(bench, START) == [("web1", "paused")]
    await continue_(bench, "night")
    await bench.jobs.expire()
    assert await bench.says_hello() == await bench.job_ids(START)
    assert await bench.states("night") == ["NEW"]


async def test_sent_order_that_did_not_arrive_is_held_back_with_the_next_hello(
    bench: Bench,
) -> None:
    await bench.begin("night", CMD)
    (jid,) = await bench.job_ids(START)
    await set_delivery_state(bench, jid, Delivery.sent)
    await pause(bench, "night")
    assert await states(bench, START) == [("web1", "sent")]
    assert await bench.says_hello() == []
    assert await states(bench, START) == [("web1", "paused")]
    await continue_(bench, "night")
    assert await bench.says_hello() == [jid]


async def test_received_order_runs_although_its_chain_is_paused(bench: Bench) -> None:
    chain = await bench.begin("night", CMD)
    (jid,) = await bench.job_ids(START)
    await pause(bench, "night")
    assert await states(bench, START) == [("web1", "paused")]
    # The order was on its way: the minion names it.
    assert await bench.says_hello(jid) == []
    assert await states(bench, START) == [("web1", "received")]
    (action,) = await ids(bench, "night")
    await bench.returns(ret(jid, START, {key(chain, action, 1): row(True)}))
    assert (await bench.show("night"))["state"] == "done"
    assert await pauses(bench) == []


# -- at a boundary -----------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False])
async def test_resume_of_a_paused_chain_waits_until_it_is_continued(
    bench: Bench, named: bool
) -> None:
    chain = await bring_to_reboot(bench, "night")
    await pause(bench, "night")
    await bench.starts("web1-boot-2")
    assert await bench.states("night") == ["DONE", "DONE", "NEW"]
    jid = await ordered_resume(bench, **({"actionchain_id": chain, "epoch": 1} if named else {}))
    assert await states(bench, RESUME) == [("web1", "paused")]
    assert await bench.says_hello() == []
    await bench.restart()
    assert await bench.says_hello() == []
    for _ in range(3):
        await pass_time(bench, 2 * HOUR)
    assert await bench.states("night") == ["DONE", "DONE", "NEW"]
    await continue_(bench, "night")
    assert await bench.says_hello() == [jid]
    assert await bench.job_ids(RESUME) == [jid]


async def test_resume_of_another_chain_is_not_held_back(bench: Bench) -> None:
    first = await bring_to_reboot(bench, "first")
    await bench.begin("second", CMD)
    await pause(bench, "second")
    named = await ordered_resume(bench, actionchain_id=first, epoch=1)
    nameless = await ordered_resume(bench)
    assert await bench.says_hello() == [named, nameless]


async def test_continue_sends_the_missing_resume(bench: Bench) -> None:
    chain = await bring_to_reboot(bench, "night")
    await pause(bench, "night")
    await bench.starts("web1-boot-2")
    await bench.store.write(lambda conn: conn.execute(sa.update(MINIONS).values(wire=2)))
    await continue_(bench, "night")
    (jid,) = await bench.job_ids(RESUME)
    assert await bench.says_hello() == [jid]
    told = await bench.store.read(lambda conn: bench_kwargs(conn, jid))
    assert told == {"actionchain_id": chain, "epoch": 1}


async def test_repeated_continue_sends_the_resume_that_a_crash_prevented(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bring_to_reboot(bench, "night")
    await pause(bench, "night")
    await bench.starts("web1-boot-2")
    mine = {name: ask for name, ask in contracts().items() if name.startswith("chain.")}
    monkeypatch.setattr(verb, "contracts", lambda: mine)
    verbs = verb.table(bench.chains.handlers)
    dispatcher = Dispatcher(verbs, RequestLog(bench.store, bench.clock))

    async def ask() -> None:
        caller = Caller("alice", ADMINISTRATOR)
        answer: Any = dispatcher.answer(caller, "chain.continue", {"chain": "night"}, "key1")
        await answer

    async def dies(*_: object) -> None:
        raise TryLaterError("the master is killed")

    with monkeypatch.context() as patched:
        patched.setattr(chain_pauses, "resume_stranded", dies)
        with pytest.raises(TryLaterError):
            await ask()
    assert await bench.job_ids(RESUME) == []
    for _ in range(2):
        await ask()
        assert len(await bench.job_ids(RESUME)) == 1


def bench_kwargs(conn: sa.Connection, jid: str) -> Any:
    from catena.master.jobs import rows

    return rows.job(conn, jid).kwargs


async def test_continue_orders_no_resume_while_the_boot_is_not_proven(bench: Bench) -> None:
    await bring_to_reboot(bench, "night")
    await pause(bench, "night")
    await continue_(bench, "night")
    assert await bench.job_ids(RESUME) == []


async def test_held_back_resume_is_removed_when_its_chain_ends(bench: Bench) -> None:
    chain = await bench.begin("night", CMD, REBOOT)
    (jid,) = await bench.job_ids(START)
    one, two = await ids(bench, "night")
    value = {key(chain, one, 1): row(True), key(chain, two, 1, "system.reboot"): row(True)}
    await set_delivery_state(bench, jid)
    await bench.returns(ret(jid, START, value))
    await pause(bench, "night")
    await ordered_resume(bench, actionchain_id=chain, epoch=1)
    await bench.starts("web1-boot-2")
    assert (await bench.show("night"))["state"] == "done"
    await pass_time(bench, 61)
    assert await states(bench, RESUME) == [("web1", "queued")]


# -- people ------------------------------------------------------------------------------------


async def test_pause_of_a_paused_chain_or_part_of_it_changes_nothing(bench: Bench) -> None:
    await bench.begin("night", CMD)
    await pause(bench, "night")
    before = await bench.show("night")
    assert (await pause(bench, "night")).paused == (
        PauseView("", "alice", bench.clock.now().timestamp()),
    )
    await pause(bench, "night", "web1")
    assert (await bench.show("night"))["history"] == before["history"]
    assert await pauses(bench) == [""]


Asked = Callable[[Bench], Awaitable[Any]]


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        (lambda b: pause(b, "draft"), InvalidStateError, "is a draft"),
        (lambda b: pause(b, "ended"), InvalidStateError, "it is cancelled and has ended"),
        (lambda b: pause(b, "none"), NotFoundError, "none"),
        (lambda b: pause(b, "night", "web2"), NotFoundError, "unknown minion 'web2'"),
        (lambda b: continue_(b, "night"), InvalidStateError, "is not paused"),
        (lambda b: continue_(b, "draft"), InvalidStateError, "is not paused"),
    ],
)
async def test_invalid_pause_and_continue_are_refused(
    bench: Bench, asked: Asked, error: type[Exception], words: str
) -> None:
    await bench.apply("draft", CMD)
    await scheduled(bench, "ended")
    await bench.chains.service.cancel(ChainRef("ended"), "alice")
    await bench.begin("night", CMD)
    with pytest.raises(error, match=words):
        await asked(bench)


async def test_minion_on_which_a_chain_has_ended_can_not_be_paused(tmp_path: Path) -> None:
    async with a_bench(tmp_path, ("web1", "web2")) as bench:
        chain = await bench.begin("night", CMD)
        (jid,) = await bench.job_ids(START)
        (action,) = await ids(bench, "night")
        await bench.returns(ret(jid, START, {key(chain, action, 1): row(True)}))
        with pytest.raises(InvalidStateError, match="has ended on web1"):
            await pause(bench, "night", "web1")
        await pause(bench, "night", "web2")
        with pytest.raises(InvalidStateError, match="has ended on web1"):
            await continue_(bench, "night", "web1")


async def test_cancelled_chain_is_no_longer_paused(bench: Bench) -> None:
    await bench.begin("night", CMD)
    await pause(bench, "night")
    await bench.chains.service.cancel(ChainRef("night"), "bob")
    await bench.chains.scheduler.tick()
    assert (await bench.show("night"))["state"] == "cancelled"
    assert await states(bench, START) == [("web1", "cancelled")]
    assert await pauses(bench) == []


async def test_pause_is_shown_by_list_show_and_doctor(bench: Bench) -> None:
    chain = await bring_to_reboot(bench, "night")
    await pause(bench, "night", "web1")
    (line,) = await bench.chains.service.list(ChainList(), "alice")
    assert [each.minion for each in line.paused] == ["web1"]
    view = await bench.show("night")
    assert [each["by"] for each in view["paused"]] == ["alice"]
    assert "paused" in view["minions"][0]["note"]
    events = [(line["event"], line["reason"]) for line in view["history"]]
    assert ("paused", "on web1") in events
    await bench.starts("web1-boot-2")
    waiting = (await bench.show("night"))["minions"][0]["actions"][2]["waits"]
    assert waiting.startswith("paused by alice since ")
    assert waiting.endswith(f": catena chain continue {chain} --minion web1")
    at = bench.clock.now().timestamp()
    assert await doctor(bench, at + 60) == []
    (finding,) = await doctor(bench, at + 2 * HOUR)
    assert f"chain 'night' ({chain}) on web1 is paused by alice since" in finding.what
    assert finding.advice.startswith(f"catena chain continue {chain} --minion web1, or:")


async def test_paused_chain_past_its_due_time_is_not_a_finding(bench: Bench) -> None:
    await scheduled(bench)
    await pause(bench, "night")
    await pass_time(bench, 1800)
    assert await doctor(bench, bench.clock.now().timestamp()) == []
    waiting = (await bench.show("night"))["minions"][0]["actions"][0]["waits"]
    assert waiting.startswith("paused by alice since ")


# -- other stores ------------------------------------------------------------------------------


async def test_restored_store_keeps_the_pause(tmp_path: Path) -> None:
    async def before(bench: Bench) -> None:
        await bring_to_reboot(bench, "night")
        await pause(bench, "night")
        await scheduled(bench, "later", HOUR)
        await pause(bench, "later")

    async def after(bench: Bench) -> None:
        await bench.starts("web1-boot-2")
        await ordered_resume(bench, actionchain_id=1, epoch=1)
        assert await states(bench, RESUME) == [("web1", "paused")]
        await pass_time(bench, 2 * HOUR)
        assert (await bench.show("later"))["state"] == "scheduled"
        await continue_(bench, "night")
        assert len(await bench.says_hello()) == 1

    await back_in_time(tmp_path, before, after)


async def test_moved_store_keeps_the_pause(bench: Bench) -> None:
    chain = await bring_to_reboot(bench, "night")
    await pause(bench, "night")
    await bench.move_to_host(2, uptime=100.0)
    await bench.starts("web1-boot-2")
    await ordered_resume(bench, actionchain_id=chain, epoch=1)
    assert await bench.says_hello() == []
    await continue_(bench, "night")
    assert len(await bench.says_hello()) == 1


async def test_paused_job_that_is_to_be_stopped_is_not_paused_again(bench: Bench) -> None:
    """A cancellation that is on its way to the minion stays one."""
    await bench.begin("night", CMD)
    (jid,) = await bench.job_ids(START)
    await set_delivery_state(bench, jid, Delivery.sent)
    await bench.jobs.cancel(jid, user="bob")
    await pause(bench, "night")
    assert await bench.says_hello() == []
    assert await states(bench, START) == [("web1", "cancelled")]


async def test_only_unconfirmed_deliveries_can_pause(bench: Bench) -> None:
    await bench.begin("night", CMD)
    (jid,) = await bench.job_ids(START)
    await set_delivery_state(bench, jid, Delivery.received)

    def move(conn: sa.Connection) -> Delivery | None:
        at = (jid, "web1", Delivery.received.value)
        return bench.deliveries.move(conn, at, DeliveryEvent.pause, Actor.system)

    assert await bench.store.write(move) is None
