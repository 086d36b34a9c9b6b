"""Clean-ups of ended runs are sent one at a time, with growing pauses, until one succeeds."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from catena.client.requests.chains import ChainRef
from catena.core.errors import TryLaterError
from catena.core.run_ref import RunRef
from catena.master.chains import fence_rows, run_job_rows
from catena.master.chains.ledger import ChainLedger
from catena.master.jobs.delivery import Delivery
from catena.master.process.clocks import ClockReading
from tests.integration.master.chains.bench import Bench, a_bench, ret
from tests.integration.master.chains.steps import (
    CLEAN,
    RESUME,
    START,
    WHY,
    answers,
    bring_to_reboot,
    cancel,
    owed,
    pass_time,
    set_delivery_state,
)


async def count(bench: Bench) -> int:
    return len(await bench.job_ids(CLEAN))


async def test_failed_clean_is_resent_with_growing_pauses(bench: Bench) -> None:
    await bring_to_reboot(bench, "first")
    await cancel(bench, "first")
    answered = 0
    # 36 minutes, in which the scheduler is woken every five seconds.
    for _ in range(36 * 12):
        if await count(bench) > answered:
            answered += 1
            await answers(bench, success=False)
        await pass_time(bench, 5.0)
    assert 8 <= await count(bench) <= 12


def _found(now: ClockReading, run: RunRef, conn: sa.Connection) -> None:
    fence_rows.forget(ChainLedger(conn, now), run, "web1")


async def test_run_that_reappears_after_each_clean_is_cleaned_with_growing_pauses(
    bench: Bench,
) -> None:
    chain = await bring_to_reboot(bench, "first")
    await cancel(bench, "first")
    run, answered = RunRef(chain, 1), 0
    for _ in range(36 * 12):
        if await count(bench) > answered:
            answered += 1
            await answers(bench, success=True)
        # What each look at a host over SSH finds.
        now = bench.parts.clocks.read()
        await bench.store.write(partial(_found, now, run))
        await pass_time(bench, 5.0)
    assert 8 <= await count(bench) <= 12
    (failed,) = await bench.store.read(fence_rows.failed)
    assert "still has its resume file" in failed.fence_why


@pytest.mark.parametrize("fun", [START, RESUME])
async def test_run_that_progress_ended_is_fenced_when_its_job_fails(
    bench: Bench, fun: str
) -> None:
    """All actions are done, and the minion could not record that the chunk has ended."""

    chain = await bench.begin("first", ("cmd", {"cmd": "true"}))
    (jid,) = await bench.job_ids(START)
    view = (await bench.show("first"))["minions"][0]
    step = {"chain_id": chain, "chunk": 1, "action_id": view["actions"][0]["action_id"]}
    await bench.progresses(jid, 1, **step, event="begin")
    await bench.progresses(jid, 2, **step, event="end", outcome="done")
    assert ((await bench.show("first"))["state"], await owed(bench)) == ("done", 0)
    number = jid if fun == START else bench.jobs.new_jid()
    why = "ERROR: OSError: [Errno 30] Read-only file system"
    await bench.returns(ret(number, fun, why, success=False, epochs={str(chain): 1}))
    assert ((await bench.show("first"))["state"], await owed(bench)) == ("done", 1)
    await pass_time(bench, 1.0)
    await answers(bench, success=True)
    assert await owed(bench) == 0


async def test_two_chains_of_one_minion_share_one_fence_job(bench: Bench) -> None:
    for label in ("first", "second"):
        await bring_to_reboot(bench, label)
    for label in ("first", "second"):
        await cancel(bench, label)
    await pass_time(bench, 1.0)
    assert await count(bench) == 1
    await answers(bench, success=True)
    await pass_time(bench, 1.0)
    assert await count(bench) == 2
    await answers(bench, success=True)
    await pass_time(bench, 3600.0)
    assert (await count(bench), await owed(bench)) == (2, 0)


async def test_manual_clean_and_agent_start_end_the_pause_between_cleans(bench: Bench) -> None:
    await bring_to_reboot(bench, "first")
    await cancel(bench, "first")
    for _ in range(6):
        await answers(bench, success=False)
        await pass_time(bench, 900.0)
    tried = await count(bench)
    await answers(bench, success=False)
    await pass_time(bench, 1.0)
    assert await count(bench) == tried
    # `catena run web1 mgractionchains.clean` went well.
    by_hand = ret(bench.jobs.new_jid(), CLEAN, {"success": True, "runs": []}, success=True)
    await bench.returns(by_hand)
    await pass_time(bench, 1.0)
    assert await count(bench) == tried + 1
    await answers(bench, success=False)
    await bench.starts("web1-boot-2")
    await pass_time(bench, 1.0)
    assert await count(bench) == tried + 2
    await answers(bench, success=True)
    assert await owed(bench) == 0


@pytest.mark.parametrize("state", [Delivery.expired, Delivery.lost, Delivery.rejected])
async def test_clean_without_a_return_is_resent(bench: Bench, state: Delivery) -> None:
    await bring_to_reboot(bench, "first")
    await cancel(bench, "first")
    (jid,) = await bench.job_ids(CLEAN)
    await set_delivery_state(bench, jid, state)
    await bench.store.write(
        lambda conn: bench.chains.results.on_delivery(conn, "web1", jid, state, "too late")
    )
    await pass_time(bench, 1.0)
    await pass_time(bench, 5.0)
    assert await count(bench) == 2


async def test_restarted_master_keeps_the_clean_job_and_its_failures(bench: Bench) -> None:
    await bring_to_reboot(bench, "first")
    await cancel(bench, "first")
    await bench.restart()
    await pass_time(bench, 1.0)
    assert await count(bench) == 1
    for _ in range(4):
        await answers(bench, success=False)
        await pass_time(bench, 0.0)
        await pass_time(bench, 900.0)
    await answers(bench, success=False)
    await bench.restart()
    await pass_time(bench, 1.0)
    (row,) = await bench.store.read(fence_rows.failed)
    assert (row.state, row.fence_jid, row.fence_tries, row.fence_why) == ("fenced", "", 5, WHY)
    assert await count(bench) == 5


async def test_chain_is_not_deleted_while_its_minion_cannot_forget_it(bench: Bench) -> None:
    await bring_to_reboot(bench, "first")
    await cancel(bench, "first")
    await answers(bench, success=False)
    with pytest.raises(TryLaterError, match=r"web1 .*Is a directory"):
        await bench.chains.service.delete(ChainRef("first"), "alice")


async def test_waiting_fences_of_a_fleet_cost_no_query_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = tuple(f"web{number}" for number in range(20))
    async with a_bench(tmp_path, fleet) as bench:
        await bench.begin("first", ("cmd", {"cmd": "true"}))
        await cancel(bench, "first")
        assert (await owed(bench), await count(bench)) == (20, 20)
        asked = []
        real = run_job_rows.open_jobs

        def counted(conn: sa.Connection, minion: str) -> list[run_job_rows.ChainJob]:
            asked.append(minion)
            return real(conn, minion)

        monkeypatch.setattr(run_job_rows, "open_jobs", counted)
        await pass_time(bench, 1.0)
        assert asked == []


async def test_clean_whose_return_names_another_function_has_failed(bench: Bench) -> None:
    await bring_to_reboot(bench, "first")
    await cancel(bench, "first")
    for _ in range(3):
        jid = (await bench.job_ids(CLEAN))[-1]
        await set_delivery_state(bench, jid)
        await bench.returns(ret(jid, "test.ping", True))
        await pass_time(bench, 1.0)
        await pass_time(bench, 900.0)
    assert await count(bench) == 4
    (failed,) = await bench.store.read(fence_rows.failed)
    assert "without the return of a removal" in failed.fence_why
    await answers(bench, success=True)
    assert await owed(bench) == 0
