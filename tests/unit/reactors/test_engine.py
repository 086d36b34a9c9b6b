from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from catena.core.errors import TryLaterError
from catena.core.events import Event
from catena.reactors.engine import QUEUES, TRIES, Reactor
from catena.reactors.reaction import Reaction
from catena.reactors.rules import Rule
from tests.support.waiting import run_ready_tasks
from tests.unit.reactors.doubles import EchoRenderer, Recorder, TableBus
from tests.unit.reactors.kept import KeptInMemory


async def run_engine(bus: TableBus, recorder: Recorder, meanwhile: Any = None) -> Reactor:
    engine = Reactor([Rule("go/*", ("f.sls",))], bus, EchoRenderer(), recorder, KeptInMemory())
    task = asyncio.create_task(engine.run())
    await run_ready_tasks()
    if meanwhile:
        meanwhile()
        await run_ready_tasks()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return engine


async def test_shipped_rule_does_not_wait_for_events_of_site_rules() -> None:
    bus, recorder = TableBus(), Recorder()

    held = asyncio.Event()
    # More queues than are served at a time, one of them of the same minion.
    for number in range(QUEUES + 1):
        recorder.hold[f"go/{number}"] = held
        bus.add(f"go/{number}", f"web{number}")
    bus.add("go/start", "web0")
    rules = [Rule("*/start", ("shipped.sls",), shipped=True), Rule("go/*", ("f.sls",))]
    engine = Reactor(rules, bus, EchoRenderer(), recorder, KeptInMemory())
    task = asyncio.create_task(engine.run())
    await run_ready_tasks()
    assert recorder.done == ["go/start"]
    assert engine.status().position == 0
    held.set()
    await run_ready_tasks()
    # The site rule for the same event waited for the earlier event of its minion.
    assert recorder.done.count("go/start") == 2
    assert recorder.done.index("go/0") < len(recorder.done) - 1
    assert engine.status().position == bus.last
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_events_without_a_rule_cause_no_reaction() -> None:
    bus, recorder = TableBus(), Recorder()
    bus.add("go/1")
    bus.add("stay/1")
    await run_engine(bus, recorder)
    assert recorder.done == ["go/1"]


async def test_events_of_one_minion_keep_their_order_while_another_waits() -> None:
    bus, recorder = TableBus(), Recorder()

    recorder.hold["go/a1"] = asyncio.Event()
    for tag, source in [("go/a1", "a"), ("go/a2", "a"), ("go/b1", "b")]:
        bus.add(tag, source)
    seen: list[list[str]] = []

    def release() -> None:
        seen.append(list(recorder.done))
        recorder.hold["go/a1"].set()

    await run_engine(bus, recorder, release)
    assert seen == [["go/b1"]]
    assert recorder.done == ["go/b1", "go/a1", "go/a2"]


async def test_cursor_stays_before_unfinished_events_and_keys_repeat_after_a_restart() -> None:
    bus, first = TableBus(), Recorder()

    first.hold["go/2"] = asyncio.Event()
    for number, source in [(1, "a"), (2, "b"), (3, "c")]:
        bus.add(f"go/{number}", source)
    await run_engine(bus, first)
    assert sorted(first.done) == ["go/1", "go/3"]
    assert bus.saved == 1
    second = Recorder()
    await run_engine(bus, second)
    assert second.done == ["go/2", "go/3"]
    assert second.keys[1] == first.keys[1]
    assert bus.saved == 3


async def test_failure_causes_an_event_and_does_not_stop_other_events() -> None:
    bus, recorder = TableBus(), Recorder()
    for tag in ("go/broken", "go/refused", "go/fine"):
        bus.add(tag)
    engine = await run_engine(bus, recorder)
    assert recorder.done == ["go/fine"]
    assert [data["error"] for _, data in bus.fired] == ["line 3 is wrong", "not allowed"]
    assert engine.status().failures == 2
    assert engine.status().lag == 0


