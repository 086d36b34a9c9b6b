from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from catena.master.executions import starts as agent_starts
from catena.master.executions.engine import AgentStart
from catena.master.executions.starts import CURSOR
from tests.integration.master.chains.bench import Bench, a_bench, key, ret, row
from tests.integration.master.chains.steps import REBOOT, START
from tests.support.waiting import PATIENCE_SECONDS

BOTH = ("web1", "web2")


async def arm(bench: Bench, chain: int, action: int, jid: str, minion: str) -> None:
    """Let the reboot of a minion be armed."""
    value = {key(chain, action, 1): row(True, "armed")}
    await bench.returns(ret(jid, START, value, boot_id=f"{minion}-boot-1"), minion)


async def both_wait(bench: Bench) -> None:
    """Begin a chain on both minions, and bring both to their reboot."""
    for minion in BOTH:
        await bench.greets(f"{minion}-boot-1", minion)
    chain = await bench.begin("patch", REBOOT)
    (jid,) = await bench.job_ids(START)
    view = await bench.show("patch")
    actions = {m["minion"]: m["actions"][0]["action_id"] for m in view["minions"]}
    for minion in BOTH:
        await arm(bench, chain, actions[minion], jid, minion)
        assert await bench.states("patch", minion) == ["RUNNING"]


async def test_simultaneous_start_events_prove_the_reboot_of_each_minion(tmp_path: Path) -> None:
    async with a_bench(tmp_path, BOTH) as bench:
        await both_wait(bench)
        starts = [await bench.greets(f"{minion}-boot-2", minion) for minion in BOTH]
        await bench.follows(*starts)
        assert [await bench.states("patch", minion) for minion in BOTH] == [["DONE"], ["DONE"]]
        assert await bench.bus.cursor(CURSOR) == starts[-1].seq


async def test_failed_start_event_does_not_affect_those_of_other_minions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_bench(tmp_path, BOTH) as bench:
        await both_wait(bench)
        starts = [await bench.greets(f"{minion}-boot-2", minion) for minion in BOTH]
        start_event = bench.chains.start_event

        def faulty(conn: sa.Connection, start: AgentStart) -> Sequence[Any]:
            if start.minion == "web1":
                raise ValueError("a fault")
            return start_event(conn, start)

        monkeypatch.setattr(bench.chains, "start_event", faulty)
        await bench.follows(*starts)
        assert await bench.states("patch", "web1") == ["RUNNING"]
        assert await bench.states("patch", "web2") == ["DONE"]
        assert await bench.bus.cursor(CURSOR) == starts[-1].seq


async def test_cursor_of_start_events_advances_over_other_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_starts, "UNSAVED", 3)

    async with a_bench(tmp_path) as bench:
        saved: asyncio.Queue[int] = asyncio.Queue()
        advance = bench.bus.advance

        async def noted_advance(consumer: str, seq: int) -> None:
            await advance(consumer, seq)
            saved.put_nowait(seq)

        monkeypatch.setattr(bench.bus, "advance", noted_advance)
        await bench.bus.cursor(CURSOR)
        following = asyncio.create_task(bench.agent_starts.run())
        last = 0
        for number in range(4):
            last = (await bench.bus.fire("app/x", {"n": number})).seq
        # The first is where a new consumer begins.
        seen = await asyncio.wait_for(saved.get(), PATIENCE_SECONDS)
        while seen < last - 2:
            seen = await asyncio.wait_for(saved.get(), PATIENCE_SECONDS)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert await bench.bus.cursor(CURSOR) >= last - 2
