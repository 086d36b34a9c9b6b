"""Visits of hosts over SSH by doubles: claims, lost workers, requests of operators."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from catena.client.requests.chains import (
    ChainAction,
    ChainAdd,
    ChainCreate,
    ChainPause,
    ChainRef,
    ChainSchedule,
)
from catena.core.chain_calls import START
from catena.core.records import encode
from catena.master.executions import leases
from catena.master.jobs import output_rows
from catena.master.push import messages as m
from catena.master.push import worker
from catena.master.push.worker import LEASE_EVERY, LEASE_SECONDS
from catena.master.store.database import StoreUnavailableError
from catena.master.store.ssh_tables import SSH_HOSTS
from tests.integration.master import ssh_hosts
from tests.integration.master.bench import Bench, a_master
from tests.integration.master.ssh_hosts import Host, reach
from tests.support.waiting import PATIENCE_SECONDS, until

#: No test waits longer for anything.
SECONDS = 60.0
DAY = 24 * 3600


@asynccontextmanager
async def masters(
    patch: pytest.MonkeyPatch, hosts: dict[str, Host], **settings: Any
) -> AsyncIterator[Bench]:
    """Give a master whose roster has *hosts*."""

    reach(hosts, patch)
    async with a_master(roster_file=str(Path(__file__)), **settings) as found:
        await found.ssh_hosts.refresh()
        yield found


async def chain(master: Bench, label: str, *kinds: str) -> int:
    """Schedule a chain of actions on web1."""
    service = master.chains.service
    await service.create(ChainCreate(label), "root")
    for kind in kinds:
        data = {"cmd": "true"} if kind == "cmd" else {}
        await service.add(ChainAdd(label, "web1", ChainAction(kind, data), "glob"), "root")
    found = await service.schedule(ChainSchedule(label), "root")
    return found.id


async def shown(master: Bench, label: str) -> dict[str, Any]:
    await master.settle()
    view: dict[str, Any] = encode(await master.chains.service.show(ChainRef(label), "root"))
    return view


async def note(master: Bench, label: str) -> str:
    return str((await shown(master, label))["minions"][0]["note"])


async def test_job_over_ssh_is_sent_received_and_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host()
    async with masters(monkeypatch, {"web1": host}) as master:
        done = await master.submit(tgt="web1", tgt_type="list")
        assert done.missing == ()
        await master.until(lambda: host.ran)
        assert (await master.states(done.jid))["web1"] == "received"
        host.ends.set()
        await master.until(lambda: not master.ssh.visiting())
        assert (await master.states(done.jid))["web1"] == "done"
        assert [one.jid for one in host.ran] == [done.jid]


async def test_output_of_a_running_job_is_stored_once_and_shown_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = [m.Printed(0, 0, 4, "stdout", "one\n"), m.Printed(0, 9, 4, "stderr", "two\n")]
    senseless = m.Printed(0, 13, 1, "stdin", "x")
    host = Host(prints=[*parts, senseless, *parts])
    async with masters(monkeypatch, {"web1": host}, job_output_kib=3) as master:
        done = await master.submit(tgt="web1", tgt_type="list", fun="cmd.run")
        await master.until(lambda: host.ran)
        assert [order.output_bytes for order in host.visits] == [3072]
        seen = [item async for item in take(master.views.follow(done.jid), "output", 2)]
        assert [(i.minion, i.stream, i.text, i.missed) for i in seen] == [
            ("web1", "stdout", "one\n", 0),
            ("web1", "stderr", "two\n", 5),
        ]
        host.ends.set()
        await master.until(lambda: not master.ssh.visiting())
        assert (await master.states(done.jid))["web1"] == "done"
        kept = await master.store.read(lambda conn: output_rows.chunks(conn, done.jid))
        assert [part.text for _, part in kept] == ["one\n", "two\n"]


async def take(items: AsyncIterator[Any], kind: str, count: int) -> AsyncIterator[Any]:
    """Yield the first items of one kind; wait for those that are still to come."""
    async with asyncio.timeout(SECONDS):
        async for item in items:
            if item.type == kind:
                yield item
                count -= 1
            if not count:
                return


async def test_cancellation_is_sent_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    async with masters(monkeypatch, {"web1": host}) as master:
        done = await master.submit(tgt="web1")
        await master.until(lambda: host.ran)
        assert await master.jobs.cancel(done.jid, reason="enough") == {"web1": "stopping"}
        await master.until(lambda: host.cancelled == ["enough"])
        await master.until(lambda: not master.ssh.visiting())
        assert (await master.states(done.jid))["web1"] == "cancelled"


async def test_job_of_a_host_that_is_never_reached_expires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host()
    async with masters(monkeypatch, {"web1": host}) as master:
        host.ends.set()
        await master.submit(tgt="web1")
        await master.until(lambda: host.ran and not master.ssh.visiting())
        host.trouble = m.Troubled("away", "connect: refused")
        await chain(master, "night", "cmd")
        await master.until(lambda: len(host.visits) > 1 and not master.ssh.visiting())
        assert "not reached since" in await note(master, "night")
        master.hand.advance(DAY + 10)
        await master.ssh.tick()
        view = await shown(master, "night")
        assert view["state"] == "failed"
        text = view["minions"][0]["actions"][0]["comment"]
        assert text == "not started in time over SSH: connect: refused"


async def test_job_that_expires_before_any_visit_is_not_called_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def tick(_: worker.SshWorker) -> float:
        return worker.TICK_SECONDS

    # The worker itself would reject the job for the same reason.
    monkeypatch.setattr(worker.SshWorker, "tick", tick)
    async with masters(monkeypatch, {"web1": Host()}) as master:
        done = await master.submit(tgt="web1")
        master.hand.advance(DAY + 10)
        assert await master.jobs.expire() == 1
        detail = (await master.views.show(done.jid)).minions["web1"].detail
        assert detail == "not delivered in time; no visit over SSH began it"


async def test_chain_that_is_paused_before_its_host_is_reached_begins_when_continued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host()
    async with masters(monkeypatch, {"web1": host}) as master:
        host.ends.set()
        await master.submit(tgt="web1")
        await master.until(lambda: host.ran and not master.ssh.visiting())
        host.trouble = m.Troubled("away", "connect: refused")
        await chain(master, "night", "cmd")
        await master.until(lambda: len(host.visits) > 1 and not master.ssh.visiting())
        await master.chains.service.pause(ChainPause("night"), "joe")
        host.trouble = None
        master.hand.advance(60)
        await master.ssh.tick()
        await master.until(lambda: len(host.visits) > 2 and not master.ssh.visiting())
        assert len(host.ran) == 1
        assert "its chain must wait, paused" in await note(master, "night")
        master.hand.advance(DAY + 10)
        await master.ssh.tick()
        assert len(host.visits) == 3
        await master.chains.service.continue_(ChainPause("night"), "joe")
        await master.until(lambda: len(host.ran) == 2)


async def test_chain_over_ssh_waits_while_its_host_refuses_to_forget_an_ended_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(refuses="ERROR: can't remove the resume file")
    async with masters(monkeypatch, {"web1": host}) as master:
        await chain(master, "first", "cmd")
        await master.until(lambda: host.ran)
        await master.chains.service.cancel(ChainRef("first"), "joe")
        host.ends.set()

        async def refused() -> bool:
            return "could not remove run 1" in await note(master, "first")

        await master.until(refused)
        await chain(master, "second", "cmd")

        async def waits() -> bool:
            return "waits for a clean-up" in await note(master, "second")

        await master.until(waits)
        starts = [spec.fun for spec in host.ran].count(START)
        assert "waits for the clean-up of chain 'first'" in str(await shown(master, "second"))
        host.refuses = ""
        master.hand.advance(60)
        await master.chains.scheduler.tick()
        await master.until(lambda: [spec.fun for spec in host.ran].count(START) == starts + 1)
        assert "clean-up" not in await note(master, "second")


async def test_chain_waits_for_a_decision_when_the_machine_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host()
    async with masters(monkeypatch, {"web1": host}) as master:
        chain_id = await chain(master, "night", "cmd", "reboot", "cmd")
        await master.until(lambda: host.ran)
        host.machine_id, host.pending = "m2", {"actionchain_id": chain_id}
        await master.ssh.close()
        master.hand.advance(LEASE_SECONDS)
        await master.ssh.tick()
        await master.until(lambda: len(host.visits) > 2 and not master.ssh.visiting())
        said = await note(master, "night")
        assert "waits for a person" in said and "m2" in said
        assert len(host.ran) == 1
        tags = [event.tag for event in await master.events("catena/chain/*/host/*")]
        assert f"catena/chain/{chain_id}/host/web1/refused" in tags


async def test_agent_that_connects_during_a_visit_takes_over_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host()
    async with masters(monkeypatch, {"web1": host}) as master:
        first = await master.submit(tgt="web1")
        await master.until(lambda: host.ran)
        await master.ssh.tick()
        (agent,) = await master.connect("web1")
        second = await master.submit(tgt="web1")
        await agent.reconnect()
        # Its visit goes on, and is not taken for lost because the agent knows nothing of it.
        assert (await master.states(first.jid))["web1"] == "received"
        assert not agent.orders()
        host.ends.set()
        await master.until(lambda: not master.ssh.visiting())
        await master.ssh.tick()
        await master.jobs.resend()
        await master.until(agent.orders)
        assert [order.jid for order in agent.orders()] == [second.jid]
        assert (await master.states(first.jid))["web1"] == "done"
        assert len(host.ran) == 1


async def test_second_master_takes_over_an_ssh_visit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = Host()
    url = f"sqlite:///{tmp_path}/both.db"
    async with masters(monkeypatch, {"web1": host}, database=url) as one:
        async with masters(monkeypatch, {"web1": host}, database=url) as two:
            done = await one.submit(tgt="web1")
            await one.until(lambda: host.ran)
            # Both look at the same store: either may have been there first.
            other = two if one.ssh.visiting() else one
            for _ in range(3):
                await other.ssh.tick()
            assert len(host.visits) == 1
            # The first one is gone without a word: its claim runs out.
            other.hand.advance(LEASE_SECONDS + 1)
            await other.ssh.tick()
            await other.until(lambda: len(host.visits) == 2)
            host.ends.set()
            await other.until(lambda: not other.ssh.visiting())
            assert (await other.states(done.jid))["web1"] == "done"


async def _state(master: Bench) -> str:
    query = sa.select(SSH_HOSTS.c.state).where(SSH_HOSTS.c.id == "web1")
    return str(await master.store.read(lambda conn: conn.execute(query).scalar_one()))


async def test_visit_ends_without_a_trace_when_its_lease_was_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = Host()
    url = f"sqlite:///{tmp_path}/both.db"
    async with masters(monkeypatch, {"web1": host}, database=url) as one:
        async with masters(monkeypatch, {"web1": host}, database=url) as two:
            await one.submit(tgt="web1")
            await one.until(lambda: host.ran)
            first, second = (one, two) if one.ssh.visiting() else (two, one)
            second.hand.advance(LEASE_SECONDS + 1)
            await second.ssh.tick()
            await second.until(lambda: len(host.visits) == 2)
            # The first master is late with its renewal.
            first.hand.advance(LEASE_EVERY + 1)
            await first.until(lambda: not first.ssh.visiting())
            assert second.ssh.visiting() == ["web1"]
            assert await _state(second) == "visited"
            host.ends.set()
            await second.until(lambda: not second.ssh.visiting())
            assert await _state(second) == "resting"


def _fail_to_store(*_: object) -> None:
    raise StoreUnavailableError


@pytest.mark.parametrize("way", ["fails", "hangs"])
async def test_visit_ends_before_a_lease_that_cannot_be_renewed(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    for name, seconds in (("LEASE_SECONDS", 6.0), ("STOP_SECONDS", 2.0), ("HOLD_SECONDS", 0.05)):
        monkeypatch.setattr(worker, name, seconds)
    for name in ("LEASE_EVERY", "RENEW_AGAIN_SECONDS"):
        monkeypatch.setattr(worker, name, 0.1)
    host, works = Host(), threading.Event()

    def renew(*_: object) -> None:
        if way == "hangs":
            works.wait(PATIENCE_SECONDS)
        raise StoreUnavailableError

    async with masters(monkeypatch, {"web1": host}) as master:
        done = await master.submit(tgt="web1")
        await master.until(lambda: host.ran)
        with monkeypatch.context() as patch:
            patch.setattr(leases, "renew", renew)
            await until(lambda: host.left, "the end of the visit")
            works.set()

        async def is_away() -> bool:
            return await _state(master) == "away"

        await master.until(is_away)
        host.ends.set()
        master.hand.advance(60)
        await master.ssh.tick()
        await master.until(lambda: len(host.visits) == 2 and not master.ssh.visiting())
        assert (await master.states(done.jid))["web1"] == "done"


async def test_visit_whose_end_cannot_be_stored_is_repeated_after_its_lease(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host()
    async with masters(monkeypatch, {"web1": host}) as master:
        done = await master.submit(tgt="web1")
        await master.until(lambda: host.ran)
        with monkeypatch.context() as patch:
            patch.setattr(leases, "release", _fail_to_store)
            host.ends.set()
            await master.until(lambda: "is not stored" in caplog.text)
        assert (await master.states(done.jid))["web1"] == "done"
        assert await _state(master) == "visited"
        master.hand.advance(LEASE_SECONDS + 1)
        await master.ssh.tick()

        async def rests() -> bool:
            await master.ssh.tick()
            return await _state(master) == "resting"

        await master.until(rests)


async def test_findings_of_a_visit_that_lost_its_lease_are_not_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = Host(reports=asyncio.Event())
    url = f"sqlite:///{tmp_path}/both.db"
    async with masters(monkeypatch, {"web1": host}, database=url) as one:
        async with masters(monkeypatch, {"web1": host}, database=url) as two:
            await one.submit(tgt="web1")
            await one.until(lambda: host.visits)
            late, host.reports = host.reports, asyncio.Event()
            host.reports.set()
            first, second = (one, two) if one.ssh.visiting() else (two, one)
            host.boot_id = "b2"
            second.hand.advance(LEASE_SECONDS + 1)
            await second.ssh.tick()
            await second.until(lambda: host.ran)
            late.set()
            await first.until(lambda: not first.ssh.visiting())
            query = sa.select(SSH_HOSTS.c.boot_id).where(SSH_HOSTS.c.id == "web1")
            read = second.store.read(lambda conn: conn.execute(query).scalar_one())
            assert await read == "b2"
            host.ends.set()
            await second.until(lambda: not second.ssh.visiting())


async def test_host_whose_visit_has_no_lease_is_visited_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host()
    async with masters(monkeypatch, {"web1": host}) as master:
        row = {"id": "web1", "state": "visited", "since": 0.0}
        await master.store.write(lambda conn: conn.execute(sa.insert(SSH_HOSTS).values(row)))
        await master.ssh.tick()
        await master.until(lambda: host.visits and not master.ssh.visiting())
        assert await _state(master) == "resting"


async def test_visit_that_lost_its_lease_rejects_no_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = Host(reports=asyncio.Event())
    url = f"sqlite:///{tmp_path}/both.db"
    messages = ssh_hosts.Visit.messages

    async def troubled(self: ssh_hosts.Visit) -> AsyncIterator[Any]:
        if self._reports is not late:
            async for one in messages(self):
                yield one
            return
        await late.wait()
        yield m.Troubled("fault", "python is missing on the host")

    async with (
        masters(monkeypatch, {"web1": host}, database=url) as one,
        masters(monkeypatch, {"web1": host}, database=url) as two,
    ):
        late = host.reports
        monkeypatch.setattr(ssh_hosts.Visit, "messages", troubled)
        done = await one.submit(tgt="web1")
        await one.until(lambda: host.visits)
        host.reports = asyncio.Event()
        first, second = (one, two) if one.ssh.visiting() else (two, one)
        second.hand.advance(LEASE_SECONDS + 1)
        await second.ssh.tick()
        await second.until(lambda: len(host.visits) == 2)
        late.set()
        await first.until(lambda: not first.ssh.visiting())
        assert (await second.states(done.jid))["web1"] != "rejected"
        host.reports.set()
        host.ends.set()
        await second.until(lambda: host.ran and not second.ssh.visiting())
        assert (await second.states(done.jid))["web1"] == "done"
