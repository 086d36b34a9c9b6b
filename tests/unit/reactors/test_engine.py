from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from catena.core.errors import TryLaterError
from catena.core.events import Event
from catena.reactors.engine import LANES, TRIES, Reactor
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


async def test_a_shipped_rule_waits_for_no_events_of_other_rules() -> None:
    bus, recorder = TableBus(), Recorder()

    held = asyncio.Event()
    # More than are served at a time, and one of the minion itself.
    for number in range(LANES + 1):
        recorder.hold[f"go/{number}"] = held
        bus.add(f"go/{number}", f"web{number}")
    bus.add("go/start", "web0")
    rules = [Rule("*/start", ("shipped.sls",), ahead=True), Rule("go/*", ("f.sls",))]
    engine = Reactor(rules, bus, EchoRenderer(), recorder, KeptInMemory())
    task = asyncio.create_task(engine.run())
    await run_ready_tasks()
    assert recorder.done == ["go/start"]
    assert engine.status().position == 0
    held.set()
    await run_ready_tasks()
    # By people's own rule it was behind the other one of its minion.
    assert recorder.done.count("go/start") == 2
    assert recorder.done.index("go/0") < len(recorder.done) - 1
    assert engine.status().position == bus.last
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_only_events_of_a_rule_are_reacted_to() -> None:
    bus, recorder = TableBus(), Recorder()
    bus.add("go/1")
    bus.add("stay/1")
    await run_engine(bus, recorder)
    assert recorder.done == ["go/1"]


async def test_one_minions_events_keep_their_order_while_another_waits() -> None:
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


async def test_the_cursor_stays_before_what_is_not_done_and_keys_repeat_after_a_restart() -> None:
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


async def test_failures_are_events_and_the_rest_goes_on() -> None:
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
    """A table that can't be written while `down`."""

    down = True

    async def advance(self, consumer: str, seq: int) -> None:
        if self.down:
            raise TryLaterError("no space")
        await super().advance(consumer, seq)

    async def fire(self, tag: str, data: Mapping[str, Any], source: str = "") -> Event:
        if self.down:
            raise TryLaterError("no space")
        return await super().fire(tag, data, source)


async def test_a_failure_that_cant_be_stored_does_not_end_its_minions_lane() -> None:
    bus, recorder = FailingBus(), Recorder()
    bus.add("go/refused", "a")
    bus.add("go/fine", "a")
    engine = await run_engine(bus, recorder)
    assert recorder.done == ["go/fine"]
    assert engine.status().lag == 0


async def test_a_reaction_that_cant_be_stored_now_is_done_later(
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
    """Its process dies the first so many times."""

    def __init__(self, deaths: int) -> None:
        self.left = deaths

    async def render(self, file: str, tag: str, data: Mapping[str, Any]) -> Sequence[Reaction]:
        if self.left:
            self.left -= 1
            raise TryLaterError("the worker process died")
        return await super().render(file, tag, data)


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("missing", [0, 1])
async def test_a_file_over_which_a_worker_died_is_rendered_again(
    ahead: bool, missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catena.reactors.engine.AGAIN_SECONDS", 0)
    bus, recorder = TableBus(), Recorder()
    bus.add("go/1")
    # The last of the renderings succeeds, or would have been the next.
    renderer = DyingRenderer(TRIES[ahead] - 1 + missing)
    engine = Reactor(
        [Rule("go/*", ("f.sls",), ahead=ahead)], bus, renderer, recorder, KeptInMemory()
    )

    task = asyncio.create_task(engine.run())
    for _ in range(5):
        await run_ready_tasks()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert recorder.done == ([] if missing else ["go/1"])
    assert [data["error"] for _, data in bus.fired] == ["the worker process died"] * missing
    assert engine.status().lag == 0


async def test_the_position_is_saved_again_after_a_time_when_it_could_not(
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


async def test_a_second_run_serves_the_lanes_that_the_first_was_stopped_in() -> None:
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
