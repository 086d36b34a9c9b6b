"""Steps of running jobs: limits of what a master stores."""

from __future__ import annotations

import pytest

from catena.client.replies.jobs import JobProgressItem
from catena.master.jobs import progress_rows, step_store
from tests.integration.master.bench import a_master


async def test_steps_beyond_their_limit_are_shown_live_and_not_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step_store, "STEPS_BYTES", 5000)
    async with a_master() as bench:
        (minion,) = await bench.connect("m1")
        done = await bench.submit("m1", fun="state.apply")
        await minion.receive(done.jid)
        items = bench.views.follow(done.jid)
        seen = [await anext(items) for _ in range(2)]
        for seq in range(1, 9):
            await minion.step(done.jid, seq, "state", text="x" * 1000)
        # Stored or not, a resent step is shown once.
        await minion.step(done.jid, 8, "state", text="x" * 1000)
        await minion.step(done.jid, 0, "state", text="x")
        await minion.answer(done.jid)
        seen += [item async for item in items]
        shown = [item.seq for item in seen if isinstance(item, JobProgressItem)]
        assert shown == list(range(1, 9))
        detail = await bench.views.show(done.jid)
        assert [step.seq for step in detail.minions["m1"].steps or ()] == [1, 2, 3, 4]


async def test_size_of_stored_steps_is_found_again_by_the_next_master() -> None:
    async with a_master() as bench:
        (minion,) = await bench.connect("m1")
        done = await bench.submit("m1", fun="state.apply")
        await minion.receive(done.jid)
        await minion.step(done.jid, 1, "state", text="x" * 1000)
        await minion.step(done.jid, 2, "state", text="x" * 1000)
        size = await bench.store.read(lambda conn: progress_rows.size(conn, done.jid, "m1"))
        assert 2000 < size < 2100