async def test_events_caused_by_the_reactor_start_no_reaction() -> None:
    bus, recorder = TableBus(), Recorder()
    bus.add("go/1", user="Reactor")
    bus.add("catena/reactor/failed")
    await run_engine(bus, recorder)
    assert recorder.done == []


class FailingBus(TableBus):
    """An event table that can't be written while `down`."""

    down = True

    async def advance(self, consumer: str, seq: int) -> None:
        if self.down:
            raise TryLaterError("no space")
        await super().advance(consumer, seq)

    async def fire(self, tag: str, data: Mapping[str, Any], source: str = "") -> Event:
        if self.down:
            raise TryLaterError("no space")
        return await super().fire(tag, data, source)


async def test_failure_event_that_cannot_be_stored_does_not_stop_its_queue() -> None:
    bus, recorder = FailingBus(), Recorder()
    bus.add("go/refused", "a")
    bus.add("go/fine", "a")
    engine = await run_engine(bus, recorder)
    assert recorder.done == ["go/fine"]
    assert engine.status().lag == 0


async def test_temporarily_impossible_reaction_is_performed_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("catena.reactors.engine.AGAIN_SECONDS", 0)
    answers = iter([TryLaterError("locked"), TryLaterError("locked"), None])

    class Busy(Recorder):
        async def perform(self, reaction: Reaction, key: str) -> None:
            error = next(answers)
            if error is not None:
                raise error
            await super().perform(reaction, key)

    bus, recorder = TableBus(), Busy()
    bus.add("go/1")
    engine = await run_engine(bus, recorder)
    assert recorder.done == ["go/1"]
    assert engine.status().failures == 0


class DyingRenderer(EchoRenderer):
    """A renderer whose worker process dies during the first *deaths* renderings."""

    def __init__(self, deaths: int) -> None:
        self.left = deaths

    async def render(self, file: str, tag: str, data: Mapping[str, Any]) -> Sequence[Reaction]:
        if self.left:
            self.left -= 1
            raise TryLaterError("the worker process died")
        return await super().render(file, tag, data)


@pytest.mark.parametrize("shipped", [True, False])
@pytest.mark.parametrize("missing", [0, 1])
async def test_file_is_rendered_again_after_its_worker_died(
    shipped: bool, missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catena.reactors.engine.AGAIN_SECONDS", 0)
    bus, recorder = TableBus(), Recorder()
    bus.add("go/1")
    # The last allowed rendering succeeds, or one more would be needed.
    renderer = DyingRenderer(TRIES[shipped] - 1 + missing)
    engine = Reactor(
        [Rule("go/*", ("f.sls",), shipped=shipped)], bus, renderer, recorder, KeptInMemory()
    )

    task = asyncio.create_task(engine.run())
    for _ in range(5):
        await run_ready_tasks()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert recorder.done == ([] if missing else ["go/1"])
    assert [data["error"] for _, data in bus.fired] == ["the worker process died"] * missing
    assert engine.status().lag == 0


async def test_position_is_saved_after_the_store_was_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("catena.reactors.engine.SAVE_SECONDS", 0)
    bus = FailingBus()
    bus.add("stay/1")
    saved: list[int] = []

    engine = Reactor([], bus, EchoRenderer(), Recorder(), KeptInMemory())
    task = asyncio.create_task(engine.run())
    await run_ready_tasks()
    bus.down = False
    await run_ready_tasks()
    saved.append(bus.saved)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert saved == [1]


async def test_second_run_serves_the_queues_of_a_cancelled_one() -> None:
    bus, recorder = TableBus(), Recorder()
    bus.add("go/1", "a")

    recorder.hold["go/1"] = asyncio.Event()
    engine = Reactor([Rule("go/*", ("f.sls",))], bus, EchoRenderer(), recorder, KeptInMemory())
    for _ in range(2):
        task = asyncio.create_task(engine.run())
        await run_ready_tasks()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        recorder.hold["go/1"].set()
    assert recorder.done == ["go/1"]
