"""The end of one of two chains on a minion does not affect the other."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from catena.client.requests.chains import ChainRef
from catena.core.job import FunctionCall
from catena.master.jobs.delivery import Delivery
from catena.master.jobs.model import JobRequest
from catena.master.store.tables import DELIVERIES
from tests.integration.master.chains.bench import Bench, key, ret, row
from tests.integration.master.chains.steps import (
    CLEAN,
    CMD,
    REBOOT,
    RESUME,
    START,
    bring_to_reboot,
    cancel,
    cleans,
    ids,
    owed,
    pass_time,
    resumes,
    set_delivery_state,
    stopping,
    understands,
)


@pytest.mark.parametrize("said", ["named", "reported", "unsaid"])
async def test_cancelled_chain_does_not_stop_the_resume_of_another(
    bench: Bench, said: str
) -> None:
    await bring_to_reboot(bench, "first")
    second = await bring_to_reboot(bench, "second")
    jid = await resumes(bench, second if said == "named" else 0)
    third = (await ids(bench, "second"))[2]
    if said == "reported":
        told = {"chain_id": second, "epoch": 1, "chunk": 2, "action_id": third}
        await _stored_progress(bench, jid, {**told, "event": "begin"})
    await cancel(bench, "first")
    assert await stopping(bench) == []
    value = {key(second, third, 2): row(True)}
    await set_delivery_state(bench, jid)
    await bench.returns(ret(jid, RESUME, value, epochs={str(second): 1}))
    assert (await bench.show("second"))["state"] == "done"
    assert (await bench.show("first"))["state"] == "cancelled"


@pytest.mark.parametrize("said", ["named", "reported"])
async def test_cancelled_chain_stops_its_own_resume(bench: Bench, said: str) -> None:
    first = await bring_to_reboot(bench, "first")
    await bring_to_reboot(bench, "second")
    jid = await resumes(bench, first if said == "named" else 0)
    if said == "reported":
        third = (await ids(bench, "first"))[2]
        told = {"chain_id": first, "epoch": 1, "chunk": 2, "action_id": third}
        await _stored_progress(bench, jid, {**told, "event": "begin"})
    await cancel(bench, "first")
    assert await stopping(bench) == [jid]


async def _stored_progress(bench: Bench, jid: str, data: dict[str, Any]) -> None:
    """Store a step as the return service does, and let chains take it."""
    from catena.master.store.tables import PROGRESS

    values = {"jid": jid, "minion": "web1", "seq": 1, "kind": "action", "data": data, "when": 1.0}
    await bench.store.write(lambda conn: conn.execute(sa.insert(PROGRESS).values(values)))
    await bench.progresses(jid, 1, **data)


async def test_stopped_resume_does_not_fail_another_chain(bench: Bench) -> None:
    first = await bring_to_reboot(bench, "first")
    await bring_to_reboot(bench, "second")
    jid = await resumes(bench, first)
    await cancel(bench, "first")
    await set_delivery_state(bench, jid)
    text = "cancelled: chain 1 has ended"
    await bench.returns(ret(jid, RESUME, text, success=False))
    assert await bench.states("second") == ["DONE", "RUNNING", "NEW"]


async def test_failed_resume_fails_the_chain_that_it_names(bench: Bench) -> None:
    await bring_to_reboot(bench, "first")
    second = await bring_to_reboot(bench, "second")
    jid = await resumes(bench, second)
    await set_delivery_state(bench, jid)
    await bench.returns(ret(jid, RESUME, "ERROR: no room", success=False))
    assert await bench.states("first") == ["DONE", "RUNNING", "NEW"]
    assert await bench.states("second") == ["DONE", "FAILED", "FAILED"]


async def test_failed_resume_that_names_no_run_fails_none(bench: Bench) -> None:
    await bring_to_reboot(bench, "first")
    await bring_to_reboot(bench, "second")
    jid = await resumes(bench)
    await set_delivery_state(bench, jid)
    await bench.returns(ret(jid, RESUME, "malformed resume file", success=False))
    for label in ("first", "second"):
        assert await bench.states(label) == ["DONE", "RUNNING", "NEW"]


@pytest.mark.parametrize(
    "given",
    [
        {"kwargs": {"actionchain_id": 10**21, "epoch": 1}},
        {"kwargs": {"epoch": 1}},
        {"kwargs": {"actionchain": 1}},
        {"args": ("night",)},
        {"args": (77, 1)},
    ],
)
async def test_resume_with_invalid_arguments_fails_no_chain(
    bench: Bench, given: dict[str, Any]
) -> None:
    await bring_to_reboot(bench, "first")
    request = JobRequest("root", FunctionCall(RESUME, **given), minions=bench.minions)
    jid = (await bench.jobs.submit(request)).jid
    await set_delivery_state(bench, jid)
    text = "ERROR: actionchain_id must be a number, not 'night'"
    await bench.returns(ret(jid, RESUME, text, success=False))
    assert await bench.states("first") == ["DONE", "RUNNING", "NEW"]


@pytest.mark.parametrize("named", [{"actionchain_id": 77}, {"actionchain_id": 77, "epoch": 1}, {}])
async def test_run_is_not_disowned_by_a_report_about_another(
    bench: Bench, named: dict[str, int]
) -> None:
    await bring_to_reboot(bench, "first")
    request = JobRequest("root", FunctionCall(RESUME, kwargs=named), minions=bench.minions)
    jid = (await bench.jobs.submit(request)).jid
    await set_delivery_state(bench, jid)
    said = {"not_resumed": "chain 77 is not known", "actionchain_id": 77, "state": "unknown"}
    await bench.returns(ret(jid, RESUME, said, success=True))
    for _ in range(3):
        await pass_time(bench, 120)
    assert await bench.states("first") == ["DONE", "RUNNING", "NEW"]


async def test_resume_with_positional_arguments_names_its_run(bench: Bench) -> None:
    first = await bring_to_reboot(bench, "first")
    request = JobRequest("root", FunctionCall(RESUME, (first, 1)), minions=bench.minions)
    jid = (await bench.jobs.submit(request)).jid
    await cancel(bench, "first")
    assert jid in await cancelled_jobs(bench)


async def cancelled_jobs(bench: Bench) -> list[str]:
    query = sa.select(DELIVERIES.c.jid).where(DELIVERIES.c.state == Delivery.cancelled.value)
    return await bench.store.read(lambda conn: list(conn.execute(query).scalars()))


@pytest.mark.parametrize(("wire", "more"), [(1, {}), (2, {"epoch": 1})])
async def test_clean_names_the_run_for_agents_that_support_it(
    bench: Bench, wire: int, more: dict[str, int]
) -> None:
    await understands(bench, wire)
    chain = await bring_to_reboot(bench, "first")
    await cancel(bench, "first")
    assert await cleans(bench) == [{"actionchain_id": chain, **more}]


@pytest.mark.parametrize(("wire", "sent"), [(1, 0), (2, 1)])
async def test_agent_without_epoch_support_gets_no_clean_for_a_replaced_run(
    bench: Bench, wire: int, sent: int
) -> None:
    await understands(bench, wire)
    chain = await bring_to_reboot(bench, "first")
    jid = await resumes(bench, chain)
    await set_delivery_state(bench, jid)
    # Its resume fails; it is retried before the minion was told to forget the first run.
    await bench.returns(ret(jid, RESUME, "ERROR: it broke", success=False))
    await bench.chains.service.retry(ChainRef("first"), "alice")
    await bench.chains.scheduler._start_due()
    await bench.chains.scheduler.tick()
    assert len(await cleans(bench)) == sent
    assert all(told["epoch"] == 1 for told in await cleans(bench))
    assert await owed(bench) == sent


@pytest.mark.parametrize("value", ["nothing", "unknown"])
async def test_run_unknown_to_its_minion_ends_with_that_reason(bench: Bench, value: str) -> None:
    chain = await bring_to_reboot(bench, "first")
    jid = await resumes(bench, chain if value == "unknown" else 0)
    await set_delivery_state(bench, jid)
    why = f"chain {chain}, run 1 is not known on this minion"
    said = {"not_resumed": why, "actionchain_id": chain, "epoch": 1, "state": "unknown"}
    said = said if value == "unknown" else {}
    await bench.returns(ret(jid, RESUME, said, success=True))
    await pass_time(bench, 60)
    # Its results may be on their way.
    assert await bench.states("first") == ["DONE", "RUNNING", "NEW"]
    await pass_time(bench, 90)
    await pass_time(bench, 90)
    view = await bench.show("first")
    assert view["state"] == "failed"
    reasons = [action["reason"] for action in view["minions"][0]["actions"]]
    expected = why if value == "unknown" else "no chain waits on this minion"
    assert reasons == ["", f"web1: {expected}", f"web1: {expected}"]


async def test_run_that_was_disowned_too_early_continues(bench: Bench) -> None:
    chain = await bring_to_reboot(bench, "first")
    third = (await ids(bench, "first"))[2]
    jid = await resumes(bench)
    await set_delivery_state(bench, jid)
    await bench.returns(ret(jid, RESUME, {}, success=True))
    await pass_time(bench, 60)
    # The return of the agent's own resume, which was overtaken.
    value = {key(chain, third, 2): row(True)}
    own = ret(bench.jobs.new_jid(), RESUME, value, epochs={str(chain): 1})
    await bench.returns(own)
    assert (await bench.show("first"))["state"] == "done"


async def test_start_event_without_a_pending_chain_does_not_disown_a_final_reboot(
    bench: Bench,
) -> None:
    chain = await bench.begin("last", CMD, REBOOT)
    (start,) = await bench.job_ids(START)
    one, two = await ids(bench, "last")
    value = {key(chain, one, 1): row(True), key(chain, two, 1, "system.reboot"): row(True)}
    await set_delivery_state(bench, start)
    await bench.returns(ret(start, START, value))
    jid = await resumes(bench)
    await set_delivery_state(bench, jid)
    await bench.returns(ret(jid, RESUME, {}, success=True))
    await pass_time(bench, 200)
    await pass_time(bench, 200)
    assert await bench.states("last") == ["DONE", "RUNNING"]


async def test_queued_chain_does_not_prevent_the_timeout_of_a_silent_one(bench: Bench) -> None:
    await bring_to_reboot(bench, "silent")
    await bench.starts("web1-boot-2")
    # Its start is received and stays in the minion's queue, behind the silent one.
    await bench.begin("behind", CMD)
    await set_delivery_state(bench, (await bench.job_ids(START))[-1], Delivery.received)
    for _ in range(3):
        await pass_time(bench, 3601)
    assert (await bench.show("silent"))["state"] == "failed"
    assert (await bench.show("behind"))["state"] == "dispatched"


async def test_cancelled_resume_job_ends_only_its_own_chain(bench: Bench) -> None:
    first = await bring_to_reboot(bench, "first")
    await bring_to_reboot(bench, "second")
    jid = await resumes(bench, first, Delivery.queued)
    await bench.jobs.cancel(jid, user="alice")
    assert (await bench.show("first"))["state"] == "failed"
    assert await bench.states("second") == ["DONE", "RUNNING", "NEW"]
    assert await owed(bench) == 1


async def test_run_given_up_on_the_minion_ends_on_the_master(bench: Bench) -> None:
    first = await bring_to_reboot(bench, "first")
    await bring_to_reboot(bench, "second")
    told = {"success": True, "removed": True, "runs": [{"actionchain_id": first, "epoch": 1}]}
    await bench.returns(ret(bench.jobs.new_jid(), CLEAN, told, success=True))
    view = await bench.show("first")
    assert view["state"] == "failed"
    assert "given up on the minion" in view["minions"][0]["actions"][1]["reason"]
    assert await bench.states("second") == ["DONE", "RUNNING", "NEW"]


async def test_failed_resume_with_a_senseless_run_fails_none(bench: Bench) -> None:
    await bring_to_reboot(bench, "first")
    await bring_to_reboot(bench, "second")
    jid = await resumes(bench)
    await set_delivery_state(bench, jid)
    epochs = {"9" * 5000: 1}
    await bench.returns(ret(jid, RESUME, "no room", success=False, epochs=epochs))
    for label in ("first", "second"):
        assert await bench.states(label) == ["DONE", "RUNNING", "NEW"]
