"""Failed reactions are kept and retried after pauses without blocking others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from catena.core.errors import CatenaError, NotFoundError, TryLaterError
from catena.core.events import Event
from catena.reactors import engine as engine_module
from catena.reactors import retries as retries_module
from catena.reactors.engine import Reactor
from catena.reactors.reaction import Reaction, ReactionKind
from catena.reactors.retries import FILES, Failed, Retries, pause
from catena.reactors.rules import Rule
from tests.support.waiting import run_ready_tasks, until
from tests.unit.reactors.doubles import EchoRenderer, Recorder, TableBus
from tests.unit.reactors.kept import KeptInMemory

RULES = [Rule("*/start", ("shipped.sls",), shipped=True), Rule("go/*", ("f.sls",))]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries_module, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(retries_module, "STORE_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(engine_module, "AGAIN_SECONDS", 0.0)


class Faulty(Recorder):
    """Raises the given errors one after the other, then performs reactions."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)

    async def perform(self, reaction: Reaction, key: str) -> None:
        if self.errors:
            raise self.errors.pop(0)
        await super().perform(reaction, key)


class FaultyRenderer(EchoRenderer):
    """Raises the given errors for tags with `bad`, then renders."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    async def render(self, file: str, tag: str, data: Mapping[str, Any]) -> Sequence[Reaction]:
        if self.errors and "bad" in tag:
            raise self.errors.pop(0)
        return await super().render(file, tag, data)


def a_failed(file: str = "f.sls", row: int = 0, source: str = "", **more: Any) -> Failed:
    event = Event(row + 1, f"go/{row}", {}, "", source)
    return Failed(event, file, Reaction("x", ReactionKind.runner, "x.y"), "broken", 0.0, **more)


async def run(engine: Reactor, ready: Callable[[], bool]) -> None:
    """Run *engine* until the condition is true."""
    task = asyncio.create_task(engine.run())
    await until(ready)
    await run_ready_tasks()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    "errors", [[ValueError("year 10126 is out of range")], [KeyError("x"), OSError("y")]]
)
async def test_reaction_is_done_later_after_an_unexpected_error(errors: list[Exception]) -> None:
    bus, recorder, kept = TableBus(), Faulty(*errors), KeptInMemory()
    bus.add("go/1")
    engine = Reactor(RULES, bus, EchoRenderer(), recorder, kept)
    await run(engine, lambda: bool(recorder.done) and not kept.rows)
    assert recorder.done == ["go/1"]
    ((tag, told),) = bus.fired
    assert tag == "catena/reactor/failed" and type(errors[0]).__name__ in told["error"]
    assert told["again"] > 0
    assert (kept.rows, engine.status().waiting, engine.status().lag) == ({}, 0, 0)


@pytest.mark.parametrize(
    "error", [CatenaError("f.sls line 3"), KeyError("x"), RuntimeError("can't fork")]
)
async def test_file_is_rendered_later_when_that_failed(error: Exception) -> None:
    bus, recorder, kept = TableBus(), Recorder(), KeptInMemory()
    bus.add("go/bad", "web1")
    bus.add("go/fine", "web1")
    engine = Reactor(RULES, bus, FaultyRenderer(error), recorder, kept)
    await run(engine, lambda: len(recorder.done) == 2)
    assert recorder.done == ["go/fine", "go/bad"]


async def test_refused_reaction_is_not_tried_again() -> None:
    bus, recorder, kept = TableBus(), Recorder(), KeptInMemory()
    bus.add("go/refused")
    engine = Reactor(RULES, bus, EchoRenderer(), recorder, kept)
    await run(engine, lambda: bool(bus.fired))
    assert [told["again"] for _, told in bus.fired] == [0.0]
    assert kept.rows == {}


async def test_reaction_of_a_dying_worker_lets_the_next_event_of_its_minion_pass() -> None:
    bus, kept = TableBus(), KeptInMemory()
    recorder = Faulty(*[TryLaterError("a worker process died")] * 3)
    bus.add("go/1", "web1")
    bus.add("go/2", "web1")
    engine = Reactor(RULES, bus, EchoRenderer(), recorder, kept)
    await run(engine, lambda: len(recorder.done) == 2)
    assert recorder.done == ["go/2", "go/1"]


async def test_failed_reaction_is_done_by_the_next_master_with_the_same_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retries_module, "FIRST_SECONDS", 3600.0)
    bus, kept = TableBus(), KeptInMemory()
    bus.add("go/1")
    first = Reactor(RULES, bus, EchoRenderer(), Faulty(ValueError("x")), kept, lambda: 1000.0)
    await run(first, lambda: bool(kept.rows))
    assert bus.saved == 1
    (row,) = kept.rows.values()
    assert (row.attempts, row.due) == (1, 4600.0)
    recorder = Recorder()
    second = Reactor(RULES, bus, EchoRenderer(), recorder, kept, lambda: 4601.0)
    await run(second, lambda: not kept.rows)
    assert recorder.keys == [row.key] and kept.rows == {}


async def test_wait_is_no_longer_than_its_pause_when_the_clock_was_set_back() -> None:
    bus, kept, recorder = TableBus(), KeptInMemory(), Recorder()
    kept.rows[1] = a_failed(due=1e9, id=1)
    engine = Reactor(RULES, bus, EchoRenderer(), recorder, kept, lambda: 1000.0)
    await run(engine, lambda: not kept.rows)
    assert recorder.done == ["x"]


async def test_shipped_file_that_an_upgrade_moved_is_found_by_its_name() -> None:
    bus, kept, recorder = TableBus(), KeptInMemory(), Recorder()
    kept.rows[1] = replace(a_failed("/old/shipped.sls", id=1), reaction=None, shipped=True)
    kept.rows[2] = replace(a_failed("/own/shipped.sls", id=2), reaction=None)
    files = []

    class Renderer(EchoRenderer):
        async def render(self, file: str, tag: str, data: Mapping[str, Any]) -> Any:
            files.append(file)
            return await super().render(file, tag, data)

    engine = Reactor(RULES, bus, Renderer(), recorder, kept)
    await run(engine, lambda: not kept.rows)
    assert sorted(files) == ["/own/shipped.sls", "shipped.sls"]


@pytest.mark.parametrize(("shipped", "longest"), [(True, 60.0), (False, 3600.0)])
def test_pause_doubles_up_to_its_limit(
    shipped: bool, longest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries_module, "FIRST_SECONDS", 5.0)
    assert [pause(n, shipped) for n in (1, 2, 3, 4)] == [5.0, 10.0, 20.0, 40.0]
    assert pause(40, shipped) == pause(10**6, shipped) == longest


async def test_reactions_of_people_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries_module, "FIRST_SECONDS", 3600.0)
    monkeypatch.setattr(retries_module, "KEPT_LIMIT", 2)
    bus, kept = TableBus(), KeptInMemory()
    for number in range(4):
        bus.add(f"go/{number}")
    bus.add("a/start")
    engine = Reactor(RULES, bus, EchoRenderer(), Faulty(*[ValueError("x")] * 5), kept)
    await run(engine, lambda: len(bus.fired) == 5)
    assert sorted(row.event.tag for row in kept.rows.values()) == ["a/start", "go/0", "go/1"]
    assert [told["again"] > 0 for _, told in bus.fired].count(False) == 2


async def test_reactions_of_people_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries_module, "FIRST_SECONDS", 3600.0)
    monkeypatch.setattr(retries_module, "KEPT_BYTES", 150)

    async def attempt(failed: Failed) -> None:
        return

    async with retrying(attempt) as (retries, _kept):
        for row, shipped in enumerate((True, False, False)):
            assert not retries.is_full()
            await retries.add(a_failed(row=row, size=100, shipped=shipped))
        assert retries.is_full()
        await retries.load(lambda failed: failed)
        assert retries.is_full()
        retries.hurry(2)
        await run_ready_tasks()
        assert not retries.is_full()


@asynccontextmanager
async def retrying(
    attempt: Callable[[Failed], Awaitable[None]],
) -> AsyncIterator[tuple[Retries, KeptInMemory]]:
    kept = KeptInMemory()
    retries = Retries(kept, attempt, lambda: 0.0)
    task = asyncio.create_task(retries.run())
    try:
        yield retries, kept
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_file_that_hangs_delays_no_other() -> None:
    done: list[str] = []
    never = 0

    async def attempt(failed: Failed) -> None:
        nonlocal never
        if failed.file == "hangs":
            never += 1
            await asyncio.Event().wait()
        done.append(failed.file)

    async with retrying(attempt) as (retries, kept):
        for row in range(FILES + 2):
            await retries.add(a_failed("hangs", row))
        await retries.add(a_failed("fine", 100))
        await run_ready_tasks()
        assert (done, never, len(kept.rows)) == (["fine"], 1, FILES + 2)


async def test_discarded_reaction_is_tried_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries_module, "FIRST_SECONDS", 3600.0)
    tried: list[int] = []

    async def attempt(failed: Failed) -> None:
        tried.append(failed.id)

    async with retrying(attempt) as (retries, kept):
        for row in range(3):
            await retries.add(a_failed(row=row))
        assert (await retries.discard(2)).event.seq == 2
        with pytest.raises(NotFoundError, match="no reaction 2 waits"):
            await retries.discard(2)
        with pytest.raises(NotFoundError, match="no reaction 9 waits"):
            retries.hurry(9)
        assert retries.hurry(3) == 1
        await run_ready_tasks()
        assert (tried, list(kept.rows)) == ([3], [1])
        assert retries.hurry() == 1
        await run_ready_tasks()
        assert (tried, kept.rows) == ([3, 1], {})


async def test_reaction_that_was_hurried_often_is_tried_once_and_planned_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retries_module, "FIRST_SECONDS", 3600.0)
    tried: list[int] = []

    async def attempt(failed: Failed) -> None:
        tried.append(failed.attempts)
        raise OSError("still broken")

    async with retrying(attempt) as (retries, _kept):
        await retries.add(a_failed())
        for _ in range(3):
            for _ in range(10):
                retries.hurry()
            await run_ready_tasks()
        assert tried == [1, 2, 3]
        assert [failed.attempts for failed in retries.waiting()] == [4]


async def test_reaction_that_is_discarded_while_it_is_tried_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retries_module, "FIRST_SECONDS", 3600.0)
    go_on = asyncio.Event()

    async def attempt(failed: Failed) -> None:
        await go_on.wait()
        raise OSError("still broken")

    class Slow(KeptInMemory):
        async def drop(self, row: int) -> None:
            await super().drop(row)
            go_on.set()
            await run_ready_tasks()

        async def keep(self, failed: Failed) -> Failed:
            if go_on.is_set():
                await run_ready_tasks()
            return await super().keep(failed)

    kept = Slow()
    retries = Retries(kept, attempt, lambda: 1000.0)
    task = asyncio.create_task(retries.run())
    await retries.add(a_failed())
    retries.hurry()
    await run_ready_tasks()
    await retries.discard(1)
    await run_ready_tasks()
    await run_ready_tasks()
    assert (retries.waiting(), kept.rows) == ([], {})
    task.cancel()


async def test_moved_file_keeps_the_key_and_the_row_of_its_failed_reaction() -> None:
    bus, kept, recorder = TableBus(), KeptInMemory(), Faulty(OSError("still broken"))
    kept.rows[1] = replace(a_failed("/old/shipped.sls", id=1), shipped=True)
    kept._last = 1
    key = kept.rows[1].key
    engine = Reactor(RULES, bus, EchoRenderer(), recorder, kept)
    await run(engine, lambda: bool(recorder.keys))
    assert recorder.keys == [key]
    assert (kept.rows, engine.retries.waiting()) == ({}, [])


async def test_failure_is_kept_once_the_store_takes_it() -> None:
    class Down(KeptInMemory):
        left = 3

        async def keep(self, failed: Failed) -> Failed:
            self.left -= 1
            if self.left >= 0:
                raise TryLaterError("no space")
            return await super().keep(failed)

    bus, kept, recorder = TableBus(), Down(), Faulty(ValueError("x"))
    bus.add("go/1")
    engine = Reactor(RULES, bus, EchoRenderer(), recorder, kept)
    await run(engine, lambda: bool(recorder.done))
    assert (recorder.done, kept.left) == (["go/1"], -1)


async def test_reaction_kept_while_the_others_are_read_is_tried_too() -> None:
    class SlowKept(KeptInMemory):
        def __init__(self) -> None:
            super().__init__()
            self.read, self.go_on = asyncio.Event(), asyncio.Event()

        async def load(self) -> Sequence[Failed]:
            rows = await super().load()
            self.read.set()
            await self.go_on.wait()
            return rows

    kept = SlowKept()
    await kept.keep(a_failed(row=1))

    async def attempt(failed: Failed) -> None:
        raise AssertionError("nothing is tried here")

    retries = Retries(kept, attempt, lambda: 0.0)
    loading = asyncio.create_task(retries.load(lambda failed: failed))
    await kept.read.wait()
    await retries.add(a_failed(row=2))
    kept.go_on.set()
    await loading
    assert [failed.id for failed in retries.waiting()] == [1, 2]


@pytest.mark.parametrize("steps", range(5))
async def test_cancellation_that_coincides_with_a_change_ends_the_retries(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def attempt(failed: Failed) -> None:
        return

    # The retries wait for a time or a change.
    monkeypatch.setattr(retries_module, "FIRST_SECONDS", 5.0)
    retries = Retries(KeptInMemory(), attempt, lambda: 0.0)
    await retries.add(a_failed())
    task = asyncio.create_task(retries.run())
    await run_ready_tasks()
    retries._changed.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await run_ready_tasks()
    assert task.done()
