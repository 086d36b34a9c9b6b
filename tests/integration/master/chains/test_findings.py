"""`catena doctor` and `catena chain show` name what waits, fails, hangs or can't be ended."""

from __future__ import annotations

import time
from typing import Any

import pytest
import sqlalchemy as sa

from catena.client.requests.chains import ChainRef, ChainSchedule
from catena.core.checkup import Finding
from catena.core.errors import InvalidStateError
from catena.master.chains import findings
from catena.master.jobs import findings as job_findings
from catena.master.jobs.delivery import Delivery
from catena.master.store.execution_tables import RUNS
from catena.master.store.tables import DELIVERIES, MINIONS
from tests.integration.master.chains.bench import Bench, ret
from tests.integration.master.chains.steps import (
    CMD,
    START,
    WHY,
    answers,
    bring_to_reboot,
    cancel,
    resumes,
    set_delivery_state,
)


async def current_findings(bench: Bench) -> list[Finding]:
    return await bench.store.read(lambda conn: list(findings.check(conn, time.time())))


async def change_minion(bench: Bench, **values: Any) -> None:
    """Change what is known of web1."""
    change = sa.update(MINIONS).where(MINIONS.c.id == "web1").values(values)
    await bench.store.write(lambda conn: conn.execute(change))


async def rows_of(bench: Bench, label: str) -> list[dict[str, Any]]:
    view = await bench.show(label)
    return [action for minion in view["minions"] for action in minion["actions"]]


async def test_run_that_cannot_be_ended_is_shown_by_doctor_and_show(bench: Bench) -> None:
    await change_minion(bench, up=True)
    chain = await bring_to_reboot(bench, "night")
    await cancel(bench, "night")
    await answers(bench, success=False)
    (finding,) = await current_findings(bench)
    assert f"chain 'night' ({chain}) on web1" in finding.what
    assert WHY.removeprefix("ERROR: ") in finding.what
    assert finding.advice.endswith("catena run web1 mgractionchains.clean")
    (minion,) = (await bench.show("night"))["minions"]
    assert "the minion could not remove run 1: can't remove" in minion["note"]
    assert "1 tries, every 5 s" in minion["note"]


async def test_chain_that_waits_for_an_absent_minion_is_a_finding(bench: Bench) -> None:
    await change_minion(bench, up=False, last_seen=time.time() - 3600)
    await bench.begin("night", CMD, CMD)
    (finding,) = await current_findings(bench)
    assert "on web1 waits: web1 is not connected since" in finding.what
    one, two = await rows_of(bench, "night")
    assert "is not sent yet; web1 is not connected, seen last" in one["waits"]
    assert one["until"] > 0
    assert two["waits"] == "after action 0"


async def test_chain_without_an_open_job_is_reported_as_stuck(bench: Bench) -> None:
    await change_minion(bench, up=True)
    await bring_to_reboot(bench, "night")
    (finding,) = await current_findings(bench)
    assert "waits for the boot since" in finding.what
    one, two, three = await rows_of(bench, "night")
    assert (one["waits"], three["waits"]) == ("", "after action 1")
    assert two["waits"] == "waits for the boot"
    limit = bench.clock.now().timestamp() + bench.rules.boundary_seconds
    assert abs(two["until"] - limit) < 1
    await bench.starts("web1-boot-2")
    (finding,) = await current_findings(bench)
    assert "is stuck: no job works on it" in finding.what
    assert "no job resumes it" in (await rows_of(bench, "night"))[2]["waits"]
    await resumes(bench, 1, Delivery.queued)
    assert await current_findings(bench) == []


async def test_chains_that_failed_are_late_or_wait_for_a_decision_are_findings(
    bench: Bench,
) -> None:
    await change_minion(bench, up=True)
    failed = await bench.begin("failed", CMD)
    await bench.returns(ret((await bench.job_ids(START))[0], START, "no", success=False))
    asked = await bench.apply("asked", CMD)
    await bench.chains.service.schedule(ChainSchedule("asked", 0.0, True), "alice")
    late = await bench.apply("late", CMD)
    at = bench.clock.now().timestamp() + 60
    await bench.chains.service.schedule(ChainSchedule("late", at), "alice")

    def age(conn: sa.Connection) -> None:
        mine = RUNS.c.ref == str(failed)
        conn.execute(sa.update(RUNS).where(mine).values(ended=time.time() - 60))

    await bench.store.write(age)
    said = "\n".join(f"{f.what} -> {f.advice}" for f in await current_findings(bench))
    assert f"chain 'failed' ({failed}) failed at" in said
    assert f"catena chain show {failed}" in said
    assert f"chain 'asked' ({asked}) waits for approval -> catena chain approve" in said
    assert f"chain 'late' ({late}) was due at" in said
    assert "catena chain approve" in (await rows_of(bench, "asked"))[0]["waits"]
    assert (await rows_of(bench, "late"))[0]["waits"] == "waits for its due time"
    assert (await rows_of(bench, "late"))[0]["until"] == at


async def test_undelivered_jobs_are_a_finding_by_minion(bench: Bench) -> None:
    await bench.begin("night", CMD)
    change = sa.update(DELIVERIES).values(changed=time.time() - 3600)
    await bench.store.write(lambda conn: conn.execute(change))
    await change_minion(bench, last_seen=0.0)
    (finding,) = await bench.store.read(lambda conn: list(job_findings.check(conn, time.time())))
    assert finding.what == "1 jobs wait for web1, which accepts none: it was never connected"
    await set_delivery_state(bench, (await bench.job_ids(START))[0])
    assert await bench.store.read(lambda conn: list(job_findings.check(conn, time.time()))) == []


async def test_messages_distinguish_two_chains_with_one_label(bench: Bench) -> None:
    first = await bring_to_reboot(bench, "night")
    second = await bring_to_reboot(bench, "night", again=True)
    assert first != second
    for chain in (first, second):
        expected = rf"chain 'night' \({chain}\): it is (running|dispatched)"
        with pytest.raises(InvalidStateError, match=expected):
            await bench.chains.service.retry(ChainRef(str(chain)), "alice")
