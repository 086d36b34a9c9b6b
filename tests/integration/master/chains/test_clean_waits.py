"""Starts of chains wait, visibly and for a limited time, for clean-ups that a minion refuses."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from catena.client.requests.chains import ChainList, ChainRef, ChainSchedule
from catena.core.chain_calls import BUSY
from catena.core.config.master import MasterSettings
from catena.core.job import FunctionCall
from catena.master.chains import fence_rows
from catena.master.chains.dependencies import ChainRules
from catena.master.chains.fence_rules import Fence
from catena.master.chains.releases import Releases
from catena.master.jobs.delivery import Delivery
from catena.master.jobs.model import JobRequest
from catena.master.store.tables import DELIVERIES
from tests.integration.master.chains.bench import HOUR, Bench, a_bench, key, ret, row
from tests.integration.master.chains.restoration import back_in_time
from tests.integration.master.chains.steps import (
    CLEAN,
    CMD,
    RESUME,
    START,
    WHY,
    answers,
    bring_to_reboot,
    cancel,
    cleans,
    continue_,
    doctor,
    ids,
    pass_time,
    pause,
    resumes,
    set_delivery_state,
    states,
    understands,
)
from tests.support.postgres_server import PostgresServer

WAIT = 3600.0


async def refused(bench: Bench, label: str = "first") -> int:
    """Cancel a chain that waits for its boot; its minion refuses to forget it."""
    chain = await bring_to_reboot(bench, label)
    await cancel(bench, label)
    await answers(bench, success=False)
    return chain


async def deliveries(bench: Bench, fun: str) -> list[tuple[str, str]]:
    """Return jid and minion of each delivery of a function's jobs."""
    query = sa.select(DELIVERIES.c.jid, DELIVERIES.c.minion)
    query = query.where(DELIVERIES.c.jid.in_(await bench.job_ids(fun)))
    found = await bench.store.read(lambda conn: conn.execute(query).all())
    return [(each.jid, each.minion) for each in found]


async def last(bench: Bench, fun: str = START) -> tuple[str, str]:
    return (await states(bench, fun))[-1]


async def wait_of(bench: Bench, label: str) -> dict[str, Any]:
    """Return the first action of a chain as `chain show` has it."""
    found: dict[str, Any] = (await bench.show(label))["minions"][0]["actions"][0]
    return found


async def test_start_waits_for_a_refused_clean_and_goes_on_with_its_success(bench: Bench) -> None:
    await refused(bench)
    await bench.begin("second", CMD)
    assert await last(bench) == ("web1", "paused")
    await pass_time(bench, 5.0)
    assert await bench.says_hello() == [(await bench.job_ids(CLEAN))[-1]]
    await answers(bench, success=True)
    await bench.chains.scheduler.tick()
    assert await last(bench) == ("web1", "queued")
    assert await bench.says_hello() == [(await bench.job_ids(START))[-1]]
    assert await bench.states("second") == ["NEW"]


async def test_waiting_start_has_the_clean_tried_at_once(bench: Bench) -> None:
    await refused(bench)
    for _ in range(6):
        await pass_time(bench, 0.0)
        await pass_time(bench, 900.0)
        await answers(bench, success=False)
    tried = len(await cleans(bench))
    await pass_time(bench, 1.0)
    assert len(await cleans(bench)) == tried
    await bench.begin("second", CMD)
    await pass_time(bench, 0.0)
    assert len(await cleans(bench)) == tried + 1


@pytest.mark.parametrize("state", [None, Delivery.expired, Delivery.lost, Delivery.rejected])
async def test_unanswered_clean_delays_no_start(bench: Bench, state: Delivery | None) -> None:
    await bring_to_reboot(bench, "first")
    await cancel(bench, "first")
    (jid,) = await bench.job_ids(CLEAN)
    if state is not None:
        await set_delivery_state(bench, jid, state)
        await bench.store.write(
            lambda conn: bench.chains.results.on_delivery(conn, "web1", jid, state, "too late")
        )
    await bench.begin("second", CMD)
    assert await last(bench) == ("web1", "queued")


async def test_clean_that_meets_a_running_chain_delays_no_start(bench: Bench) -> None:
    await bring_to_reboot(bench, "first")
    await cancel(bench, "first")
    (jid,) = await bench.job_ids(CLEAN)
    await set_delivery_state(bench, jid)
    await bench.returns(ret(jid, CLEAN, f"ERROR: {BUSY}", success=False))
    await bench.begin("second", CMD)
    assert await last(bench) == ("web1", "queued")


