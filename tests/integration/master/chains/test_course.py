"""The course of chains from a draft to their end, on a real store and job service."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from catena.client.replies.chains import ChainEventItem, ChainOutputItem, ChainViewItem
from catena.client.replies.jobs import JobOutputItem
from catena.client.requests.chains import ChainList, ChainRef, ChainSchedule
from catena.core.errors import InvalidStateError
from catena.master.chains import dispatch, view_rows
from catena.master.chains.batches import Batch
from catena.master.chains.claims import Draft
from catena.master.chains.model import Chunk
from catena.master.chains.rows import CHUNK_ROWS
from catena.master.jobs.delivery import Delivery
from catena.master.store.execution_tables import HISTORY
from catena.master.store.tables import DELIVERIES, EVENTS
from tests.integration.master.chains.bench import HOUR, Bench, a_bench, key, ret, row
from tests.integration.master.chains.steps import CMD, REBOOT, RESUME, START, ids
from tests.support.waiting import until

HIGHSTATE: tuple[str, dict[str, Any]] = ("highstate", {})


async def test_chain_with_a_reboot_goes_from_draft_to_done(bench: Bench, tmp_path: Path) -> None:
    chain = await bench.begin("patch", CMD, REBOOT, HIGHSTATE)
    one, two, three = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    assert (await bench.show("patch"))["state"] == "dispatched"
    assert await bench.states("patch") == ["NEW"] * 3
    paths = sorted(bench.files.overlay("web1"))
    assert paths == [f"actionchains/actionchain_{chain}_machine0_{n}.sls" for n in (1, 2)]
    assert not bench.files.overlay("web2")

    place: dict[str, Any] = {"chain_id": chain, "chunk": 1}
    await bench.progresses(jid, 1, **place, action_id=one, event="begin")
    assert (await bench.show("patch"))["state"] == "running"
    await bench.progresses(jid, 2, **place, action_id=one, event="end", outcome="done")
    await bench.progresses(jid, 3, **place, action_id=two, event="begin")
    assert await bench.states("patch") == ["DONE", "RUNNING", "NEW"]
    rebooting = key(chain, two, 1, "system.reboot")
    value = {key(chain, one, 1): row(True, changes={"ret": {}}), rebooting: row(True, "armed")}
    await bench.returns(ret(jid, START, value))
    view = (await bench.show("patch"))["minions"][0]
    assert [a["status"] for a in view["actions"]] == ["Completed", "Picked Up", "Queued"]
    assert view["note"] == "1 of 3 done, waits for the boot"

    await bench.starts("web1-boot-1")
    assert (await bench.states("patch"))[1] == "RUNNING"
    await bench.starts("web1-boot-2")
    assert (await bench.states("patch"))[1] == "DONE"
    later = ret(bench.jobs.new_jid(), RESUME, {key(chain, three, 2): row(True)})
    await bench.returns(later)
    assert await bench.states("patch") == ["DONE"] * 3
    assert (await bench.show("patch"))["state"] == "done"

    await bench.chains.scheduler.tick()
    assert not bench.files.overlay("web1")
    assert not list((tmp_path / "chains" / "actionchains").iterdir())


async def test_every_transition_has_a_history_row_and_an_event(bench: Bench) -> None:
    chain = await bench.begin("patch", CMD)
    (one,) = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    await bench.returns(ret(jid, START, {key(chain, one, 1): row(True)}))

    def look(conn: sa.Connection) -> tuple[list[Any], list[str]]:
        rows = conn.execute(sa.select(HISTORY).order_by(HISTORY.c.id)).all()
        tags = conn.execute(sa.select(EVENTS.c.tag).order_by(EVENTS.c.seq)).scalars()
        return [(r.subject, r.event, r.target, r.who) for r in rows], list(tags)

    history, tags = await bench.store.read(look)
    assert history == [
        ("chain", "created", "draft", "alice"),
        ("chain", "added", "draft", "alice"),
        ("run", "schedule", "scheduled", "alice"),
        ("run", "dispatch", "dispatched", ""),
        ("execution", "dispatch", "NEW", ""),
        ("chain_chunk", "ship", "shipped", ""),
        ("run", "start", "running", "web1"),
        ("execution", "succeed", "DONE", "web1"),
        ("chain_minion", "begin", "running", "web1"),
        ("chain_chunk", "apply", "applied", "web1"),
        ("chain_minion", "end", "ended", "web1"),
        ("run", "finish", "done", "web1"),
    ]
    for tag in ("scheduled", f"action/{one}/succeed", "chunk/1/apply", "done"):
        assert f"catena/chain/{chain}/{tag}" in tags


async def test_return_wakes_the_scheduler_once_it_is_durable(bench: Bench) -> None:
    chain = await bench.begin("patch", CMD)
    (one,) = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    said = ret(jid, START, {key(chain, one, 1): row(True)})
    bench.parts.wake.clear()

    def undone(conn: sa.Connection) -> None:
        bench.chains.results.on_return(conn, "web1", said)
        raise InvalidStateError("another observer's error")

    with pytest.raises(InvalidStateError):
        await bench.store.write(undone)
    assert not bench.parts.wake.is_set()
    await bench.returns(said)
    assert bench.parts.wake.is_set()


async def test_failed_action_fails_the_later_actions_of_its_minion_only(tmp_path: Path) -> None:
    async with a_bench(tmp_path, ("web1", "web2")) as bench:
        chain = await bench.begin("patch", CMD, CMD, CMD)
        (jid,) = await bench.job_ids(START)
        view = await bench.show("patch")
        mine = {m["minion"]: [a["action_id"] for a in m["actions"]] for m in view["minions"]}
        # A minion's own actions: each minion has one Action at each sort order.
        assert not set(mine["web1"]) & set(mine["web2"])
        first, second, third = mine["web1"]
        value = {
            key(chain, third, 1): row(False, "One or more requisite failed"),
            key(chain, second, 1): row(False, "it broke"),
            key(chain, first, 1): row(True),
        }
        await bench.returns(ret(jid, START, value), "web1")
        assert await bench.states("patch", "web1") == ["DONE", "FAILED", "FAILED"]
        actions = (await bench.show("patch"))["minions"][0]["actions"]
        assert actions[1]["comment"] == "it broke"
        assert actions[2]["reason"] == "Prerequisite failed"
        assert await bench.states("patch", "web2") == ["NEW"] * 3
        value = {key(chain, a, 1): row(True) for a in mine["web2"]}
        await bench.returns(ret(jid, START, value), "web2")
        ended = await bench.show("patch")
        assert (ended["state"], ended["reason"]) == ("failed", "2 of 6 actions failed")


async def test_history_of_a_retried_chain_shows_the_newest_rows_of_all_runs(
    bench: Bench,
) -> None:
    chain = await bench.begin("patch", CMD)
    (one,) = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    await bench.returns(ret(jid, START, {key(chain, one, 1): row(False, "x")}))
    await bench.chains.service.retry(ChainRef("patch"), "bob")
    await bench.chains.scheduler.tick()
    await bench.returns(ret(jid, START, {key(chain, one, 1): row(True)}))
    last = await bench.store.read(lambda conn: view_rows.history(conn, chain, 4))
    whole = await bench.store.read(lambda conn: view_rows.history(conn, chain, 200))
    assert whole[-4:] == last
    stored = sa.select(HISTORY.c.event).order_by(HISTORY.c.id)
    stored = stored.where((HISTORY.c.subject != "chain_minion") | (HISTORY.c.event == "late"))
    events = await bench.store.read(lambda conn: list(conn.execute(stored).scalars()))
    assert [line.event for line in whole] == events
    assert {line.epoch for line in whole} == {0, 1, 2}


async def test_retry_runs_from_the_failed_action_under_a_higher_epoch(
    bench: Bench,
) -> None:
    chain = await bench.begin("patch", CMD, CMD, CMD)
    (jid,) = await bench.job_ids(START)
    one, two, three = await ids(bench, "patch")
    value = {key(chain, one, 1): row(True), key(chain, two, 1): row(False, "x")}
    await bench.returns(ret(jid, START, {**value, key(chain, three, 1): row(False)}))
    bench.clock.advance(1)
    await bench.chains.service.retry(ChainRef("patch"), "bob")
    assert await bench.states("patch") == ["DONE", "PENDING_SCHEDULE", "PENDING_SCHEDULE"]
    await bench.chains.scheduler.tick()
    again = (await bench.job_ids(START))[1]
    (path,) = bench.files.overlay("web1").values()
    assert f"action_{one}_" not in path.read_text()
    # The old run's word comes late and changes nothing.
    await bench.returns(ret(jid, START, {key(chain, two, 1): row(True)}))
    assert await bench.states("patch") == ["DONE", "NEW", "NEW"]
    value = {key(chain, two, 1): row(True), key(chain, three, 1): row(True)}
    await bench.returns(ret(again, START, value))
    view = await bench.show("patch")
    assert view["state"] == "done"
    assert [a["epoch"] for a in view["minions"][0]["actions"]] == [1, 2, 2]
    assert view["jids"] == [again, jid]


async def test_minion_cannot_move_the_executions_of_another(tmp_path: Path) -> None:
    async with a_bench(tmp_path, ("web1", "web2")) as bench:
        chain = await bench.begin("patch", CMD)
        (jid,) = await bench.job_ids(START)
        view = await bench.show("patch")
        theirs = view["minions"][1]["actions"][0]["action_id"]
        await bench.returns(ret(jid, START, {key(chain, theirs, 1): row(True)}), "web1")
        assert await bench.states("patch", "web2") == ["NEW"]
        await bench.progresses(
            jid, 1, "web1", chain_id=chain, action_id=theirs, event="end", outcome="done"
        )
        assert await bench.states("patch", "web2") == ["NEW"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        ["Rendering SLS failed"],
        {"mgrcompat_|-mgr_actionchain_x_action_1_chunk_1_|-a_|-b": {"result": True}},
        {"a|-mgr_actionchain_999999_action_1_chunk_1_|-a_|-b": {"result": True}},
        {"__sls__": 3, 4: {"result": False}},
    ],
)
async def test_return_without_results_of_the_chain_fails_it_with_its_text(
    bench: Bench, value: Any
) -> None:
    await bench.begin("patch", CMD, CMD)
    (jid,) = await bench.job_ids(START)
    await bench.returns(ret(jid, START, value, success=False, retcode=1))
    view = await bench.show("patch")
    assert view["state"] == "failed"
    comments = {a["comment"] for a in view["minions"][0]["actions"]}
    assert all(comments)
    if isinstance(value, list):
        assert comments == {"Rendering SLS failed"}


async def test_resume_return_is_accepted_when_its_job_is_older_than_the_run(
    bench: Bench,
) -> None:
    # Made for the minion's first start, lost on its way, sent again after the chain's reboot.
    old = bench.jobs.new_jid()
    chain = await bench.begin("patch", CMD, REBOOT, CMD)
    one, two, three = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    value = {key(chain, one, 1): row(True), key(chain, two, 1): row(True, "armed")}
    await bench.returns(ret(jid, START, value, epochs={str(chain): 1}))
    await bench.starts("web1-boot-2")
    place: dict[str, Any] = {"chain_id": chain, "chunk": 2, "epoch": 1, "action_id": three}
    await bench.progresses(old, 1, **place, event="begin")
    assert await bench.states("patch") == ["DONE", "DONE", "RUNNING"]
    last = {key(chain, three, 2): row(True)}
    await bench.returns(ret(old, RESUME, last, epochs={str(chain): 1}))
    assert (await bench.show("patch"))["state"] == "done"


async def test_return_of_an_older_run_is_late_even_from_a_newer_job(bench: Bench) -> None:
    chain = await bench.begin("patch", CMD)
    (one,) = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    new = ret(bench.jobs.new_jid(), RESUME, {key(chain, one, 1): row(True)}, epochs={"1": 7})
    await bench.returns(new)
    assert await bench.states("patch") == ["NEW"]
    await bench.returns(ret(jid, START, {key(chain, one, 1): row(True)}, epochs={"1": 1}))
    assert await bench.states("patch") == ["DONE"]


async def test_unscheduled_next_chunk_fails_the_actions_that_wait_for_it(
    bench: Bench,
) -> None:
    wheel = ("upgrade_agent", {"version": "9.9"})
    chain = await bench.begin("patch", CMD, wheel, CMD)
    one, two, _ = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    sls = f"actionchains.actionchain_{chain}_machine0_1"
    unscheduled = row(False, "No space left on device")
    value = {
        key(chain, one, 1): row(True),
        key(chain, two, 1): row(True),
        "mgrcompat_|-schedule_next_chunk_|-mgractionchains.next_|-module_run": {
            **unscheduled, "__id__": "schedule_next_chunk", "__sls__": sls,
        },
    }  # fmt: skip
    await bench.returns(ret(jid, START, value))
    view = await bench.show("patch")
    assert await bench.states("patch") == ["DONE", "FAILED", "FAILED"]
    comment = view["minions"][0]["actions"][1]["comment"]
    assert "could not be scheduled: No space left" in comment
    assert view["state"] == "failed"


async def test_internal_error_of_the_master_fails_only_the_chain_that_caused_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = dispatch.plans_of

    def spoilt(found: Draft, packages: tuple[str, ...]) -> tuple[Batch, dispatch.RenderedDraft]:
        if found.row.label == "odd":
            raise KeyError("nobody thought of this")
        return real(found, packages)

    monkeypatch.setattr(dispatch, "plans_of", spoilt)
    await bench.begin("odd", CMD)
    await bench.begin("even", CMD)
    assert (await bench.show("even"))["state"] == "dispatched"
    odd = await bench.show("odd")
    assert odd["state"] == "failed"
    assert "nobody thought of this" in odd["reason"]


async def test_return_sent_before_the_boot_completes_its_reboot(bench: Bench) -> None:
    chain = await bench.begin("patch", CMD, REBOOT)
    one, two = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    await bench.starts("web1-boot-2")
    value = {key(chain, one, 1): row(True), key(chain, two, 1): row(True, "armed")}
    await bench.returns(ret(jid, START, value, boot_id="web1-boot-1"))
    assert await bench.states("patch") == ["DONE", "DONE"]


async def test_start_event_processed_late_does_not_prove_a_reboot_armed_after_it(
    bench: Bench,
) -> None:
    chain = await bench.begin("patch", REBOOT, REBOOT)
    one, _ = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    # It was away, and came up twice; thousands of others did so before it.
    late = [await bench.greets("web1-boot-2"), await bench.greets("web1-boot-3")]
    place: dict[str, Any] = {"chain_id": chain, "action_id": one}
    await bench.progresses(jid, 1, **place, event="end", outcome="armed")
    value = {key(chain, one, 1): row(True, "armed")}
    await bench.returns(ret(jid, START, value, boot_id="web1-boot-3"))
    await bench.follows(*late)
    assert await bench.states("patch") == ["RUNNING", "NEW"]
    await bench.starts("web1-boot-4")
    assert await bench.states("patch") == ["DONE", "NEW"]


async def test_missing_reboot_fails_and_the_minion_is_notified(bench: Bench) -> None:
    chain = await bench.begin("patch", CMD, ("reboot", {"at_minutes": 10}), HIGHSTATE)
    one, two, _ = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    value = {key(chain, one, 1): row(True), key(chain, two, 1): row(True, "armed")}
    await bench.returns(ret(jid, START, value))
    # Setting the clock alone is no time that passes.
    bench.clock.step(10 * HOUR)
    await bench.chains.scheduler.tick()
    assert (await bench.states("patch"))[1] == "RUNNING"
    bench.clock.advance(39 * 60)
    await bench.chains.scheduler.tick()
    assert (await bench.states("patch"))[1] == "RUNNING"
    bench.clock.advance(2 * 60)
    await bench.chains.scheduler.tick()
    assert await bench.states("patch") == ["DONE", "FAILED", "FAILED"]
    view = await bench.show("patch")
    assert "did not come back with a new boot" in view["minions"][0]["actions"][1]["comment"]
    assert view["state"] == "failed"
    assert len(await bench.job_ids("mgractionchains.clean")) == 1
    await bench.chains.scheduler.tick()
    assert len(await bench.job_ids("mgractionchains.clean")) == 1


async def test_action_that_is_not_a_boundary_cannot_be_armed(bench: Bench) -> None:
    chain = await bench.begin("patch", CMD, CMD)
    (one, _) = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    place: dict[str, Any] = {"chain_id": chain, "action_id": one}
    await bench.progresses(jid, 1, **place, event="end", outcome="armed")
    assert await bench.states("patch") == ["NEW", "NEW"]
    # No proof could ever come, and the scheduler would have no words for that.
    bench.clock.advance(2 * HOUR)
    await bench.chains.scheduler.tick()


async def test_agent_upgrade_is_proven_by_the_next_chunk(bench: Bench) -> None:
    upgrade = ("upgrade_agent", {"version": "2.0"})
    for label, good in (("well", True), ("badly", False)):
        chain = await bench.begin(label, CMD, upgrade)
        one, two = await ids(bench, label)
        jid = (await bench.job_ids(START))[-1]
        value = {key(chain, one, 1): row(True), key(chain, two, 1): row(True)}
        await bench.returns(ret(jid, START, value))
        assert await bench.states(label) == ["DONE", "RUNNING"]
        sls = f"actionchains.actionchain_{chain}_machine0_2"
        verify = {
            "mgrcompat_|-agent_installed_|-agent.verify_|-module_run": row(
                good, "agent 1.0 runs on this host", __id__="agent_installed", __sls__=sls
            )
        }
        await bench.returns(ret(bench.jobs.new_jid(), RESUME, verify))
        assert await bench.states(label) == ["DONE", "DONE" if good else "FAILED"]
        assert (await bench.show(label))["state"] == ("done" if good else "failed")


async def test_fallback_to_the_old_agent_fails_the_upgrade(bench: Bench) -> None:
    chain = await bench.begin("patch", ("upgrade_agent", {"version": "2.0"}), CMD)
    one, _ = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    await bench.returns(ret(jid, START, {key(chain, one, 1): row(True)}))
    refused = {key(chain, one, 1): row(False, "2.0 was not welcomed; back to 1.0")}
    await bench.returns(ret(bench.jobs.new_jid(), RESUME, refused))
    first, second = (await bench.show("patch"))["minions"][0]["actions"]
    assert (first["state"], first["comment"]) == (
        "FAILED",
        "2.0 was not welcomed; back to 1.0",
    )
    assert second["reason"] == "Prerequisite failed"


async def test_cancelled_chain_stops_and_its_minion_is_notified(bench: Bench) -> None:
    chain = await bench.begin("patch", CMD, CMD)
    (jid,) = await bench.job_ids(START)
    one, _ = await ids(bench, "patch")
    await bench.progresses(jid, 1, chain_id=chain, chunk=1, action_id=one, event="begin")
    line = await bench.chains.service.cancel(ChainRef("patch"), "bob")
    assert line.state == "cancelled"
    assert await bench.states("patch") == ["CANCELLED", "CANCELLED"]
    await bench.chains.scheduler.tick()

    def deliveries(conn: sa.Connection) -> list[str]:
        rule = DELIVERIES.c.jid == jid
        return list(conn.execute(sa.select(DELIVERIES.c.state).where(rule)).scalars())

    assert await bench.store.read(deliveries) == [Delivery.cancelled.value]
    assert len(await bench.job_ids("mgractionchains.clean")) == 1
    await bench.returns(ret(jid, START, {key(chain, one, 1): row(True)}))
    assert await bench.states("patch") == ["CANCELLED", "CANCELLED"]
    with pytest.raises(InvalidStateError):
        await bench.chains.service.cancel(ChainRef("patch"), "bob")


async def test_expired_job_fails_its_chain(bench: Bench) -> None:
    await bench.begin("patch", CMD)
    bench.clock.advance(25 * HOUR)
    assert await bench.jobs.expire() == 1
    view = await bench.show("patch")
    assert view["state"] == "failed"
    assert "not delivered in time" in view["minions"][0]["actions"][0]["comment"]


async def test_run_without_further_reports_is_lost_with_a_reason(bench: Bench) -> None:
    chain = await bench.begin("patch", CMD, REBOOT, HIGHSTATE)
    one, two, _ = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    value = {key(chain, one, 1): row(True), key(chain, two, 1): row(True)}
    await bench.returns(ret(jid, START, value))
    await bench.starts("web1-boot-2")

    def over(conn: sa.Connection) -> None:
        conn.execute(sa.update(DELIVERIES).values(state="done"))

    await bench.store.write(over)
    # Silence counts from when it was seen, by the clock that nobody can set.
    bench.clock.advance(120.0)
    await bench.chains.scheduler.tick()
    bench.clock.step(30 * HOUR)
    await bench.chains.scheduler.tick()
    assert (await bench.states("patch"))[2] == "NEW"
    bench.clock.advance(1.5 * HOUR)
    await bench.chains.scheduler.tick()
    assert await bench.states("patch") == ["DONE", "DONE", "LOST"]
    view = await bench.show("patch")
    assert view["minions"][0]["actions"][2]["reason"] == "No job return event was received."


async def test_minion_without_a_key_fails_alone_at_dispatch(tmp_path: Path) -> None:
    async with a_bench(tmp_path, ("web1", "web2")) as bench:
        await bench.apply("patch", CMD)

        def leave(conn: sa.Connection) -> None:
            conn.execute(sa.text("UPDATE minion_key SET state='rejected' WHERE minion='web2'"))

        await bench.store.write(leave)
        await bench.chains.service.schedule(ChainSchedule("patch"), "alice")
        await bench.chains.scheduler.tick()
        assert await bench.states("patch", "web1") == ["NEW"]
        assert await bench.states("patch", "web2") == ["FAILED"]
        actions = (await bench.show("patch"))["minions"][1]["actions"]
        assert actions[0]["reason"] == "Got empty result."


async def test_chunks_of_two_chains_on_one_minion_are_separate(bench: Bench) -> None:
    first = await bench.begin("a", CMD)
    second = await bench.begin("b", CMD)
    assert len(bench.files.overlay("web1")) == 2
    jid = (await bench.job_ids(START))[0]
    (one,) = await ids(bench, "a")
    await bench.returns(ret(jid, START, {key(first, one, 1): row(True)}))
    await bench.chains.scheduler.tick()
    assert list(bench.files.overlay("web1")) == [
        f"actionchains/actionchain_{second}_machine0_1.sls"
    ]

    def states(conn: sa.Connection) -> dict[int, str]:
        found = [Chunk._make(row) for row in conn.execute(CHUNK_ROWS)]
        return {chunk.chain_id: chunk.state for chunk in found}

    assert await bench.store.read(states) == {first: "removed", second: "shipped"}


async def test_watch_yields_the_chain_its_events_and_its_end(bench: Bench) -> None:
    chain = await bench.begin("patch", CMD)
    (one,) = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    stream = bench.chains.service.watch(ChainRef("patch"), "x")
    first = await anext(stream)
    assert isinstance(first, ChainViewItem)
    assert (first.type, first.state) == ("chain", "dispatched")
    await bench.returns(ret(jid, START, {key(chain, one, 1): row(True)}))
    items = [item async for item in stream]
    tags = [item.tag.split("/", 3)[3] for item in items if isinstance(item, ChainEventItem)]
    assert tags == ["running", f"action/{one}/succeed", "chunk/1/apply", "done"]
    assert isinstance(items[-1], ChainViewItem)
    assert items[-1].state == "done"


async def test_watch_yields_only_the_output_of_its_own_jobs(
    bench: Bench,
) -> None:
    chain = await bench.begin("patch", CMD)
    (one,) = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    stream = bench.chains.service.watch(ChainRef("patch"), "x")
    await anext(stream)
    following = asyncio.ensure_future(anext(stream))
    await until(lambda: bench.parts.watchers.are_there)
    observer, minion = bench.chains.results, bench.minions[0]

    def printed(conn: sa.Connection) -> None:
        for number, (job, text) in enumerate((("20260101000000000001", "no"), (jid, "line\n")), 1):
            observer.on_output(conn, job, JobOutputItem(minion, number, "stdout", text, 3))

    await bench.store.write(printed)
    assert await following == ChainOutputItem(minion, "stdout", "line\n", 3)
    await bench.returns(ret(jid, START, {key(chain, one, 1): row(True)}))
    items = [item async for item in stream]
    assert isinstance(items[-1], ChainViewItem) and items[-1].state == "done"


async def test_old_chains_are_archived_and_not_deleted(bench: Bench) -> None:
    chain = await bench.begin("patch", CMD)
    (one,) = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    await bench.returns(ret(jid, START, {key(chain, one, 1): row(True)}))
    lines = await bench.chains.service.list(ChainList(), "alice")
    assert [(line.label, line.counts) for line in lines] == [("patch", {"Completed": 1})]
    bench.clock.advance(8 * 24 * HOUR)
    await bench.chains.scheduler.tick()
    assert await bench.chains.service.list(ChainList(), "alice") == []
    assert len(await bench.chains.service.list(ChainList(all=True), "alice")) == 1
