"""A second engine works with a line in the list of engines and nothing else."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from catena.client import requests
from catena.client.requests.chains import ChainDocument, ChainRef, ChainSchedule
from catena.core.checkup import Finding
from catena.core.errors import NotAllowedError
from catena.core.fsm import Actor
from catena.core.records import encode
from catena.master import contributions
from catena.master.chains import rows as chain_rows
from catena.master.engines import ENGINES, EngineClass
from catena.master.executions import approvals, rows
from catena.master.executions.approval_deadlines import ApprovalDeadlines
from catena.master.executions.approval_rules import ContentChangedError
from catena.master.executions.approvals import EXPIRED, Unapproved
from catena.master.executions.due import TICK_SECONDS
from catena.master.executions.ledger import Ledger
from catena.master.executions.starts import CURSOR
from catena.master.process import checkup
from catena.master.requests.rights import ADMINISTRATOR, Caller
from catena.master.store.chain_tables import ENTRIES
from catena.master.store.execution_tables import APPROVALS, HISTORY
from tests.integration.master.bench import START, Bench, Script, a_master
from tests.support.greetings import asks, tables
from tests.support.greetings.engine import Greetings

BOTH: tuple[EngineClass, ...] = (*ENGINES, Greetings)
ANNA = Caller("anna", ADMINISTRATOR)
DAY = 24 * 3600.0


@pytest.fixture
async def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """A master with chains and greetings."""
    monkeypatch.setitem(dict_of_modules(), "greeting", "greetings")
    monkeypatch.setitem(sys.modules, "catena.client.requests.greetings", asks)
    url = f"sqlite:///{tmp_path}/master.db"
    tables.migrate(url)
    async with a_master(BOTH, database=url) as made:
        yield made


def dict_of_modules() -> dict[str, str]:
    assert isinstance(requests.MODULES, dict)
    return requests.MODULES


async def order(master: Bench, minion: str, key: str = "") -> int:
    """Order a greeting as a front end does; return its run."""
    asked = encode(asks.GreetingOrder(minion, "good morning"))
    answer: Any = master.dispatcher.answer(ANNA, asks.ORDER.name, asked, key)
    return int(encode(await answer)["run"])


async def reconnect_in_boot(master: Bench, script: Script, boot: str) -> None:
    """Connect a minion whose agent came up in another boot; wait until its start was taken."""
    script.boot = boot
    script.session = f"session-{boot}"
    await script.reconnect()
    *_, start = await master.events(f"salt/minion/{script.name}/start")
    assert start.data["boot_id"] == boot

    async def taken() -> bool:
        return await master.bus.cursor(CURSOR) >= start.seq

    await master.until(taken)


async def state(master: Bench, run: int) -> tuple[str, str]:
    """Return a run's state and its common status, as every shared view shows them."""
    found = await master.store.read(lambda conn: rows.run(conn, run))
    assert found is not None
    return found.state, found.status


async def findings(master: Bench, now: float) -> list[Finding]:
    checks = contributions.checks(BOTH)
    return await master.store.read(
        lambda conn: [found for check in checks.store for found in check(conn, now)]
    )


async def test_greeting_runs_once_when_its_minion_starts(master: Bench) -> None:
    (web1,) = await master.connect("web1")
    run = await order(master, "web1")
    other = await order(master, "web2")
    assert await state(master, run) == ("waiting", "NEW")
    await reconnect_in_boot(master, web1, "boot2")
    await reconnect_in_boot(master, web1, "boot3")
    assert await state(master, run) == ("said", "DONE")
    assert await state(master, other) == ("waiting", "NEW")
    (said,) = await master.events("greeting/*")
    assert (said.tag, said.data["text"]) == (f"greeting/{run}/said", "good morning")


async def test_transitions_of_a_greeting_are_in_the_history_of_its_run(master: Bench) -> None:
    (web1,) = await master.connect("web1")
    run = await order(master, "web1")
    await reconnect_in_boot(master, web1, "boot2")
    query = sa.select(HISTORY.c.subject, HISTORY.c.event, HISTORY.c.actor, HISTORY.c.who)
    query = query.where(HISTORY.c.run == run).order_by(HISTORY.c.id)
    found = await master.store.read(lambda conn: [tuple(row) for row in conn.execute(query)])
    assert found == [
        ("run", "ordered", "api", "anna"),
        ("execution", "succeed", "agent", "web1"),
        ("run", "say", "agent", "web1"),
    ]