async def test_refusal_stays_known_when_a_later_clean_is_not_answered(bench: Bench) -> None:
    await refused(bench)
    await pass_time(bench, 0.0)
    await pass_time(bench, 5.0)
    jid = (await bench.job_ids(CLEAN))[-1]
    await set_delivery_state(bench, jid, Delivery.expired)
    await bench.store.write(
        lambda conn: bench.chains.results.on_delivery(
            conn, "web1", jid, Delivery.expired, "not delivered in time"
        )
    )
    await bench.begin("second", CMD)
    assert "Is a directory" in (await wait_of(bench, "second"))["waits"]


async def test_start_is_sent_when_it_has_waited_long_enough(bench: Bench) -> None:
    await refused(bench)
    await bench.begin("second", CMD)
    await pass_time(bench, WAIT - 1)
    assert await last(bench) == ("web1", "paused")
    # The minion is away at that moment; it is sent with its next Hello and not held back again.
    await pass_time(bench, 2)
    assert await last(bench) == ("web1", "queued")
    assert (await bench.job_ids(START))[-1] in await bench.says_hello()
    events = [(each["event"], each["reason"]) for each in (await bench.show("second"))["history"]]
    assert ("handed_over", "to web1: it has waited long enough") in events


async def test_wait_counts_through_restarts_of_the_master(bench: Bench) -> None:
    await refused(bench)
    await bench.begin("second", CMD)
    for _ in range(4):
        await pass_time(bench, WAIT / 5)
        await bench.restart()
        await bench.chains.scheduler.tick()
        assert await last(bench) == ("web1", "paused")
    await pass_time(bench, WAIT / 5)
    assert await last(bench) == ("web1", "queued")


async def test_wait_counts_on_when_the_store_moves_to_another_host(bench: Bench) -> None:
    await refused(bench)
    await bench.begin("second", CMD)
    await pass_time(bench, WAIT / 2)
    await bench.move_to_host(2, uptime=40 * 24 * HOUR)
    await pass_time(bench, WAIT / 4)
    assert await last(bench) == ("web1", "paused")
    await pass_time(bench, WAIT / 4)
    assert await last(bench) == ("web1", "queued")


async def test_clean_that_succeeded_before_a_restart_lets_the_start_go(bench: Bench) -> None:
    await refused(bench)
    await bench.begin("second", CMD)
    await pass_time(bench, 5.0)
    await answers(bench, success=True)
    # Killed before the scheduler looked.
    await bench.restart()
    await bench.chains.scheduler.tick()
    assert await last(bench) == ("web1", "queued")


async def test_several_chains_wait_and_go_on_in_their_order(bench: Bench) -> None:
    await refused(bench)
    for label in ("second", "third", "fourth"):
        await bench.begin(label, CMD)
    assert [state for _, state in await states(bench, START)][1:] == ["paused"] * 3
    await pass_time(bench, 5.0)
    await answers(bench, success=True)
    await bench.chains.scheduler.tick()
    assert await bench.says_hello() == (await bench.job_ids(START))[1:]


async def test_chain_that_is_cancelled_while_it_waits_is_never_sent(bench: Bench) -> None:
    await refused(bench)
    await bench.begin("second", CMD)
    await cancel(bench, "second")
    assert (await bench.show("second"))["state"] == "cancelled"
    assert await last(bench) == ("web1", "cancelled")
    await pass_time(bench, WAIT + 1)
    assert await last(bench) == ("web1", "cancelled")


async def test_start_of_a_chain_that_ends_while_the_scheduler_looks_is_not_sent(
    bench: Bench,
) -> None:
    await refused(bench)
    await bench.begin("second", CMD)
    # Cancelled after the scheduler has read which runs ended, before it looks for free jobs.
    await bench.chains.service.cancel(ChainRef("second"), "alice")
    await Releases(bench.parts).lapsed()
    assert await last(bench) == ("web1", "paused")
    await bench.chains.scheduler.tick()
    assert await last(bench) == ("web1", "cancelled")


async def test_resume_of_a_chain_that_ends_while_the_scheduler_looks_is_not_sent(
    bench: Bench,
) -> None:
    chain = await bring_to_reboot(bench, "first")
    await understands(bench, 2)
    await pause(bench, "first")
    await resumes(bench, chain, Delivery.paused)
    await bench.chains.service.cancel(ChainRef("first"), "alice")
    await Releases(bench.parts).lapsed()
    assert await last(bench, RESUME) == ("web1", "paused")
    await bench.chains.scheduler.tick()
    assert await last(bench, RESUME) == ("web1", "cancelled")


