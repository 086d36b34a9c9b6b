"""Answers that depend on grains wait for grains sent before the request."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import TryLaterError
from catena.master.minions import facts
from catena.transport.messages import GrainsUpdate, Hello, PillarReply, PillarRequest, Refused
from tests.integration.master.bench import Bench, Script, a_master
from tests.support.waiting import run_ready_tasks

TIMES = 40


def write_pillar(master: Bench) -> None:
    root = Path(master.settings.pillar_roots["base"][0])
    (root / "top.sls").write_text("base:\n  '*':\n    - role\n")
    (root / "role.sls").write_text("role: {{ grains.get('role', 'none') }}\n")


class SlowDisk:
    """Holds the store's writer until it is told to go on."""

    def __init__(self, master: Bench) -> None:
        self._may_go = threading.Event()
        self._held = master.store.post(lambda conn: self._may_go.wait(60))

    async def go_on(self) -> None:
        self._may_go.set()
        await self._held


def hello(script: Script, **grains: Any) -> Hello:
    return Hello(
        id=script.name,
        machine_id=script.machine,
        boot_id=script.boot,
        session=script.session,
        version="1",
        role="minion",
        first=True,
        grains={"id": script.name, **grains},
        open_jobs=(),
    )


async def test_pillar_is_compiled_from_grains_received_before_the_request() -> None:
    async with a_master() as master:
        write_pillar(master)
        (web1,) = await master.connect("web1")
        for number in range(TIMES):
            assert web1.link.send("control", GrainsUpdate({"role": f"r{number}"}))
            assert web1.link.send("control", PillarRequest())
            await web1.receives(PillarReply, number + 1)
        found = [reply.pillar["role"] for reply in await web1.receives(PillarReply, TIMES)]
        assert found == [f"r{number}" for number in range(TIMES)]


@pytest.mark.parametrize("role", ["minion", "caller"])
async def test_pillar_is_compiled_from_the_grains_of_the_first_hello(role: str) -> None:
    async with a_master() as master:
        write_pillar(master)
        web1 = await master.accept("web1")
        web1.pump()
        disk = SlowDisk(master)
        greeting = hello(web1, role="first")
        assert web1.link.send("control", type(greeting)(**{**vars(greeting), "role": role}))
        assert web1.link.send("control", PillarRequest())
        await run_ready_tasks(1)
        await disk.go_on()
        (reply,) = await web1.receives(PillarReply)
        assert (reply.pillar, reply.errors) == ({"role": "first"}, ())


async def test_targets_and_lists_wait_until_received_grains_are_stored() -> None:
    async with a_master() as master:
        write_pillar(master)
        (web1,) = await master.connect("web1")
        assert await master.targets.resolve("role:web", "grain") == ()
        assert await master.targets.resolve("role:web", "pillar") == ()
        disk = SlowDisk(master)
        assert web1.link.send("control", GrainsUpdate({"role": "web"}))
        asked: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(master.targets.resolve("role:web", "grain")),
            asyncio.ensure_future(master.targets.resolve("role:web", "pillar")),
            asyncio.ensure_future(master.minions.show("web1")),
        ]
        await run_ready_tasks(1)
        await disk.go_on()
        by_grain, by_pillar, shown = await asyncio.gather(*asked)
        assert (by_grain, by_pillar) == (("web1",), ("web1",))
        assert shown.grains["role"] == "web"


async def test_pillar_is_refused_when_the_grains_are_not_stored_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_master() as master:
        write_pillar(master)
        master.facts._patience = 0.05
        (web1,) = await master.connect("web1")
        disk = SlowDisk(master)
        assert web1.link.send("control", GrainsUpdate({"role": "web"}))
        assert web1.link.send("control", PillarRequest())
        (reply,) = await web1.receives(PillarReply)
        assert reply.pillar == {}
        assert "grains that web1 reported are not stored" in reply.errors[0]
        with pytest.raises(TryLaterError, match="not stored"):
            await master.targets.resolve("role:web", "grain")
        await disk.go_on()


async def test_session_ends_when_its_grains_cannot_be_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> None:
        raise TryLaterError("no room")

    async with a_master() as master:
        (web1,) = await master.connect("web1")
        with monkeypatch.context() as patch:
            patch.setattr("catena.master.minions.rows.grains", refuse)
            await web1.say(GrainsUpdate({"role": "web"}))
        assert web1.got(Refused)[-1].code == "busy"
        assert "web1" not in master.sessions


async def test_stored_facts_are_not_waited_for() -> None:
    held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    known = facts.Facts(patience=0.0)
    known.coming("web1", held)
    await known.settled("db1")
    held.set_result(None)
    await run_ready_tasks(1)
    await known.settled("web1")
    await known.settled()
    assert known.changes("web1") == 1