async def test_repeated_request_creates_one_greeting(master: Bench) -> None:
    assert await order(master, "web1", "key-1") == await order(master, "web1", "key-1")
    assert await order(master, "web1") > 0


async def test_minion_list_shows_the_open_runs_of_each_engine(master: Bench) -> None:
    await master.connect("web1", "web2")
    chain = await begin_chain(master)
    run = await order(master, "web1")
    found = {line.id: line.chain for line in await master.minions.list(("web1", "web2"))}
    assert found == {"web1": f"patch (#{chain}), greeting #{run}", "web2": ""}


async def begin_chain(master: Bench) -> int:
    """Begin a chain on web1."""
    entry = {"tgt": "web1", "action": {"kind": "cmd", "data": {"cmd": "true"}}}
    made = await master.chains.service.apply(ChainDocument("patch", (entry,)), "anna")
    await master.chains.service.schedule(ChainSchedule("patch"), "anna")
    await master.chains.scheduler.tick()
    assert (await master.chains.service.show(ChainRef("patch"), "anna")).state == "dispatched"
    return int(made.id)


async def test_doctor_reports_the_minion_whose_greetings_wait_long(master: Bench) -> None:
    await order(master, "web9")
    now = START.timestamp()
    assert [found for found in await findings(master, now) if found.part == "greetings"] == []
    (found,) = [f for f in await findings(master, now + 2 * DAY) if f.part == "greetings"]
    assert found.what == "web9 has not come up for 1 greetings"


async def test_doctor_without_the_engine_reports_nothing_of_it(master: Bench) -> None:
    await order(master, "web9")
    master.hand.advance(2 * DAY)
    found = await asyncio.to_thread(
        lambda: list(checkup.check(master.settings, contributions.checks()))
    )
    assert "greetings" not in {one.part for one in found}


async def test_prune_removes_old_greetings_and_keeps_waiting_ones(master: Bench) -> None:
    (web1,) = await master.connect("web1")
    said, waiting = await order(master, "web1"), await order(master, "web2")
    await reconnect_in_boot(master, web1, "boot2")
    master.hand.advance(master.settings.keep_jobs_hours * 3600 + 1)
    await master._prune()
    found = await master.store.read(lambda conn: [rows.run(conn, one) for one in (said, waiting)])
    assert [run.state if run else None for run in found] == [None, "waiting"]
    texts = sa.select(tables.GREETINGS.c.run)
    assert await master.store.read(lambda conn: list(conn.execute(texts).scalars())) == [waiting]


# -- approvals -----------------------------------------------------------------------------------


def greetings(master: Bench) -> Greetings:
    engine = master.engines["greetings"]
    assert isinstance(engine, Greetings)
    return engine


async def asked(master: Bench, seconds: float = 600.0) -> int:
    """Order a greeting that needs somebody's approval; return its run."""
    record = encode(asks.GreetingOrder("web1", "good morning", seconds))
    answer: Any = master.dispatcher.answer(ANNA, asks.ORDER.name, record, "")
    return int(encode(await answer)["run"])


async def test_approved_greeting_is_said(master: Bench) -> None:
    (web1,) = await master.connect("web1")
    run = await asked(master)
    await reconnect_in_boot(master, web1, "boot2")
    assert await state(master, run) == ("asked", "PENDING_APPROVE")
    await greetings(master).service.approve(run, "good morning", "bob")
    assert await state(master, run) == ("waiting", "NEW")
    await reconnect_in_boot(master, web1, "boot3")
    assert await state(master, run) == ("said", "DONE")


async def test_greeting_is_not_approved_for_other_words_or_by_its_author(master: Bench) -> None:
    run = await asked(master)
    with pytest.raises(ContentChangedError):
        await greetings(master).service.approve(run, "good night", "bob")
    with pytest.raises(NotAllowedError, match="anna has a part in it"):
        await greetings(master).service.approve(run, "good morning", "anna")
    assert await state(master, run) == ("asked", "PENDING_APPROVE")