async def test_refusal_of_one_minion_holds_back_no_other(tmp_path: Path) -> None:
    async with a_bench(tmp_path, ("web1", "web2")) as bench:
        await bench.begin("first", CMD)
        await cancel(bench, "first")
        cleans = {minion: jid for jid, minion in await deliveries(bench, CLEAN)}
        await bench.returns(ret(cleans["web1"], CLEAN, WHY, success=False))
        await bench.begin("second", CMD)
        assert (await states(bench, START))[2:] == [("web1", "paused"), ("web2", "queued")]


async def test_resume_of_a_begun_chain_does_not_wait(bench: Bench) -> None:
    third = await bring_to_reboot(bench, "third")
    await refused(bench)
    jid = await resumes(bench, third, Delivery.queued)
    assert jid in await bench.says_hello()
    assert await last(bench, RESUME) == ("web1", "queued")


async def test_retry_of_the_ended_chain_waits_too(bench: Bench) -> None:
    chain = await bring_to_reboot(bench, "first")
    jid = await resumes(bench, chain)
    await set_delivery_state(bench, jid)
    await bench.returns(ret(jid, RESUME, WHY, success=False))
    await bench.chains.scheduler.tick()
    await answers(bench, success=False)
    await understands(bench, 2)
    await bench.chains.service.retry(ChainRef("first"), "alice")
    await bench.chains.scheduler.tick()
    assert await last(bench) == ("web1", "paused")


async def test_agent_without_epochs_gets_the_retry_once_its_fence_is_dropped(bench: Bench) -> None:
    chain = await bring_to_reboot(bench, "first")
    jid = await resumes(bench, chain)
    await set_delivery_state(bench, jid)
    await bench.returns(ret(jid, RESUME, WHY, success=False))
    await bench.chains.scheduler.tick()
    await answers(bench, success=False)
    await bench.chains.service.retry(ChainRef("first"), "alice")
    await bench.chains.scheduler.tick()
    await pass_time(bench, 5.0)
    assert await last(bench) == ("web1", "queued")


async def test_start_by_hand_of_an_unknown_chain_does_not_wait(bench: Bench) -> None:
    await refused(bench)
    request = JobRequest("root", FunctionCall(START, (77,)), minions=("web1",))
    await bench.jobs.submit(request)
    assert await last(bench) == ("web1", "queued")


async def test_pause_and_clean_wait_of_one_start_do_not_replace_each_other(bench: Bench) -> None:
    await refused(bench)
    await bench.begin("second", CMD)
    await pause(bench, "second")
    assert (await wait_of(bench, "second"))["waits"].startswith("paused by alice")
    await pass_time(bench, 5.0)
    await answers(bench, success=True)
    await bench.chains.scheduler.tick()
    assert await last(bench) == ("web1", "paused")
    await continue_(bench, "second")
    assert await last(bench) == ("web1", "queued")


async def test_continued_chain_still_waits_for_the_clean(bench: Bench) -> None:
    await refused(bench)
    await bench.begin("second", CMD)
    await pause(bench, "second")
    await continue_(bench, "second")
    assert await last(bench) == ("web1", "paused")
    assert (await wait_of(bench, "second"))["waits"].startswith("waits for the clean-up of")


async def test_wait_is_seen_in_show_list_history_and_doctor(bench: Bench) -> None:
    first = await refused(bench)
    begun = bench.clock.now().timestamp()
    second = await bench.begin("second", CMD)
    view = await bench.show("second")
    action = view["minions"][0]["actions"][0]
    assert action["waits"] == (
        f"waits for the clean-up of chain 'first' ({first}) on web1, which fails: can't remove "
        "/etc/catena/minion.d/_mgractionchains.conf: Is a directory; "
        "at once: catena run web1 mgractionchains.clean; "
        "web1 is not connected, seen last 2026-03-01 12:00:00"
    ).replace("2026-03-01 12:00:00", action["waits"][-19:])
    assert action["until"] == begun + WAIT
    assert view["minions"][0]["note"].startswith("0 of 1 done, waits for a clean-up")
    (line,) = [each for each in await bench.chains.service.list(ChainList(), "a") if each.cleans]
    (wait,) = line.cleans
    assert (line.id, wait.minion, wait.chain, wait.until) == (second, "web1", first, begun + WAIT)
    noted = [(each["event"], each["reason"]) for each in view["history"]]
    assert ("held_back", f"on web1: {action['waits'].partition('; at once')[0]}") in noted
    found = [each.what for each in await doctor(bench, begun)]
    assert any(f"chain 'second' ({second}) must wait for that there" in what for what in found)
    await pass_time(bench, 5.0)
    await answers(bench, success=True)
    await bench.chains.scheduler.tick()
    noted = [(each["event"], each["reason"]) for each in (await bench.show("second"))["history"]]
    assert ("handed_over", "to web1: the clean-up there is done") in noted
    assert not any(each.cleans for each in await bench.chains.service.list(ChainList(), "a"))


