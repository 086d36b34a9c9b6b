"""Requests of minions and operators, and a master on PostgreSQL."""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catena.client.requests import keys, minions, runners
from catena.client.requests.chains import ChainDocument, ChainRef, ChainSchedule
from catena.client.requests.keys import KeyFinger
from catena.client.requests.minions import MinionList, MinionShow
from catena.client.requests.runners import RunnerCall
from catena.core.errors import NotFoundError, UsageError
from catena.core.job import JobReturn
from catena.master import daemon
from catena.master.gate import pillars
from catena.master.requests.blobs import Blobs
from catena.master.store.database import Store
from catena.transport.messages import (
    ChunkReply,
    ChunkRequest,
    Failure,
    JobRejected,
    JobReturned,
    ManifestReply,
    ManifestRequest,
    PillarReply,
    PillarRequest,
    ReturnStored,
)
from catena.transport.return_parts import split_return
from tests.integration.master.bench import Script, T, a_master, a_return
from tests.support.postgres_server import PostgresServer
from tests.support.waiting import PATIENCE_SECONDS


async def last(script: Script, kind: type[T]) -> T:
    """Wait for an answer that is made in a thread or process of the master; return the newest."""
    return (await script.receives(kind))[-1]


async def test_return_in_several_parts_is_acked_once_stored() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        done = await master.submit()
        ret = JobReturn(done.jid, "test.ping", (), True, 0, "x" * 1_500_000, 1.0, 1.0)
        for part in split_return(ret):
            await web1.say(part, "bulk")
        assert await last(web1, ReturnStored) == ReturnStored(done.jid)
        shown = await master.views.show(done.jid)
        ret_shown = shown.minions["web1"].ret
        assert ret_shown is not None and len(ret_shown.value) == 1_500_000
        (event,) = await master.events(f"salt/job/{done.jid}/ret/web1")
        assert event.data["return"] is None
        assert event.data["return_bytes"] > 1_500_000


async def test_return_above_the_limit_is_refused_with_a_reason() -> None:
    async with a_master(return_limit_mib=1) as master:
        (web1,) = await master.connect("web1")
        done = await master.submit()
        ret = JobReturn(done.jid, "test.ping", (), True, 0, "x" * 2_500_000, 1.0, 1.0)
        await web1.say(split_return(ret)[0], "bulk")
        assert "more than 1048576 bytes" in (await last(web1, Failure)).message


async def test_minion_reads_the_file_list_and_a_file() -> None:
    async with a_master() as master:
        Path(master.settings.file_roots["base"][0], "a.sls").write_text("x: {test.nop: []}\n")
        (web1,) = await master.connect("web1")
        await web1.say(ManifestRequest("base"), "bulk")
        listed: ManifestReply = await last(web1, ManifestReply)
        await web1.say(ChunkRequest("base", "", listed.sha256, 0), "bulk")
        assert b"a.sls" in zlib.decompress((await last(web1, ChunkReply)).data)
        await web1.say(ChunkRequest("base", "../../etc/passwd", "a" * 64, 0), "bulk")
        await last(web1, Failure)


async def test_pillar_is_compiled_for_the_minion_of_the_connection() -> None:
    async with a_master() as master:
        root = Path(master.settings.pillar_roots["base"][0])
        (root / "top.sls").write_text("base:\n  web1:\n    - web\n  db1:\n    - db\n")
        (root / "web.sls").write_text("role: web on {{ grains['os'] }}\n")
        (root / "db.sls").write_text("role: db\nsecret: hidden\n")
        (web1,) = await master.connect("web1")
        await web1.say(PillarRequest())
        reply: PillarReply = await last(web1, PillarReply)
        assert (reply.pillar, reply.errors) == ({"role": "web on Debian"}, ())
        found = await master.targets.resolve("role:web*", "pillar")
        assert found == ("web1",)