async def test_refused_greeting_ends_with_the_reason(master: Bench) -> None:
    run = await asked(master)
    await greetings(master).service.refuse(run, "too loud", "bob", master.engines)
    found = await master.store.read(lambda conn: rows.run(conn, run))
    assert found is not None
    assert (found.state, found.status) == ("dropped", "CANCELLED")
    assert found.reason == "refused by bob: too loud"


async def test_greeting_that_nobody_approves_ends_in_time(master: Bench) -> None:
    run, later = await asked(master), await asked(master, 7200.0)
    deadlines = ApprovalDeadlines(master.store, master.clocks.read, master.engines, master.bus)
    await deadlines.tick()
    assert await state(master, run) == ("asked", "PENDING_APPROVE")
    master.hand.advance(601.0)
    await deadlines.tick()
    assert await state(master, run) == ("dropped", "CANCELLED")
    assert await state(master, later) == ("asked", "PENDING_APPROVE")
    (dropped,) = await master.events("greeting/*")
    assert dropped.data["reason"] == EXPIRED
    assert 0 < await deadlines.pause() <= TICK_SECONDS


async def test_master_ends_expired_approvals_by_itself(master: Bench) -> None:
    run = await asked(master)
    master.hand.advance(601.0)

    async def dropped() -> bool:
        return (await state(master, run))[0] == "dropped"

    await master.until(dropped)
    assert await state(master, run) == ("dropped", "CANCELLED")
    (event,) = await master.events("greeting/*")
    assert event.data["reason"] == EXPIRED


async def test_chain_whose_approval_ends_is_cancelled(master: Bench) -> None:
    await master.connect("web1")
    entry = {"tgt": "web1", "action": {"kind": "cmd", "data": {"cmd": "true"}}}
    service = master.chains.service
    for label in ("refused", "late"):
        await service.apply(ChainDocument(label, (entry,)), "anna")
        await service.schedule(ChainSchedule(label, approve_required=True), "anna")
    numbers = {label: (await service.show(ChainRef(label), "anna")).id for label in CALLS}
    for label, call in CALLS.items():
        await master.store.write(partial(end_approval, master, numbers[label], call))
        shown = await service.show(ChainRef(label), "anna")
        assert shown.state == "cancelled"
        assert [a.state for m in shown.minions for a in m.actions] == ["CANCELLED"]
    assert (await service.show(ChainRef("refused"), "anna")).reason == "refused by bob: no"


def refuse(ledger: Ledger, approval: int, engines: Unapproved) -> None:
    approvals.refuse(ledger, approval, "no", engines)


def expire(ledger: Ledger, approval: int, engines: Unapproved) -> None:
    query = sa.update(APPROVALS).where(APPROVALS.c.id == approval)
    ledger.conn.execute(query.values(expires=ledger.now.wall))
    assert approvals.expire(ledger, approval, engines)


CALLS = {"refused": refuse, "late": expire}


def end_approval(master: Bench, chain: int, call: Any, conn: sa.Connection) -> None:
    approval = chain_rows.chain(conn, chain).approval
    actor, who = (Actor.api, "bob") if call is refuse else (Actor.system, "")
    call(Ledger(conn, master.clocks.read(), actor, who), approval, master.engines)


async def test_chain_that_was_changed_after_the_request_is_not_approved(master: Bench) -> None:
    await master.connect("web1")
    entry = {"tgt": "web1", "action": {"kind": "cmd", "data": {"cmd": "true"}}}
    service = master.chains.service
    await service.apply(ChainDocument("patch", (entry,)), "anna")
    await service.schedule(ChainSchedule("patch", approve_required=True), "anna")
    # No request can do this; an operator who edits the database can.
    other = sa.update(ENTRIES).values(sort_order=7)
    await master.store.write(lambda conn: conn.execute(other))
    with pytest.raises(ContentChangedError, match="look at it again"):
        await service.approve(ChainRef("patch"), "bob")
    assert (await service.show(ChainRef("patch"), "anna")).state == "pending_approval"