async def test_start_that_was_on_its_way_runs_although_it_is_held_back(bench: Bench) -> None:
    await refused(bench)
    second = await bench.begin("second", CMD)
    jid = (await bench.job_ids(START))[-1]
    assert await bench.says_hello(jid) == []
    assert await last(bench) == ("web1", "received")
    (action,) = await ids(bench, "second")
    await set_delivery_state(bench, jid)
    await bench.returns(ret(jid, START, {key(second, action, 1): row(True)}))
    assert (await bench.show("second"))["state"] == "done"


async def test_wait_and_approval_work_on_postgresql(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with a_bench(tmp_path, url=postgres.new_database()) as bench:
        await refused(bench)
        chain = await bench.apply("second", CMD)
        asked = ChainSchedule(str(chain), approve_required=True)
        await bench.chains.service.schedule(asked, "alice")
        await bench.chains.service.approve(ChainRef("second"), "bob")
        await bench.chains.scheduler.tick()
        assert await last(bench) == ("web1", "paused")
        assert "Is a directory" in (await wait_of(bench, "second"))["waits"]
        await pass_time(bench, 5.0)
        await answers(bench, success=True)
        await bench.chains.scheduler.tick()
        assert await last(bench) == ("web1", "queued")


async def test_setting_of_zero_sends_the_start_at_once(tmp_path: Path) -> None:
    async with a_bench(tmp_path) as bench:
        bench.rules = ChainRules.of(MasterSettings(chain_clean_wait_minutes=0))
        await bench.restart()
        await refused(bench)
        await bench.begin("second", CMD)
        assert await last(bench) == ("web1", "queued")


def test_wait_is_shorter_than_the_time_in_which_a_start_may_be_late() -> None:
    rules = ChainRules.of(MasterSettings(chain_clean_wait_minutes=1440, chain_late_hours=1))
    assert rules.clean_wait_seconds == HOUR / 2


async def test_restored_store_ends_a_start_that_waited(tmp_path: Path) -> None:
    async def before(bench: Bench) -> None:
        await refused(bench)
        await bench.begin("second", CMD)

    async def after(bench: Bench) -> None:
        await bench.chains.scheduler.tick()
        await bench.says_hello()
        assert await last(bench) == ("web1", "lost")
        assert (await bench.show("second"))["state"] == "failed"

    await back_in_time(tmp_path, before, after)


async def test_removed_run_whose_late_failure_arrives_holds_no_start_back(bench: Bench) -> None:
    """The minion has removed the run, so it has refused nothing."""
    await bring_to_reboot(bench, "first")
    (jid,) = await bench.job_ids(START)
    await cancel(bench, "first")
    await answers(bench, success=True)
    await bench.returns(ret(jid, START, "ERROR: cancelled", success=False))
    await bench.begin("second", CMD)
    assert await last(bench) == ("web1", "queued")


async def test_fences_of_a_fleet_are_read_once_for_all_held_starts_of_a_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = tuple(f"web{number}" for number in range(20))
    async with a_bench(tmp_path, fleet) as bench:
        await bench.begin("first", CMD)
        await cancel(bench, "first")
        for minion in fleet:
            (jid,) = {jid for jid, name in await deliveries(bench, CLEAN) if name == minion}
            await bench.returns(ret(jid, CLEAN, WHY, success=False), minion)
        await bench.begin("second", CMD)
        assert {state for _, state in (await states(bench, START))[-len(fleet) :]} == {"paused"}
        asked = []
        real = fence_rows.refused

        def counted(conn: sa.Connection, minions: Collection[str]) -> dict[str, list[Fence]]:
            asked.append(len(minions))
            return real(conn, minions)

        monkeypatch.setattr(fence_rows, "refused", counted)
        await bench.chains.scheduler.tick()
        assert asked == [len(fleet)]
        # Of all minions, for the list.
        asked.clear()
        lines = await bench.chains.service.list(ChainList(), "alice")
        assert [len(line.cleans) for line in lines] == [len(fleet), 0]
        assert asked == [0]