async def test_runners_answer_as_in_salt_and_fire_their_events() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        await master.accept("db1")
        done = await master.submit("web1", args=(1,), kwargs={"a": 2})
        await web1.answer(done.jid, 42)
        run = master.reactor_front_end.ask

        async def runner(fun: str, *args: Any, **kwargs: Any) -> Any:
            return await run(runners.CALL, RunnerCall(fun, args, kwargs))

        assert await runner("manage.status") == {"up": ["web1"], "down": ["db1"]}
        assert await runner("manage.present") == ["web1"]
        assert await runner("jobs.lookup_jid", done.jid) == {"web1": 42}
        listed = (await runner("jobs.list_jobs"))[done.jid]
        assert listed["Arguments"] == [1, {"__kwarg__": True, "a": 2}]
        assert (await runner("jobs.exit_success", jid=done.jid)) == {"web1": True}
        assert await runner("event.send", "app/x", {"k": 1})
        assert [e.data for e in await master.events("app/x")] == [{"k": 1}]
        with pytest.raises(NotFoundError, match=r"did you mean 'manage\.status'"):
            await runner("manage.statsu")
        with pytest.raises(UsageError, match=r"jobs\.lookup_jid\(jid"):
            await runner("jobs.lookup_jid")
        ended = await master.events("salt/run/*/ret")
        assert ended[0].data["fun"] == "runner.manage.status"
        assert ended[0].data["success"] is True


async def test_minion_list_and_show_contain_presence_and_grains() -> None:
    async with a_master() as master:
        await master.connect("web1")
        await master.accept("db1")
        ask = master.reactor_front_end.ask
        rows = await ask(minions.LIST, MinionList())
        assert [(row.id, row.up) for row in rows] == [("db1", False), ("web1", True)]
        shown = await ask(minions.SHOW, MinionShow("web1"))
        assert shown.grains["os"] == "Debian"
        finger = await ask(keys.FINGER, KeyFinger())
        assert finger.master == master.pair.fingerprint


async def test_pillar_target_matches_all_minions_of_a_large_fleet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pillars, "KEPT", 1)

    async with a_master() as master:
        await master.connect("a", "b", "c")
        assert sorted(await master.pillars.pillars(("a", "b", "c"))) == ["a", "b", "c"]


async def test_housekeeping_continues_when_a_file_vanishes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, twice, swept = asyncio.get_running_loop(), asyncio.Event(), 0

    def sweep(blobs: Blobs) -> None:
        nonlocal swept
        swept += 1
        if swept == 2:
            loop.call_soon_threadsafe(twice.set)
        raise FileNotFoundError("partial")

    monkeypatch.setattr(Blobs, "sweep", sweep)
    monkeypatch.setattr(daemon, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(daemon, "PRUNE_SECONDS", 0.0)

    async with a_master(), asyncio.timeout(PATIENCE_SECONDS):
        await twice.wait()
    assert swept >= 2


async def test_master_works_on_postgresql(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    async with a_master(database=url) as master:
        assert master.store.dialect == "postgresql"
        (web1,) = await master.connect("web1")
        done = await master.submit(idempotency_key="k")
        await web1.answer(done.jid, {"a": 1})
        assert (await master.submit(idempotency_key="k")).jid == done.jid
        assert await master.states(done.jid) == {"web1": "done"}
        assert len(await master.events("salt/job/*")) == 2
    again = Store(url)
    await again.open()
    await again.close()


async def test_nul_in_texts_of_minions_is_stored_in_postgresql(postgres: PostgresServer) -> None:
    async with a_master(database=postgres.new_database()) as master:
        (web1,) = await master.connect("web1")
        refused = await master.submit()
        await web1.say(JobRejected(refused.jid, "no\0room"))
        assert await master.states(refused.jid) == {"web1": "rejected"}
        shown = (await master.views.show(refused.jid)).minions["web1"]
        assert shown.detail == "no\ufffdroom"

        action = {"tgt": "web1", "action": {"kind": "cmd", "data": {"cmd": "true"}}}
        document = ChainDocument("patch", (action,))
        chain = (await master.chains.service.apply(document, "anna")).id
        await master.chains.service.schedule(ChainSchedule("patch"), "anna")
        found = await web1.until(lambda: [order for order in web1.orders() if order.payload])
        view = await master.chains.service.show(ChainRef("patch"), "anna")
        number = view.minions[0].actions[0].action_id
        ident = f"mgr_actionchain_{chain}_action_{number}_chunk_1"
        row = {"result": False, "comment": "a\0b", "changes": {"stderr": "\0"}}
        ret = a_return(found[0].jid, {f"mgrcompat_|-{ident}_|-x_|-module_run": row})
        ret = replace(ret, fun="mgractionchains.start", success=False, retcode=2)
        await web1.say(JobReturned(ret))
        assert web1.got(ReturnStored) == [ReturnStored(ret.jid)]
        view = await master.chains.service.show(ChainRef("patch"), "anna")
        assert view.minions[0].actions[0].comment == "a\ufffdb"
